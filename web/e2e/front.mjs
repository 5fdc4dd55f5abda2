// The dashboard as it was built last, in front of a binary that was built before: what is in web/dist is answered from
// there, everything else is the server's. For pictures and for work on pages; tests look at the binary itself.
import { existsSync, readFileSync, statSync } from "node:fs";
import http from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export async function front(url) {
  const upstream = new URL(url);
  const server = http.createServer((request, response) => {
    const path = normalize(new URL(request.url, url).pathname);
    const file = join(DIST, path);
    const isFile = file.startsWith(DIST) && existsSync(file) && statSync(file).isFile();
    const isPage = request.method === "GET" && (request.headers.accept ?? "").includes("text/html");
    if (request.method === "GET" && (isFile || isPage)) {
      const name = isFile ? file : join(DIST, "index.html");
      response.writeHead(200, { "content-type": TYPES[extname(name)] ?? "application/octet-stream" });
      response.end(readFileSync(name));
      return;
    }
    const headers = { ...request.headers, host: upstream.host };
    delete headers.origin;
    const passed = http.request({ host: upstream.hostname, port: upstream.port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

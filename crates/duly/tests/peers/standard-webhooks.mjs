// A receiver as a user would write it in JavaScript: the official library checks each webhook with
// the secret that the caller gave in the path (base64url, because a secret has slashes). Prints one
// line per request: what was checked and how it ended.
import { createServer } from "node:http";
import { createHmac, timingSafeEqual } from "node:crypto";
import { createRequire } from "node:module";

// The library lies in the folder of tools, given as the only argument.
const { Webhook } = createRequire(process.argv[2] + "/")("standardwebhooks");

// The short form, checked by hand as the guide shows it.
function short(header, secret, body) {
  const parts = header.split(",").map((part) => part.split("="));
  const t = parts.find(([name]) => name === "t")[1];
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const wanted = createHmac("sha256", key).update(`${t}.${body}`).digest();
  return parts.some(([name, hex]) => {
    const given = Buffer.from(hex ?? "", "hex");
    return name === "v1" && given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    const secret = Buffer.from(request.url.slice(1), "base64url").toString();
    const result = { run: request.headers["x-run-id"], secret, error: null, short: false };
    try {
      new Webhook(secret).verify(body, request.headers);
      result.short = short(request.headers["x-scheduler-signature"], secret, body);
    } catch (error) {
      result.error = error.message;
    }
    response.statusCode = result.error || !result.short ? 422 : 200;
    response.end(JSON.stringify({ verified: !result.error }));
    console.log(JSON.stringify(result));
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

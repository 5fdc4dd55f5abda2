// A world for the tests: the real binary, a receiver of webhooks, a browser. Everything is on loopback,
// and everything that is started here is ended here.
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.DULY_BIN ?? join(root, "target/debug/duly");
const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Nothing here takes longer unless something is broken. */
export const PATIENCE_MS = 20_000;

/** `duly serve` on a free port, ready. A folder that is given is kept; one of its own goes with the server. */
export async function serve({ args = [], before, kept } = {}) {
  const folder = kept ?? mkdtempSync(join(tmpdir(), "duly-web-"));
  const data = join(folder, "data");
  const known = before ? await before(data) : undefined;
  const child = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0", "--data", data, "--log-level", "error", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.once("exit", () => reject(new Error(`duly ended: ${text}`)));
    child.stdout.on("data", (piece) => {
      text += piece;
      if (/^ready$/m.test(text)) resolve(/address +(\S+)/.exec(text)[1]);
    });
  });
  const ask = async (method, path, body, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
    return json;
  };
  const stop = async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
    if (!kept) rmSync(folder, { recursive: true, force: true });
  };
  return { url, data, ask, stop, known };
}

/** One command of the binary. */
export function duly(...args) {
  return new Promise((resolve, reject) => {
    const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (piece) => (text += piece));
    child.once("exit", (code) => (code === 0 ? resolve(text) : reject(new Error(`duly ${args.join(" ")}: ${code}`))));
  });
}

/** A folder whose scripts can import the TypeScript SDK, built with the dashboard's own compiler. */
export function scripts() {
  const folder = join(root, "target/web/scripts");
  const home = join(folder, "node_modules/duly-client");
  mkdirSync(home, { recursive: true });
  const sdk = join(root, "sdks/typescript");
  const compiler = join(root, "web/node_modules/typescript/bin/tsc");
  const types = join(root, "web/node_modules/@types");
  execFileSync(process.execPath, [compiler, "-p", join(sdk, "tsconfig.build.json"), "--outDir", join(home, "dist"), "--typeRoots", types], { stdio: "inherit" });
  copyFileSync(join(sdk, "package.json"), join(home, "package.json"));
  return folder;
}

/** The interpreter that scripts/web.sh has given what the Python SDK needs. */
const PYTHON = join(root, "target/sdks/venv/bin/python");

/** Runs code as a person would who copied it. Each child is ended by whoever started it. */
export function runCode(language, code, folder) {
  const env = { ...process.env, PYTHONPATH: join(root, "sdks/python/src"), PYTHONUNBUFFERED: "1" };
  if (language === "python") {
    if (!existsSync(PYTHON)) throw new Error("target/sdks/venv is missing: scripts/web.sh makes it");
    return watched(spawn(PYTHON, ["-c", code], { env, stdio: ["ignore", "pipe", "inherit"] }));
  }
  if (language === "typescript") {
    const file = join(folder, `code-${performance.now()}.mjs`);
    writeFileSync(file, code);
    return watched(spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "inherit"] }));
  }
  // The shell knows the binary under test by its usual name.
  const shell = `duly() { '${BINARY}' "$@"; }\n${code}`;
  return watched(spawn("bash", ["-c", shell], { env, stdio: ["ignore", "pipe", "inherit"] }));
}

function watched(child) {
  let text = "";
  child.stdout.on("data", (piece) => (text += piece));
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal, text })));
  return { ended, stop: (signal = "SIGTERM") => (child.kill(signal), ended) };
}

/** Answers webhooks: by address 200 with the body, 500, or nothing until `letGo`. */
export async function receive() {
  const heard = [];
  const held = [];
  const state = { broken: true, says: "<img src=x onerror=window.pwned=1>" };
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => {
      heard.push({ path: request.url, body });
      if (request.url.startsWith("/slow")) {
        held.push(response);
      } else if (request.url.startsWith("/broken") && state.broken) {
        response.writeHead(500);
        response.end(state.says);
      } else {
        response.end(request.url.startsWith("/evil") ? state.says : `ok ${body}`);
      }
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const stop = () => {
    held.forEach((response) => response.destroy());
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url, heard, state, stop };
}

export async function browse() {
  const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
  const complaints = [];
  const open = async (base, options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, baseURL: base, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.on("console", (message) => {
      // What the server refuses the browser logs too; the page says it where it belongs.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== new URL(base).origin && url.protocol !== "data:") complaints.push(`a request to ${url.origin}`);
    });
    return page;
  };
  return { open, complaints, close: () => browser.close() };
}

// After the build: removes files of earlier builds, and lays a .br and a .gz beside each file that gets
// smaller by it. The server sends them as they are.
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));

/** Everything that the page can reach, from index.html on. */
function reached() {
  const names = new Map(files.map((file) => [file.slice(dist.length + 1).replaceAll("\\", "/"), file]));
  const seen = new Set(["index.html", "theme.js", "favicon.svg"]);
  const open = ["index.html"];
  while (open.length > 0) {
    const text = readFileSync(names.get(open.pop()), "utf8");
    for (const [name] of names) {
      if (!seen.has(name) && name.startsWith("assets/") && text.includes(name.slice("assets/".length))) {
        seen.add(name);
        open.push(name);
      }
    }
  }
  return new Set([...seen].map((name) => names.get(name)));
}

const keep = reached();
for (const file of files) {
  if (!keep.has(file) && !file.endsWith(".gitignore")) rmSync(file);
}
for (const file of keep) {
  const bytes = readFileSync(file);
  const forms = {
    ".br": brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
    ".gz": gzipSync(bytes, { level: 9 }),
  };
  for (const [ending, form] of Object.entries(forms)) {
    if (form.length < bytes.length) writeFileSync(file + ending, form);
  }
}

// The first load is small: even all pages together, compressed as the server sends them at worst (gzip).
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const FIRST_LOAD_MAX = 250 * 1024;

test("everything compressed is at most 250 KB", (t) => {
  const dist = fileURLToPath(new URL("../dist", import.meta.url));
  const names = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith(".gz"));
  const bytes = names.reduce((sum, name) => sum + statSync(join(dist, name)).size, 0);
  t.diagnostic(`${names.length} files, ${Math.ceil(bytes / 1024)} KB with gzip`);
  assert.ok(names.length > 5, "the dashboard is built");
  assert.ok(bytes <= FIRST_LOAD_MAX, `${bytes} bytes`);
});

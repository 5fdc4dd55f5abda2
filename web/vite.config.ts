import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// While developing, the API is that of a server on this machine: DULY_URL, or the usual address.
const api = process.env.DULY_URL ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "dist",
    // The folder holds a .gitignore that must stay; scripts/compress.mjs removes what is left over.
    emptyOutDir: false,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: Object.fromEntries(["/v1", "/metrics", "/readyz"].map((path) => [path, api])) },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});

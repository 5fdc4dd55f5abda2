// Builds dist. `npm install <this folder>` elsewhere runs this, but installs no compiler here: then it is fetched first.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

const here = { cwd: import.meta.dirname, stdio: ["ignore", "ignore", "inherit"], shell: process.platform === "win32" };
const compiler = "node_modules/typescript/bin/tsc";
if (!existsSync(new URL(compiler, import.meta.url))) execFileSync("npm", ["ci", "--ignore-scripts", "--loglevel=error"], here);
execFileSync(process.execPath, [compiler, "-p", "tsconfig.build.json"], { ...here, stdio: "inherit", shell: false });

/** Prisma itself, generated for a schema with one table: its query compiler is WebAssembly of its package. */

import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import type { PrismaTransaction } from "../src/index.js";
import { PACKAGE } from "./server.js";

interface Transaction extends PrismaTransaction {
  order: { create(row: { data: { id: number } }): Promise<unknown>; count(): Promise<number> };
}

export interface Prisma extends Transaction {
  $transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  $disconnect(): Promise<void>;
}

const SCHEMA = `
generator client {
  provider = "prisma-client-js"
  output   = "."
}
datasource db {
  provider = "postgresql"
}
model Order {
  id Int @id
  @@map("orders")
}
`;

/** Where Prisma is installed, by scripts/sdks.sh. The generated client lies below, so that it finds its own runtime. */
export const PRISMA = join(PACKAGE, "tests/prisma");
const GENERATED = join(PRISMA, "generated");

export async function prisma(address: string): Promise<Prisma> {
  mkdirSync(GENERATED, { recursive: true });
  const schema = join(GENERATED, "source.prisma");
  writeFileSync(schema, SCHEMA);
  // `generate` downloads a binary for migrations unless one is named. It does not run it; any program will do.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1", PRISMA_HIDE_UPDATE_MESSAGE: "1" };
  await promisify(execFile)(process.execPath, [join(PRISMA, "node_modules/prisma/build/index.js"), "generate", "--schema", schema], { env, cwd: GENERATED });
  const require = createRequire(join(PRISMA, "package.json"));
  const { PrismaClient } = require("./generated") as { PrismaClient: new (options: unknown) => Prisma };
  const { PrismaPg } = require("@prisma/adapter-pg") as { PrismaPg: new (options: unknown) => unknown };
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: address }) });
}

/** Jobs inside transactions, with the drivers themselves, on a real PostgreSQL. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import pg from "pg";
import { Client, submitToOutbox, type JobRequest } from "../src/index.js";
import { PRISMA, prisma, type Prisma } from "./prisma.js";
import { Duly, PACKAGE, Postgres, REPOSITORY } from "./server.js";

describe("outbox", () => {
  let postgres: Postgres;
  let server: Duly;
  let client: Client;
  let sql: pg.Client;
  let db: Prisma;
  const queueOf = (): string => `q-${randomUUID().slice(0, 13)}`;
  const job = (queue: string, n: number): JobRequest => ({ target: { worker: { kind: "k" } }, queue, payload: { n } });

  /** Waits for as many runs, in the order in which they are handed out; there are no others. */
  async function heard(queue: string, count: number): Promise<unknown[]> {
    const runs = [];
    while (runs.length < count) runs.push(...(await client.claim("w", [queue], { max: 100, wait: "20s" })).runs);
    assert.equal((await client.claim("w", [queue], { wait: "0s" })).runs.length, 0);
    return runs.map((run) => run.payload);
  }

  before(async () => {
    postgres = await Postgres.start();
    await postgres.install();
    server = await Duly.start("--outbox", `shop=${postgres.address}`);
    client = new Client(server.url);
    sql = new pg.Client(postgres.address);
    await sql.connect();
    await sql.query("CREATE TABLE orders (id int PRIMARY KEY)");
    db = await prisma(postgres.address);
  });
  after(async () => {
    await db.$disconnect();
    await sql.end();
    await server.stop();
    await postgres.stop();
  });

  test("a client of node-postgres", async () => {
    const queue = queueOf();
    await sql.query("BEGIN");
    await submitToOutbox(sql, job(queue, 1));
    await sql.query("ROLLBACK");
    await sql.query("BEGIN");
    const first = await submitToOutbox(sql, job(queue, 2));
    const second = await submitToOutbox(sql, job(queue, 3), { ordered: true });
    assert.ok(second > first);
    await sql.query("COMMIT");
    assert.deepEqual(await heard(queue, 2), [{ n: 2 }, { n: 3 }]);
  });

  test("a pool's client, but no pool", async () => {
    const queue = queueOf();
    const pool = new pg.Pool({ connectionString: postgres.address });
    await assert.rejects(submitToOutbox(pool, job(queue, 1)), /pool\.connect\(\)/);
    const own = await pool.connect();
    await submitToOutbox(own, job(queue, 2));
    own.release();
    await pool.end();
    assert.deepEqual(await heard(queue, 1), [{ n: 2 }]);
  });

  test("a transaction of Prisma", async () => {
    const queue = queueOf();
    const id = await db.$transaction(async (tx) => {
      await tx.order.create({ data: { id: 1 } });
      return submitToOutbox(tx, job(queue, 1), { ordered: true });
    });
    assert.equal(typeof id, "bigint");
    const fails = db.$transaction(async (tx) => {
      await tx.order.create({ data: { id: 2 } });
      await submitToOutbox(tx, job(queue, 2));
      throw new Error("rolled back");
    });
    await assert.rejects(fails, /rolled back/);
    assert.equal(await db.order.count(), 1);
    // Without a transaction of yours the call is one of its own.
    await submitToOutbox(db, job(queue, 3));
    assert.deepEqual(await heard(queue, 2), [{ n: 1 }, { n: 3 }]);
  });

  test("what is wrong is said", async () => {
    await assert.rejects(submitToOutbox(sql, job("q", 1), { schema: "a;b" }), /lower-case/);
    await assert.rejects(submitToOutbox(sql, job("q", 1), { schema: "elsewhere" }), /elsewhere/);
  });

  test("the guide", async () => {
    const guide = readFileSync(join(REPOSITORY, "docs/guides/outbox.md"), "utf8");
    const [, block = ""] = /```typescript\n([\s\S]*?)```/.exec(guide) ?? [];
    const folder = mkdtempSync(join(tmpdir(), "duly-guide-"));
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(PACKAGE, join(folder, "node_modules/duly-client"));
    symlinkSync(join(PACKAGE, "node_modules/pg"), join(folder, "node_modules/pg"));
    const around = `
      import pg from "pg";
      const client = new pg.Client(${JSON.stringify(postgres.address)});
      await client.connect();
      import { createRequire } from "node:module";
      const require = createRequire(${JSON.stringify(join(PRISMA, "package.json"))});
      const { PrismaClient } = require("./generated");
      const { PrismaPg } = require("@prisma/adapter-pg");
      const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: ${JSON.stringify(postgres.address)} }) });
      ${block}
      await prisma.$disconnect();
      await client.end();`;
    writeFileSync(join(folder, "guide.mjs"), around);
    await promisify(execFile)(process.execPath, [join(folder, "guide.mjs")]);
    rmSync(folder, { recursive: true });
    assert.deepEqual(await heard("default", 2), [{ order: 42 }, { order: 43 }]);
  });
});

/**
 * Jobs inside your own PostgreSQL transactions: committed is submitted once, rolled back is never. The database needs
 * `duly outbox install`, and the server `--outbox`.
 */

import type * as t from "./types.js";

/** A client of node-postgres with a transaction of yours. */
export interface PgTransaction {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** What `prisma.$transaction` gives. */
export interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...values: unknown[]): PromiseLike<unknown>;
}

export interface OutboxOptions {
  /**
   * Transactions that submit to the same queue and group wait for each other, and come in the order of their commits.
   */
  ordered?: boolean;
  /** The name that `duly outbox install --schema` was given. */
  schema?: string;
}

const NAME = /^[a-z_][a-z0-9_]{0,62}$/;

/** Submits a job when the transaction commits. Returns its number in the outbox. */
export async function submitToOutbox(transaction: PgTransaction | PrismaTransaction, job: t.JobRequest, options: OutboxOptions = {}): Promise<bigint> {
  const { ordered = false, schema = "duly_outbox" } = options;
  if (!NAME.test(schema)) throw new TypeError(`schema ${JSON.stringify(schema)}: 1 to 63 lower-case letters, digits and _ are expected`);
  if ("totalCount" in transaction && "idleCount" in transaction) {
    throw new TypeError("a pool has no transaction: take a client with pool.connect() and submit with it");
  }
  const sql = `SELECT ${schema}.submit($1::text, $2::boolean) AS id`;
  const text = JSON.stringify(job);
  const rows = "$queryRawUnsafe" in transaction ? await transaction.$queryRawUnsafe(sql, text, ordered) : (await transaction.query(sql, [text, ordered])).rows;
  const [row] = rows as { id: string | bigint }[];
  if (row === undefined) throw new Error("the outbox gave no number");
  return BigInt(row.id);
}

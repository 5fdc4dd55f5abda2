/** The real server for the tests, and a proxy in front of it that loses answers when it is told to. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

/** The package's folder: tests run from out/tests. */
export const PACKAGE = resolve(import.meta.dirname, "../..");
export const REPOSITORY = resolve(PACKAGE, "../..");
const SCRIPT = join(REPOSITORY, "scripts/postgres.sh");
const run = promisify(execFile);
const BINARY = process.env["DULY_BIN"] ?? join(REPOSITORY, "target/debug/duly");

/** `duly serve` on a port of its own, with data of its own. */
export class Duly {
  private constructor(
    readonly url: string,
    readonly process: ChildProcess,
    readonly folder: string,
  ) {}

  static async start(...args: string[]): Promise<Duly> {
    const folder = await mkdtemp(join(tmpdir(), "duly-"));
    const process = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0", "--data", join(folder, "data"), "--log-level", "error", ...args], { stdio: ["ignore", "pipe", "inherit"] });
    let url = "";
    for await (const line of createInterface({ input: process.stdout })) {
      url = /^ *address +(\S+)/.exec(line)?.[1] ?? url;
      if (line.trim() === "ready") return new Duly(url, process, folder);
    }
    throw new Error("the server did not become ready");
  }

  async stop(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A PostgreSQL of its own. */
export class Postgres {
  private constructor(
    readonly address: string,
    readonly folder: string,
  ) {}

  static async start(): Promise<Postgres> {
    const folder = await mkdtemp(join(tmpdir(), "duly-postgres-"));
    const probe = createServer();
    await new Promise<void>((listening) => probe.listen(0, "127.0.0.1", listening));
    const { port } = probe.address() as AddressInfo;
    await new Promise((closed) => probe.close(closed));
    const { stdout } = await run(SCRIPT, ["start", folder, String(port)]);
    return new Postgres(stdout.trim(), folder);
  }

  /** Makes the outbox. */
  async install(): Promise<void> {
    await run(BINARY, ["outbox", "install", "--database", this.address]);
  }

  async stop(): Promise<void> {
    await run(SCRIPT, ["stop", this.folder]);
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Passes bytes. `lose` cuts connections instead of passing an answer on; `cut` refuses everything. */
export class Proxy {
  readonly #lost = new Map<string, number>();
  readonly #open = new Set<Socket>();
  #cut = false;

  private constructor(
    readonly url: string,
    readonly server: Server,
  ) {}

  static async start(upstream: string): Promise<Proxy> {
    const { hostname, port } = new URL(upstream);
    const server = createServer((client) => {
      proxy.#pass(client, hostname, Number(port));
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const proxy: Proxy = new Proxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
    return proxy;
  }

  lose(path: string, answers: number): void {
    this.#lost.set(path, answers);
  }

  cut(on: boolean): void {
    this.#cut = on;
    if (on) for (const socket of this.#open) socket.destroy();
  }

  stop(): void {
    this.cut(true);
    this.server.close();
  }

  #pass(client: Socket, host: string, port: number): void {
    if (this.#cut) {
      client.destroy();
      return;
    }
    const upstream = connect(port, host);
    let doomed = false;
    const end = (): void => {
      client.destroy();
      upstream.destroy();
      this.#open.delete(client);
      this.#open.delete(upstream);
    };
    for (const socket of [client, upstream]) {
      this.#open.add(socket);
      socket.setNoDelay(true);
      socket.on("error", end).on("close", end);
    }
    client.on("data", (chunk: Buffer) => {
      const [verb = "", path = ""] = chunk.subarray(0, 200).toString("latin1").split(" ");
      if (["GET", "POST", "PUT"].includes(verb) && this.#isLost(path)) doomed = true;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk: Buffer) => {
      if (doomed) end();
      else client.write(chunk);
    });
  }

  #isLost(path: string): boolean {
    const left = this.#lost.get(path) ?? 0;
    this.#lost.set(path, Math.max(0, left - 1));
    return left > 0;
  }
}

/**
 * HTTP with kept connections (Node's own fetch) and retries with backoff. Every request of this package may be sent twice:
 * it reads, says the same state again, or carries a key or a request id.
 */

import { ApiError, TransportError, fromProblem, mayPass, type Problem } from "./errors.js";

/** How transport errors and refusals that may pass are retried: jitter between half and whole. Milliseconds. */
export interface Backoff {
  retries: number;
  initial: number;
  factor: number;
  cap: number;
}

export const BACKOFF: Backoff = { retries: 6, initial: 100, factor: 2, cap: 5_000 };

export interface Server {
  url: string;
  headers: Record<string, string>;
  /** Milliseconds for one try. */
  timeout: number;
  backoff: Backoff;
}

export interface ServerOptions {
  /** DULY_URL, or http://127.0.0.1:7070, unless given. */
  url?: string;
  /** DULY_API_KEY unless given. */
  apiKey?: string;
  /** DULY_NAMESPACE unless given. */
  namespace?: string;
  timeout?: number;
  backoff?: Partial<Backoff>;
}

export interface Call {
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  timeout?: number;
  signal?: AbortSignal;
}

export function serverOf(options: ServerOptions): Server {
  const url = options.url ?? process.env["DULY_URL"] ?? "http://127.0.0.1:7070";
  if (!/^https?:\/\/./.test(url)) throw new TypeError(`"${url}" is not the URL of a server, such as http://127.0.0.1:7070`);
  const headers: Record<string, string> = { accept: "application/json", "user-agent": "duly-client-typescript/0.1.0" };
  const key = options.apiKey ?? process.env["DULY_API_KEY"];
  if (key) headers["authorization"] = `Bearer ${key}`;
  const namespace = options.namespace ?? process.env["DULY_NAMESPACE"];
  if (namespace) headers["x-namespace"] = namespace;
  return { url: url.replace(/\/+$/, ""), headers, timeout: options.timeout ?? 30_000, backoff: { ...BACKOFF, ...options.backoff } };
}

/** How long to wait before the next try: what the server asks for, within the cap, or the backoff. */
export function pauseOf(backoff: Backoff, error: unknown, attempt: number): number {
  const whole = Math.min(backoff.cap, backoff.initial * backoff.factor ** Math.min(attempt, 32));
  const delay = whole * (0.5 + Math.random() / 2);
  const asked = error instanceof ApiError ? error.retryAfter : undefined;
  return asked === undefined ? delay : Math.max(delay, Math.min(asked * 1_000, backoff.cap));
}

/** Waits, or less if the signal says so. */
export function sleep(length: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, length);
    signal?.addEventListener("abort", done);
  });
}

/** The document of the answer, or a typed error. Transport errors and 429, 503 and the like are retried. */
export async function call(server: Server, method: string, path: string, options: Call = {}): Promise<unknown> {
  const text = options.body === undefined ? undefined : JSON.stringify(options.body);
  for (let attempt = 0; ; attempt++) {
    try {
      return await once(server, method, path, text, options);
    } catch (error) {
      if (attempt >= server.backoff.retries || !mayPass(error) || options.signal?.aborted) throw error;
      await sleep(pauseOf(server.backoff, error, attempt), options.signal);
    }
  }
}

/** One try, with a body that is JSON already. */
export async function once(server: Server, method: string, path: string, text: string | undefined, options: Omit<Call, "body"> = {}): Promise<unknown> {
  const headers: Record<string, string> = { ...server.headers, ...options.headers };
  if (method !== "GET") headers["content-type"] ??= "application/json";
  const limit = AbortSignal.timeout(Math.ceil(options.timeout ?? server.timeout));
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let response: Response;
  let answer: string;
  try {
    response = await fetch(server.url + path + queryText(options.query), { method, headers, signal, redirect: "manual", ...(text === undefined ? {} : { body: text }) });
    answer = await response.text();
  } catch (error) {
    throw new TransportError(`${method} ${path}: ${reasonOf(error)}`, { cause: error });
  }
  if (response.status < 300) return answer === "" ? null : (JSON.parse(answer) as unknown);
  const after = response.headers.get("retry-after") ?? "";
  throw fromProblem(problemOf(answer), response.status, /^[0-9]+$/.test(after) ? Number(after) : undefined);
}

function problemOf(answer: string): Problem {
  try {
    const read = JSON.parse(answer) as unknown;
    if (typeof read === "object" && read !== null) return read;
  } catch {
    // Not of our server: what it said is the detail.
  }
  return { code: "unknown", detail: answer.slice(0, 200) };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause;
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}

function queryText(query: Call["query"]): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString()}`;
}


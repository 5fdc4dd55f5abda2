// The API as the public document describes it: types come from openapi.json, nothing is written twice.
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type Run = Schemas["Run"];
export type Queue = Schemas["Queue"];
export type Worker = Schemas["Worker"];
export type Hold = Schemas["Hold"];
export type Operation = Schemas["Operation"];
export type Problem = Schemas["Problem"];
export type FieldFault = Schemas["FieldFault"];

const KEY = "duly.key";

/** The key lives as long as the tab: a closed browser keeps no secret. */
export const key = {
  get: (): string | null => sessionStorage.getItem(KEY),
  set: (value: string): void => sessionStorage.setItem(KEY, value),
  forget: (): void => sessionStorage.removeItem(KEY),
};

export function authorization(): Record<string, string> {
  const held = key.get();
  return held ? { Authorization: `Bearer ${held}` } : {};
}

/** Every refusal and every failed connection, as one kind of error that says what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Partial<Problem>,
  ) {
    super(problem.detail ?? "the server gave no reason");
  }

  /** What a person can do about it. */
  get help(): string {
    if (this.status === 0) return "Check that duly serve is running at this address; the page tries again by itself.";
    if (this.status === 401) return "Sign in with an API key; duly key create makes one.";
    if (this.status === 403) return "Sign in with a key whose scope allows it, or ask whoever runs the server.";
    if (this.status === 404) return "It may have ended and been forgotten, or the address has a typing error.";
    if (this.status === 409) return "It changed in the meantime. Look at its state now, then decide again.";
    if (this.status === 410) return "It is past its retention; only its aggregate remains.";
    if (this.status === 412) return "Somebody changed it while you looked. Load it again, then repeat your change.";
    if (this.status === 422) return "Mend the fields that are marked and send it again.";
    if (this.status === 507) return "The store is full. Make room on its disk; nothing that was accepted is lost.";
    if (this.problem.retryable || this.status === 429) return "Nothing is wrong with the request. Try again in a moment.";
    return `Look in the server's log for ${this.problem.request_id ?? "this time"}.`;
  }

  get faults(): FieldFault[] {
    return this.problem.errors ?? [];
  }
}

const listeners = new Set<() => void>();

/** Told when the server wants a key that we do not have. */
export function onUnauthorized(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export async function refused(response: Response): Promise<ApiError> {
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  if (response.status === 401) listeners.forEach((listener) => listener());
  return new ApiError(response.status, problem);
}

const door: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(authorization())) request.headers.set(name, value);
    // Verbs without a body are writes too, and writes say that they are JSON.
    if (request.method !== "GET" && !request.headers.has("content-type")) {
      request.headers.set("content-type", "application/json");
    }
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await refused(response);
    return response;
  },
  onError({ error }) {
    if (error instanceof ApiError || (error instanceof DOMException && error.name === "AbortError")) return error;
    return new ApiError(0, { detail: "The server does not answer." });
  },
};

export const api = createClient<paths>({ baseUrl: "/" });
api.use(door);

/** The answer's body; a refusal was thrown before. */
export async function got<T>(answer: Promise<{ data?: T }>): Promise<T> {
  const { data } = await answer;
  if (data === undefined) throw new ApiError(0, { detail: "The server answered nothing." });
  return data;
}

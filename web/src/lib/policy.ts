// A job's target and policy in words.
import { words } from "./format";

type Part = Record<string, unknown>;
const part = (value: unknown): Part => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Part) : {});

export function targetWords(target: unknown): string {
  const [kind = "", what] = Object.entries((target ?? {}) as Record<string, Record<string, unknown>>)[0] ?? [];
  const detail = what?.url ?? what?.kind ?? (Array.isArray(what?.argv) ? what.argv.join(" ") : undefined);
  if (kind === "publish") return `publish to ${Object.keys(what ?? {})[0] ?? "a broker"}`;
  if (kind === "http") return String(detail ?? "");
  return detail ? `${kind} ${String(detail)}` : words(kind);
}

/** `5 retries: after 10s, then times 4, at most 1h; never after 400, 422`. */
export function retryWords(retry: unknown): string {
  const { max_retries, initial, factor, cap, permanent } = part(retry);
  if (max_retries === undefined) return "–";
  if (max_retries === 0) return "none: one attempt";
  const times = `${String(max_retries)} ${max_retries === 1 ? "retry" : "retries"}`;
  const steps = [initial && `after ${String(initial)}`, factor && `then times ${String(factor)}`, cap && `at most ${String(cap)}`].filter(Boolean);
  const never = Array.isArray(permanent) && permanent.length > 0 ? `; never after ${permanent.join(", ")}` : "";
  return `${times}${steps.length > 0 ? `: ${steps.join(", ")}` : ""}${never}`;
}

const CATCH_UP: Record<string, string> = {
  once: "one run for all missed instants",
  skip: "missed instants are skipped",
  all: "a run for each missed instant",
};

export function catchUpWords(catchUp: unknown): string {
  const { policy, window, max, rate } = part(catchUp);
  if (typeof policy !== "string") return "–";
  const bounds = [window && `of the last ${String(window)}`, max && `at most ${String(max)}`, rate && `${String(rate)} per second`].filter(Boolean);
  return [CATCH_UP[policy] ?? policy, ...bounds].join(", ");
}

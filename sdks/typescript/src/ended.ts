/** How runs end. */

import { Fail, Release, Retry, Snooze, type Held } from "./held.js";
import { instantText, lengthText, millis, type Length } from "./time.js";

/** What is kept of an error. */
const ERROR_MAX = 4_096;
/** The largest output of a run, in bytes of JSON. */
const OUTPUT_BYTES_MAX = 16 * 1_024;

export type Outcome = "succeeded" | "failed" | "snoozed" | "released";

export interface Ended {
  held: Held;
  outcome: Outcome;
  /** The rest of the item, as JSON. */
  text: string;
}

/** A handler stopped because it was told to. */
export function stopped(held: Held): Ended {
  if (held.reason === "cancelled") return failure(held, "stopped: it was cancelled", { retryable: false });
  if (held.reason === "deadline") return failure(held, "stopped: its time was over");
  return { held, outcome: "released", text: "" };
}

export function failure(held: Held, message: string, options: { retryable?: boolean; code?: number | undefined; after?: Length | undefined } = {}): Ended {
  const error = JSON.stringify({ code: options.code, message: message.slice(0, ERROR_MAX) });
  const after = options.after === undefined ? "" : `,"retry_after":${JSON.stringify(lengthText(options.after))}`;
  return { held, outcome: "failed", text: `,"error":${error},"retryable":${String(options.retryable ?? true)}${after}` };
}

/** A handler returned: what is said of its output. */
export function succeeded(held: Held, output: unknown): Ended {
  if (output === undefined || output === null) return { held, outcome: "succeeded", text: "" };
  let text: string | undefined;
  try {
    text = JSON.stringify(output) as string | undefined;
  } catch (error) {
    return failure(held, `the output of ${held.run.kind} is not JSON: ${String(error)}`, { retryable: false });
  }
  if (text === undefined) return failure(held, `the output of ${held.run.kind} is not JSON`, { retryable: false });
  if (Buffer.byteLength(text) > OUTPUT_BYTES_MAX) return failure(held, `the output has more than ${OUTPUT_BYTES_MAX} bytes`, { retryable: false });
  return { held, outcome: "succeeded", text: `,"output":${text}` };
}

/** What an error says about the end of a run. */
export function concluded(held: Held, error: unknown, log: (message: string, error: unknown) => void): Ended {
  if (held.reason !== undefined) return stopped(held);
  if (error instanceof Snooze) {
    const until = "until" in error.when ? instantText(error.when.until) : new Date(Date.now() + millis(error.when.delay)).toISOString();
    return { held, outcome: "snoozed", text: `,"until":${JSON.stringify(until)}` };
  }
  if (error instanceof Release) return { held, outcome: "released", text: "" };
  if (error instanceof Fail) return failure(held, error.message, { retryable: false, code: error.code });
  if (error instanceof Retry) return failure(held, error.message, { code: error.code, after: error.after });
  log(`${held.run.kind} of ${held.run.run_id} failed`, error);
  return failure(held, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}

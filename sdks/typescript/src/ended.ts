/** How runs end. */

import type { Held } from "./held.js";
import { lengthText, type Length } from "./time.js";

/** What is kept of an error. */
const ERROR_MAX = 4_096;

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

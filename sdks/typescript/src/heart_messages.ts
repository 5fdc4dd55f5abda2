/** What the worker and its heart say to each other. */

import type { Reason } from "./held.js";
import type { Server } from "./transport.js";
import type { Signal } from "./types.js";

export interface HeartData {
  server: Server;
  name: string;
  /** Milliseconds. */
  lease: number;
  /** What the worker says of itself, and how many handlers run: shared, so that it is true also while they block. */
  about: Record<string, unknown>;
  load: Int32Array;
}

export interface HoldItem {
  key: string;
  run: string;
  token: number;
  deadlineAt: number;
  /** Is its handler stopped when its lease is unknown? */
  stops: boolean;
  /** Does it wait for a first answer before it begins? */
  confirm: boolean;
}

export type ToHeart =
  | { type: "hold"; sent: number; runs: HoldItem[] }
  | { type: "drop"; keys: string[] }
  | { type: "progress"; key: string; text: string }
  | { type: "checkpoint"; key: string; text: string; number: number }
  | { type: "quiet"; on: boolean };

export type FromHeart =
  | { type: "told"; key: string; reason: Reason }
  | { type: "unknown"; key: string; stop: boolean }
  | { type: "renewed" | "confirmed" | "stale"; key: string }
  | { type: "stored"; numbers: number[]; lost: boolean; refused?: string }
  | { type: "signal"; signal: Signal };

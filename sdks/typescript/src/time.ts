/** Lengths and instants: the text of the interface, and the clock that leases are counted by. */

/** "1h30m" or "250ms" as the interface writes it, or milliseconds. */
export type Length = string | number;

const UNITS: Record<string, number> = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1, us: 0.001 };

/** Milliseconds that pass for every thread of this process alike, also while it is stopped. */
export function now(): number {
  const [seconds, nanos] = process.hrtime();
  return seconds * 1_000 + nanos / 1e6;
}

export function millis(length: Length): number {
  if (typeof length === "number") return length;
  let sum = 0;
  let read = "";
  for (const [whole, count, unit] of length.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|us|w|d|h|m|s)/g)) {
    sum += Number(count) * (UNITS[unit ?? ""] ?? NaN);
    read += whole;
  }
  if (read !== length || read === "") throw new RangeError(`"${length}" is not a length such as 1h30m, 20s or 250ms`);
  return sum;
}

/** The length as the interface wants it. */
export function lengthText(length: Length): string {
  return typeof length === "string" ? length : `${Math.max(0, Math.round(length * 1_000))}us`;
}

/** The instant as the interface wants it. */
export function instantText(at: Date | string): string {
  return typeof at === "string" ? at : at.toISOString();
}

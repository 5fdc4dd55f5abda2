// Versions of a job's definition: who made one, and what it said where it differs from the one before.
import type { Schemas } from "../api/client";

export type Version = Schemas["JobVersion"];

/** What a definition says at a place; undefined where it says nothing. */
export interface Difference {
  /** `schedule.cron` */
  place: string;
  before: unknown;
  after: unknown;
}

/** A JSON pointer's names (RFC 6901). */
function names(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function said(definition: unknown, path: string[]): unknown {
  return path.reduce<unknown>((part, name) => {
    if (typeof part !== "object" || part === null || Array.isArray(part)) return undefined;
    return Object.hasOwn(part, name) ? (part as Record<string, unknown>)[name] : undefined;
  }, definition);
}

/** What the server says has changed, with both sides of it. None where the version before is not kept. */
export function differences(version: Version, all: Version[]): Difference[] {
  const before = all.find((one) => one.version === version.changed_from);
  if (!before) return [];
  return (version.changed ?? []).map((pointer) => {
    const path = names(pointer);
    return { place: path.join("."), before: said(before.definition, path), after: said(version.definition, path) };
  });
}

/** A value on one line; a text is shown as it is. */
export function shortly(value: unknown): string {
  if (value === undefined) return "nothing";
  return typeof value === "string" && value !== "" ? value : JSON.stringify(value);
}

/** Both sides look the same although they differ: a covered password, spaces, digits beyond what is shown. */
export function looksSame({ before, after }: Difference): boolean {
  return shortly(before) === shortly(after);
}

export function madeBy(by: Version["by"]): string {
  if (by.kind === "key") return by.name ? `key ${by.name}` : `key ${by.key_id ?? ""}`;
  return by.kind === "no_key" ? "no key" : "not known";
}

// A queue's limits as a form holds them: every field a text. An empty field is no limit, and says so to the server.
import type { FieldFault } from "../api/client";

interface Limit {
  max_running?: number | null;
  rate?: string | null;
  burst?: number | null;
}

export interface Limits extends Limit {
  groups?: (Limit & { weights?: Record<string, number> | null }) | null;
  start_within?: string | null;
}

export interface LimitsForm {
  max_running: string;
  rate: string;
  burst: string;
  group_max_running: string;
  group_rate: string;
  group_burst: string;
  weights: string;
  start_within: string;
}

export type LimitField = keyof LimitsForm;

const text = (value: number | string | null | undefined) => (value === null || value === undefined ? "" : String(value));

export function fromLimits(limits: Limits): LimitsForm {
  const weights = Object.entries(limits.groups?.weights ?? {});
  return {
    max_running: text(limits.max_running),
    rate: text(limits.rate),
    burst: text(limits.burst),
    group_max_running: text(limits.groups?.max_running),
    group_rate: text(limits.groups?.rate),
    group_burst: text(limits.groups?.burst),
    weights: weights.map(([group, weight]) => `${group}: ${weight}`).join("\n"),
    start_within: text(limits.start_within),
  };
}

/** Numbers are sent as numbers; what is none is sent as it is, and the server says what it expects. */
function given(value: string): number | string | null {
  const n = Number(value);
  if (value.trim() === "") return null;
  return Number.isFinite(n) ? n : value.trim();
}

const said = (value: string) => (value.trim() === "" ? null : value.trim());

/** What is sent replaces everything: what the form has no field for stays as it was. */
export function toLimits(form: LimitsForm, before: Limits): { limits: Limits; faults: FieldFault[] } {
  const faults: FieldFault[] = [];
  const weights: [string, number][] = [];
  for (const line of form.weights.split("\n").filter((line) => line.trim() !== "")) {
    // A group's name may have a colon: the last one counts.
    const at = line.lastIndexOf(":");
    const weight = Number(line.slice(at + 1));
    if (at < 1 || line.slice(at + 1).trim() === "" || !Number.isFinite(weight)) {
      faults.push({ pointer: "/groups/weights", message: `“${line.trim()}” is not group: weight, such as cust-42: 3` });
    } else {
      weights.push([line.slice(0, at).trim(), weight]);
    }
  }
  const limits = {
    ...before,
    max_running: given(form.max_running),
    rate: said(form.rate),
    burst: given(form.burst),
    groups: {
      ...before.groups,
      max_running: given(form.group_max_running),
      rate: said(form.group_rate),
      burst: given(form.group_burst),
      weights: Object.fromEntries(weights),
    },
    start_within: said(form.start_within),
  };
  return { limits: limits as Limits, faults };
}

const PLACES: [string, LimitField][] = [
  ["/groups/max_running", "group_max_running"],
  ["/groups/rate", "group_rate"],
  ["/groups/burst", "group_burst"],
  ["/groups/weights", "weights"],
  ["/groups", "group_max_running"],
  ["/max_running", "max_running"],
  ["/rate", "rate"],
  ["/burst", "burst"],
  ["/start_within", "start_within"],
];

/** What stands at each field, and what stands at none. */
export function limitFaults(faults: FieldFault[]): { at: Partial<Record<LimitField, string>>; other: FieldFault[] } {
  const at: Partial<Record<LimitField, string>> = {};
  const other: FieldFault[] = [];
  for (const fault of faults) {
    const field = PLACES.find(([place]) => fault.pointer === place || fault.pointer.startsWith(`${place}/`))?.[1];
    if (field) at[field] ??= fault.message;
    else other.push(fault);
  }
  return { at, other };
}

// The smallest merge patch (RFC 7396) that turns one document into another.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, at) => same(one, b[at]));
  if (isObject(a) && isObject(b)) {
    const names = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...names].every((name) => same(a[name], b[name]));
  }
  return a === b;
}

/** Undefined where nothing differs. */
export function patch(from: Json | undefined, to: Json | undefined): Json | undefined {
  if (same(from, to)) return undefined;
  if (to === undefined) return null;
  if (!isObject(from) || !isObject(to)) return to;
  const changes: { [name: string]: Json } = {};
  for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const change = patch(from[name], to[name]);
    if (change !== undefined) changes[name] = change;
  }
  return changes;
}

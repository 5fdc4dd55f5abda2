/** Webhooks as duly signs them (Standard Webhooks): check one before its body is read. */

import { createHmac, timingSafeEqual } from "node:crypto";
import { WebhookError } from "./errors.js";

export interface VerifyOptions {
  /** Older or newer timestamps than so many seconds are refused; 300 unless given. */
  tolerance?: number;
  /** Unix seconds; the clock's unless given. */
  now?: number;
}

type HeaderBag = Headers | Record<string, string | string[] | undefined>;

/**
 * Returns the webhook's id, which is the run's id, or throws WebhookError. `body` must be what came, not a document that
 * was read and written again. While secrets rotate, give all that may sign: one that fits is enough.
 */
export function verify(headers: HeaderBag, body: string | Uint8Array, secrets: string | Iterable<string>, options: VerifyOptions = {}): string {
  const id = header(headers, "webhook-id");
  const stamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  if (!/^[0-9]+$/.test(stamp)) throw new WebhookError("webhook-timestamp is not a number of seconds");
  const now = options.now ?? Date.now() / 1_000;
  if (Math.abs(now - Number(stamp)) > (options.tolerance ?? 300)) throw new WebhookError("webhook-timestamp is too far from now");
  const keys = [...(typeof secrets === "string" ? [secrets] : secrets)].map(keyOf);
  if (keys.length === 0) throw new WebhookError("no secret was given");
  const given = signatures.split(" ").filter((part) => part.startsWith("v1,")).map((part) => Buffer.from(part.slice(3)));
  for (const key of keys) {
    const digest = createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest("base64");
    const wanted = Buffer.from(digest);
    if (given.some((one) => one.length === wanted.length && timingSafeEqual(one, wanted))) return id;
  }
  throw new WebhookError("no signature fits");
}

function header(headers: HeaderBag, name: string): string {
  let value: string | string[] | null | undefined;
  if (headers instanceof Headers) value = headers.get(name);
  else value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  const one = Array.isArray(value) ? value[0] : value;
  if (!one) throw new WebhookError(`the header ${name} is missing`);
  return one;
}

function keyOf(secret: string): Buffer {
  const text = secret.startsWith("whsec_") ? secret.slice(6) : secret;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) throw new WebhookError("a secret looks like whsec_ and base64");
  return Buffer.from(text, "base64");
}

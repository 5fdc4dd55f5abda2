// Numbers, lengths of time and instants for people.

const units: [string, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];

/** At most two units: `2h 5m`, `12.3 s`, `340 ms`. */
export function span(ms: number): string {
  const sign = ms < 0 ? "−" : "";
  const abs = Math.abs(ms);
  if (abs < 1) return abs === 0 ? "0 ms" : `${sign}<1 ms`;
  if (abs < 1_000) return `${sign}${Math.round(abs)} ms`;
  if (abs < 10_000) return `${sign}${(Math.floor(abs / 100) / 10).toFixed(1)} s`;
  let rest = Math.floor(abs / 1_000) * 1_000;
  const parts: string[] = [];
  for (const [name, size] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return sign + parts.join(" ");
}

/** `in 5m`, `3s ago`, `now`. */
export function fromNow(at: number, now: number): string {
  const ms = at - now;
  if (Math.abs(ms) < 1_000) return "now";
  const whole = Math.trunc(ms / 1_000) * 1_000;
  const text = span(Math.abs(whole)).replace(/^(\d+)\.\d s$/, "$1s");
  return ms > 0 ? `in ${text}` : `${text} ago`;
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

/** Numbers of queues stop at 10,000. */
export function capped(n: number): string {
  return n >= 10_000 ? "10,000+" : count(n);
}

export function rate(n: number): string {
  if (n === 0) return "0";
  if (n < 10) return n.toFixed(1);
  return count(Math.round(n));
}

function pad(n: number, length = 2): string {
  return String(n).padStart(length, "0");
}

/** The viewer's zone: the time alone today, else with the date. */
export function localTime(at: Date, now: Date, seconds = true): string {
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}${seconds ? `:${pad(at.getSeconds())}` : ""}`;
  if (at.toDateString() === now.toDateString()) return time;
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.getFullYear() === now.getFullYear() ? `${day} ${time}` : `${day} ${at.getFullYear()} ${time}`;
}

/** An instant for the API from a field of the kind datetime-local, read in the viewer's zone. */
export function fromLocalField(text: string): string | undefined {
  const at = new Date(text);
  return text === "" || Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

export function toLocalField(iso: string | null | undefined): string {
  const at = new Date(iso ?? "");
  if (!iso || Number.isNaN(at.getTime())) return "";
  const date = `${pad(at.getFullYear(), 4)}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${date}T${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** Ids are long; their ends tell them apart. */
export function shortId(id: string): string {
  const [head = "", letters = "", ...rest] = id.split("_");
  // The instant of an occurrence, as it can be read.
  const instant = rest.join("_").replace(/^\d{4}(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\d*Z$/, "$1-$2 $3:$4:$5Z");
  const tail = instant === "" ? "" : ` · ${instant}`;
  return letters.length > 10 ? `${head}_…${letters.slice(-6)}${tail}` : id;
}

/** Errors that differ only in numbers are of one kind, as the server groups them. */
export function errorKind(error: string): string {
  return error.replace(/[0-9]+/g, "#");
}

/** Words of the API for people: `queue_one` is `queue one`. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

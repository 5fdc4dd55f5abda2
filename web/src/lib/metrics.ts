// What /metrics tells, as far as the page shows it.

export interface Histogram {
  /** Upper bounds in seconds, the last one infinite, with counts up to each. */
  buckets: [number, number][];
  count: number;
}

/** Values of a metric without labels, and of those with one label by its value. */
export function readMetric(text: string, name: string): number | undefined {
  for (const line of text.split("\n")) {
    if (line.startsWith(`${name} `)) return Number(line.slice(name.length + 1));
  }
  return undefined;
}

export function readHistogram(text: string, name: string): Histogram {
  const buckets: [number, number][] = [];
  const head = `${name}_bucket{le="`;
  for (const line of text.split("\n")) {
    if (!line.startsWith(head)) continue;
    const [bound = "", rest = ""] = line.slice(head.length).split('"} ');
    buckets.push([bound === "+Inf" ? Infinity : Number(bound), Number(rest)]);
  }
  return { buckets, count: readMetric(text, `${name}_count`) ?? 0 };
}

/** What was added between two readings; the later one alone where the server started anew. */
export function since(before: Histogram | undefined, now: Histogram): Histogram {
  if (!before || before.count > now.count || before.buckets.length !== now.buckets.length) return now;
  const buckets = now.buckets.map(([bound, count], at): [number, number] => [
    bound,
    count - (before.buckets[at]?.[1] ?? 0),
  ]);
  return { buckets, count: now.count - before.count };
}

/** The quantile in seconds, straight between bounds; undefined without observations. */
export function quantile(histogram: Histogram, q: number): number | undefined {
  if (histogram.count === 0) return undefined;
  const wanted = q * histogram.count;
  let [below, sum] = [0, 0];
  for (const [bound, count] of histogram.buckets) {
    if (count >= wanted && count > sum) {
      if (bound === Infinity) return below;
      return below + ((bound - below) * (wanted - sum)) / (count - sum);
    }
    [below, sum] = [bound, count];
  }
  return below;
}

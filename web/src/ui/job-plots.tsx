// How long a job's runs took and how late they began. Lists do not tell when an attempt began, so each
// ended run is asked for once; what has ended does not change.
import { useQueries } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import type { Run } from "../api/client";
import { run as runQuery } from "../api/queries";
import { span } from "../lib/format";
import { Panel } from "./basics";

const Plot = lazy(() => import("./plot").then(({ Plot }) => ({ default: Plot })));
const ASKED = 30;
const ENDED = new Set(["succeeded", "failed", "cancelled", "expired"]);

export function JobPlots({ runs }: { runs: Run[] }) {
  const ended = runs.filter((one) => ENDED.has(one.status)).slice(0, ASKED);
  const found = useQueries({
    queries: ended.map((one) => ({ ...runQuery(one.id), queryKey: ["ended-run", one.id], staleTime: Infinity })),
    combine: (list) => list.flatMap((one) => (one.data ? [one.data] : [])),
  });
  const points = found
    .flatMap((one) => {
      const [first, last] = [one.attempts?.[0], one.attempts?.at(-1)];
      if (!first?.started_at || !last?.started_at || !one.scheduled_for) return [];
      const due = Date.parse(one.scheduled_for);
      return [{ at: due / 1_000, took: Date.parse(last.finished_at) - Date.parse(last.started_at), late: Math.max(0, Date.parse(first.started_at) - due) }];
    })
    .sort((a, b) => a.at - b.at);
  if (points.length < 2) return null;
  const at = points.map((one) => one.at);
  return (
    <div className="columns">
      <Panel title="Duration" note={`last attempt, ${points.length} runs`}>
        <Suspense fallback={<div className="plot" />}>
          <Plot label="Duration of the last runs" lines={[{ label: "Took", color: "--accent", points: true }]} data={[at, points.map((one) => one.took)]} format={span} least={10} />
        </Suspense>
      </Panel>
      <Panel title="Lateness" note="first attempt after its instant">
        <Suspense fallback={<div className="plot" />}>
          <Plot label="Lateness of the last runs" lines={[{ label: "Late", color: "--warn-line", points: true }]} data={[at, points.map((one) => one.late)]} format={span} least={10} />
        </Suspense>
      </Panel>
    </div>
  );
}

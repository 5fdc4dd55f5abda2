// Fires, successes, failures and retries per second, since the page was opened.
import { lazy, Suspense } from "react";
import { rate } from "../lib/format";
import { useLiveSecond } from "../live/live";
import { SECONDS, SERIES } from "../live/tally";
import { Panel } from "./basics";

// Drawing is not needed to read the numbers: it comes a moment later.
const Plot = lazy(() => import("../ui/plot").then(({ Plot }) => ({ default: Plot })));

const SHOWN_SECONDS_MIN = 60;
const LINES = [
  { label: "Fires", color: "--accent" },
  { label: "Succeeded", color: "--good-line" },
  { label: "Failed", color: "--bad-line" },
  { label: "Retries", color: "--warn-line" },
];

export function Rates() {
  const { tally } = useLiveSecond();
  const last = tally.lastSecond();
  const listened = Math.max(tally.listened(), 1);
  // Before this page listened nothing is known, which is not the same as nothing.
  const shown = Math.min(Math.max(listened, SHOWN_SECONDS_MIN), SECONDS - 1);
  const seconds = Array.from({ length: shown }, (_, at) => last - shown + 1 + at);
  const known = (list: number[]) => list.slice(-shown).map((n, at) => (at >= shown - listened ? n : null));
  const data: [number[], ...(number | null)[][]] = [seconds, ...SERIES.map((name) => known(tally.series(name)))];
  return (
    <Panel
      title="Per second"
      note="since you opened this"
      actions={
        <span className="legend" aria-hidden="true">
          {LINES.map((line) => (
            <span key={line.label}>
              <i className="swatch" style={{ background: `var(${line.color})` }} />
              {line.label}
            </span>
          ))}
        </span>
      }
    >
      <Suspense fallback={<div className="plot" />}>
        <Plot label="Fires, successes, failures and retries per second" lines={LINES} data={data} format={(n) => rate(n)} />
      </Suspense>
    </Panel>
  );
}

// Hosts that webhooks go to, and whether their breaker lets anything through.
import { useQuery } from "@tanstack/react-query";
import { destinations } from "../api/queries";
import { count } from "../lib/format";
import { useRefresh } from "../live/live";
import { Panel, Status, Time } from "./basics";

const STATES: Record<string, [string, string]> = {
  open: ["failed", "open: waits"],
  half_open: ["retrying", "tries one"],
  closed: ["active", "closed: sends"],
};
/** Those that do not work come first. */
const ORDER = ["open", "half_open", "closed"];
const SHOWN = 20;

export function Destinations() {
  const { data } = useQuery(destinations());
  useRefresh([["destinations"]], (changes) => [...changes.types].some((type) => type.startsWith("destination.")), 1_000);
  if (!data || data.items.length === 0) return null;
  const items = [...data.items].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.host.localeCompare(b.host));
  return (
    <Panel title="Destinations" note="a host that fails again and again is left alone for a while; its runs wait and spend no retry" flush>
      <div className="table-wrap">
        <table className="cards" aria-label="Destinations">
          <thead>
            <tr>
              <th scope="col">Host</th>
              <th scope="col">Breaker</th>
              <th scope="col" className="number">In flight</th>
              <th scope="col" className="number">Failed lately</th>
              <th scope="col" className="number">Waiting</th>
              <th scope="col">Tried again</th>
            </tr>
          </thead>
          <tbody>
            {items.slice(0, SHOWN).map((one) => (
              <tr key={one.host}>
                <td className="mono break">{one.host}</td>
                <td data-label="Breaker">
                  <Status status={STATES[one.state]?.[0] ?? "calm"} text={STATES[one.state]?.[1] ?? one.state} />
                </td>
                <td data-label="In flight" className="number">
                  {count(one.in_flight)}
                </td>
                <td data-label="Failed lately" className="number">
                  {one.attempts > 0 ? `${(one.failure_rate * 100).toFixed(0)} %` : "–"}
                </td>
                <td data-label="Waiting" className="number">
                  {count(one.waiting)}
                </td>
                <td data-label="Tried again">
                  <Time at={one.next_probe_at} relative />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {items.length > SHOWN && <p className="pager small muted">And {count(items.length - SHOWN)} more.</p>}
    </Panel>
  );
}

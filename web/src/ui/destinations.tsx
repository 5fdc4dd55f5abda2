// Hosts that webhooks go to, and whether their breaker lets anything through.
import { useQuery } from "@tanstack/react-query";
import { type Destination, destinations } from "../api/maybe";
import { count } from "../lib/format";
import { Panel, Status, Time } from "./basics";

const STATES: Record<Destination["state"], [string, string]> = {
  open: ["failed", "open: waits"],
  half_open: ["retrying", "tries one"],
  closed: ["active", "closed: sends"],
};
/** Those that do not work come first. */
const ORDER = ["open", "half_open", "closed"];
const SHOWN = 20;

export function Destinations() {
  const { data } = useQuery(destinations());
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
              <th scope="col" className="number">Failing</th>
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
                <td data-label="Failing" className="number">
                  {typeof one.failure_rate === "number" ? `${(one.failure_rate * 100).toFixed(0)} %` : "–"}
                </td>
                <td data-label="Waiting" className="number">
                  {typeof one.waiting === "number" ? count(one.waiting) : "–"}
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

// What fails first: the dead, those that wait for another try, and the last that failed.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { deadGroups, runs } from "../api/queries";
import { count } from "../lib/format";
import { Empty, Loading, Panel, Status, Time, Wrong } from "./basics";
import { JobLink, RunLink } from "./links";

/** Failing ones that are listed. */
export const FAILING_SHOWN = 8;

export function Attention() {
  const groups = useQuery(deadGroups());
  const retrying = useQuery(runs({ status: "retrying" }, FAILING_SHOWN));
  const failed = useQuery(runs({ status: "failed,expired" }, FAILING_SHOWN));
  if (groups.isPending || retrying.isPending) {
    return (
      <Panel title="Failing first">
        <Loading />
      </Panel>
    );
  }
  const error = groups.error ?? retrying.error ?? failed.error;
  if (error && !groups.data) {
    return (
      <Panel title="Failing first">
        <Wrong error={error} />
      </Panel>
    );
  }
  const rows = [
    ...(groups.data?.items ?? []).map((group) => ({
      key: `dead ${group.run_id}`,
      status: "dead",
      job: group.job_id ?? "",
      run: group.run_id,
      count: group.count,
      at: group.last_at,
      error: group.error,
    })),
    ...(retrying.data?.items ?? []).map((run) => ({
      key: run.id,
      status: "retrying",
      job: run.job_id,
      run: run.id,
      count: 1,
      at: run.next_attempt_at,
      error: run.error,
    })),
    ...(failed.data?.items ?? [])
      .filter((run) => run.status === "failed" || run.status === "expired")
      .map((run) => ({ key: run.id, status: run.status, job: run.job_id, run: run.id, count: 1, at: run.finished_at, error: run.error })),
  ].slice(0, FAILING_SHOWN);
  return (
    <Panel
      title="Failing first"
      note={rows.length > 0 ? "dead, retrying, failed" : undefined}
      actions={rows.some((row) => row.status === "dead") ? <Link to="/dead-letters">Dead letters</Link> : undefined}
      flush
    >
      {rows.length === 0 ? (
        <Empty title="Nothing fails">
          <p>Runs that failed, wait for another try, or died and wait for a person are listed here.</p>
        </Empty>
      ) : (
        <div className="table-wrap">
          <table className="cards" aria-label="Failing jobs">
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">State</th>
                <th scope="col">Error</th>
                <th scope="col">When</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.key}>
                  <td className="nowrap">
                    <JobLink id={row.job} />
                  </td>
                  <td data-label="State">
                    <Status status={row.status} text={row.count > 1 ? `${count(row.count)} ${row.status}` : undefined} />
                  </td>
                  <td data-label="Error" className="wide">
                    <span className="clip small" title={row.error ?? undefined}>
                      <RunLink id={row.run} text={row.error ?? "look at the run"} />
                    </span>
                  </td>
                  <td data-label="When" className="small muted">
                    <Time at={row.at} relative />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

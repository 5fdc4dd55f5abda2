// What a job was: its kept versions, what each changed, and the way back.
import { useQuery } from "@tanstack/react-query";
import { api, got, type Job } from "../api/client";
import { jobVersions } from "../api/queries";
import { differences, looksSame, madeBy, shortly, type Difference, type Version } from "../lib/versions";
import { Loading, Panel, pretty, Time, Wrong } from "./basics";
import { Ask } from "./dialog";
import { say } from "./toast";

export function JobVersions({ job, changed }: { job: Job; changed: () => Promise<void> }) {
  const found = useQuery(jobVersions(job.id, job.version));
  if (found.isPending) return <Loading lines={5} />;
  if (!found.data) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  const all = found.data.items;
  const oldest = all.at(-1)?.version ?? 1;
  return (
    <Panel title="Versions" note={oldest > 1 ? `the last ${all.length}` : `${all.length}, newest first`} flush>
      <ol className="list versions" aria-label="Versions of this job">
        {all.map((one) => (
          <li key={one.version}>
            <VersionView version={one} all={all} job={job} changed={changed} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function VersionView(props: { version: Version; all: Version[]; job: Job; changed: () => Promise<void> }) {
  const { version, all, job } = props;
  const over = job.status === "cancelled";
  return (
    <article className="stack tight grow" aria-label={`Version ${version.version}`}>
      <div className="row between">
        <span className="row">
          <strong>Version {version.version}</strong>
          {version.in_force && <span className="chip">in force</span>}
          <span className="muted small">
            since <Time at={version.since} />, by {madeBy(version.by)}
          </span>
        </span>
        {!version.in_force && !over && <Restore {...props} />}
      </div>
      <Changes version={version} all={all} />
      <details>
        <summary className="small">Definition</summary>
        <pre className="code" tabIndex={0} aria-label={`Definition of version ${version.version}`}>
          {pretty(version.definition)}
        </pre>
      </details>
    </article>
  );
}

function Changes({ version, all }: { version: Version; all: Version[] }) {
  if (version.changed_from === null) {
    return <p className="small muted">{version.version === 1 ? "As it was made." : "The version before it is not kept any more."}</p>;
  }
  return (
    <dl className="facts changes" aria-label={`What version ${version.version} changed`}>
      {differences(version, all).map((one) => (
        <Change key={one.place} difference={one} />
      ))}
    </dl>
  );
}

function Change({ difference }: { difference: Difference }) {
  return (
    <>
      <dt>
        <code className="break">{difference.place}</code>
      </dt>
      <dd>
        {looksSame(difference) ? (
          <span className="muted">changed in a part that is not shown here</span>
        ) : (
          <>
            <del className="break">{shortly(difference.before)}</del> <span aria-hidden="true">→</span> <ins className="break">{shortly(difference.after)}</ins>
          </>
        )}
      </dd>
    </>
  );
}

function Restore({ version, job, changed }: { version: Version; job: Job; changed: () => Promise<void> }) {
  return (
    <Ask
      button="Restore this version"
      title={`Go back to version ${version.version}`}
      action="Restore it"
      onAct={async () => {
        const answer = await got(
          api.POST("/v1/jobs/{job}/versions/{version}/restore", {
            params: { path: { job: job.id, version: String(version.version) } },
            headers: { "If-Match": `"${job.version}"` },
          }),
        );
        say(answer.version === job.version ? "It is so already; nothing was changed." : `Restored as version ${answer.version}.`);
        await changed();
      }}
    >
      <p>
        What it says becomes version {job.version + 1}; the versions in between stay in this list. Runs that exist keep the version they were made with, the next ones
        use this.
      </p>
    </Ask>
  );
}

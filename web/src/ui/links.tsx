import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobName } from "../api/queries";
import { shortId } from "../lib/format";

/** A job by its name, or by the end of its id where it has none. */
export function JobLink({ id, name }: { id: string; name?: string | null }) {
  const asked = useQuery({ ...jobName(id), enabled: name === undefined });
  const shown = name ?? asked.data;
  return (
    <Link to="/jobs/$job" params={{ job: id }} title={id} className={shown ? "break" : "mono nowrap"}>
      {shown ?? shortId(id)}
    </Link>
  );
}

export function RunLink({ id, text }: { id: string; text?: string }) {
  return (
    <Link to="/runs/$run" params={{ run: id }} title={id} className={text ? undefined : "mono nowrap"}>
      {text ?? shortId(id)}
    </Link>
  );
}

/** Whoever holds, or held, an attempt: a worker has a page, a node of duly has none. */
export function HolderLink({ holder }: { holder: string }) {
  if (/^node \d+$/.test(holder)) return holder;
  return <WorkerLink id={holder} />;
}

export function WorkerLink({ id }: { id: string }) {
  return (
    <Link to="/workers/$worker" params={{ worker: id }} className="break">
      {id}
    </Link>
  );
}

export function QueueLink({ name }: { name: string }) {
  return (
    <Link to="/queues/$queue" params={{ queue: name }} className="break">
      {name}
    </Link>
  );
}

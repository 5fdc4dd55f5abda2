// A worker's load, what it takes, and what can be told to it.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schemas, type Worker } from "../api/client";
import { count } from "../lib/format";
import { Status } from "./basics";
import { Ask } from "./dialog";
import { QueueLink } from "./links";
import { say } from "./toast";

const STATES: Record<string, string> = {
  active: "active",
  quiet: "takes nothing more",
  terminating: "finishes and goes",
  vanished: "vanished",
};

export function WorkerStatus({ worker }: { worker: Worker }) {
  return <Status status={worker.status} text={STATES[worker.status]} />;
}

export function Load({ worker }: { worker: Worker }) {
  const { running, capacity } = worker;
  if (running === null || running === undefined) return <span className="muted">not told</span>;
  if (!capacity) return count(running);
  return (
    <span className="load">
      <span className="meter" aria-hidden="true">
        <i data-full={running >= capacity} style={{ width: `${(100 * Math.min(running, capacity)) / capacity}%` }} />
      </span>
      <span className="nowrap">
        {count(running)} of {count(capacity)}
      </span>
    </span>
  );
}

/** Names of a list, the first few. */
const SHOWN = 4;

export function QueueChips({ names }: { names: string[] }) {
  if (names.length === 0) return <span className="muted">–</span>;
  return (
    <span className="row">
      {names.slice(0, SHOWN).map((name) => (
        <QueueLink key={name} name={name} />
      ))}
      {names.length > SHOWN && <span className="small muted">and {names.length - SHOWN} more</span>}
    </span>
  );
}

export function KindChips({ kinds }: { kinds: string[] | null | undefined }) {
  if (!kinds) return <span className="muted">any</span>;
  return (
    <span className="row">
      {kinds.slice(0, SHOWN).map((kind) => (
        <span key={kind} className="chip mono">
          {kind}
        </span>
      ))}
      {kinds.length > SHOWN && <span className="small muted">and {kinds.length - SHOWN} more</span>}
    </span>
  );
}

type Signal = NonNullable<Schemas["WorkerDrainRequest"]["signal"]>;

const SIGNALS: [Signal, string, string][] = [
  ["terminate", "Finish and go", "It takes nothing more, finishes what it holds, and ends its process."],
  ["quiet", "Take nothing more", "It finishes what it holds and stays, until it is told to work again."],
];

export function WorkerActions({ worker, small }: { worker: Worker; small?: boolean }) {
  const client = useQueryClient();
  const [signal, setSignal] = useState<Signal>("terminate");
  const tell = async (signal: Signal, text: string) => {
    await got(api.POST("/v1/workers/{worker}/drain", { params: { path: { worker: worker.id } }, body: { signal } }));
    say(text);
    await Promise.all(["worker", "workers"].map((kind) => client.invalidateQueries({ queryKey: [kind] })));
  };
  const size = small ? "small" : "";
  return (
    <span className="row end">
      {worker.status === "quiet" && (
        <Ask
          button="Let it work"
          buttonClass={size}
          title="Let the worker work again"
          action="Let it work"
          onAct={() => tell("none", "It takes work again.")}
        >
          <p>
            <strong className="break">{worker.id}</strong> hears it with its next heartbeat, within a third of its lease, and takes work again.
          </p>
        </Ask>
      )}
      {(worker.status === "active" || worker.status === "quiet") && (
        <Ask
          button="Drain"
          buttonClass={size}
          title="Drain the worker"
          action="Drain it"
          danger
          onOpen={() => setSignal("terminate")}
          onAct={() => tell(signal, signal === "quiet" ? "It takes nothing more." : "It finishes and goes.")}
        >
          <p>
            <strong className="break">{worker.id}</strong> hears it with its next answer. Nothing that it holds is lost: what it does not
            finish is handed back and comes again.
          </p>
          <fieldset className="stack tight">
            <legend className="hidden-text">What it is told</legend>
            {SIGNALS.map(([value, name, says]) => (
              <label key={value} className="option">
                <input type="radio" name="signal" value={value} checked={signal === value} onChange={() => setSignal(value)} />
                <span>
                  <strong>{name}</strong>
                  <span className="small muted">{says}</span>
                </span>
              </label>
            ))}
          </fieldset>
        </Ask>
      )}
    </span>
  );
}

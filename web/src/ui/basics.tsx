// Small parts that every page is made of.
import { type ReactNode, useEffect, useId, useState, useSyncExternalStore } from "react";
import { ApiError } from "../api/client";
import { fromNow, localTime, words } from "../lib/format";

export type Tone = "good" | "bad" | "warn" | "busy" | "calm";

const TONES: Record<string, Tone> = {
  succeeded: "good",
  active: "good",
  done: "good",
  failed: "bad",
  dead: "bad",
  expired: "bad",
  timed_out: "bad",
  lost: "bad",
  missed: "bad",
  retrying: "warn",
  paused: "warn",
  blocked: "warn",
  held: "warn",
  skipped_overlap: "warn",
  skipped_paused: "warn",
  skipped: "warn",
  coalesced: "warn",
  delayed: "warn",
  leaving: "warn",
  quiet: "warn",
  terminating: "warn",
  vanished: "bad",
  running: "busy",
  unfinished: "busy",
  ready: "busy",
};

export function toneOf(status: string): Tone {
  return TONES[status] ?? "calm";
}

export function Status({ status, text }: { status: string; text?: string }) {
  return (
    <span className="status" data-tone={toneOf(status)}>
      {text ?? words(status)}
    </span>
  );
}

// One clock for all relative times of the page.
let now = Date.now();
const tellers = new Set<() => void>();
setInterval(() => {
  now = Date.now();
  tellers.forEach((tell) => tell());
}, 1_000);

export function useNow(): number {
  return useSyncExternalStore(
    (tell) => {
      tellers.add(tell);
      return () => tellers.delete(tell);
    },
    () => now,
  );
}

/** An instant in the viewer's zone, with UTC on hover. */
export function Time({ at, relative }: { at: string | null | undefined; relative?: boolean }) {
  const clock = useNow();
  if (!at) return <span className="muted">–</span>;
  const date = new Date(at);
  const [local, away] = [localTime(date, new Date(clock)), fromNow(date.getTime(), clock)];
  return (
    <time dateTime={at} title={`${at.replace("T", " ").replace("Z", "")} UTC · ${relative ? local : away}`} className="nowrap">
      {relative ? away : local}
    </time>
  );
}

export function Panel(props: { title?: ReactNode; note?: ReactNode; actions?: ReactNode; flush?: boolean; children: ReactNode }) {
  const id = useId();
  return (
    <section className="panel" aria-labelledby={props.title ? id : undefined}>
      {props.title && (
        <header>
          <h2 id={id}>{props.title}</h2>
          {props.note && <span className="muted grow">{props.note}</span>}
          {!props.note && <span className="grow" />}
          {props.actions}
        </header>
      )}
      <div className={props.flush ? "flush" : "body"}>{props.children}</div>
    </section>
  );
}

export function Head(props: { title: ReactNode; crumb?: ReactNode; below?: ReactNode; actions?: ReactNode }) {
  return (
    <div className="head">
      <div className="grow">
        {props.crumb && <div className="crumb">{props.crumb}</div>}
        <h1>{props.title}</h1>
        {props.below && <div className="row small muted">{props.below}</div>}
      </div>
      {props.actions && <div className="row">{props.actions}</div>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

/** Why it went wrong, and what to do. */
export function Wrong({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof ApiError ? error : undefined;
  return (
    <div className="notice" data-tone="bad" role="alert">
      <strong>{problem ? problem.message : error instanceof Error ? error.message : "Something went wrong."}</strong>
      <div className="small">
        {problem?.help}
        {problem?.problem.request_id && <span className="muted"> Request {problem.problem.request_id}.</span>}
      </div>
      {retry && (
        <button type="button" className="small" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div className="stack tight" aria-busy="true">
      <span className="hidden-text">Loading</span>
      {Array.from({ length: lines }, (_, at) => (
        <div key={at} className="skeleton" />
      ))}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => {
    // Without a secure address browsers keep the clipboard shut.
    void navigator.clipboard?.writeText(text).then(() => setDone(true), () => undefined);
  };
  return (
    <button type="button" className="small" onClick={copy} disabled={!navigator.clipboard}>
      {done ? "Copied" : label}
    </button>
  );
}

export function Field(props: {
  label: string;
  help?: ReactNode;
  fault?: string;
  children: (of: { id: string; "aria-invalid": boolean; "aria-describedby": string | undefined }) => ReactNode;
  className?: string;
}) {
  const id = useId();
  const said = props.fault ?? props.help;
  return (
    <div className={`field ${props.className ?? ""}`}>
      <label htmlFor={id}>{props.label}</label>
      {props.children({ id, "aria-invalid": props.fault !== undefined, "aria-describedby": said ? `${id}-said` : undefined })}
      {said && (
        <div id={`${id}-said`} className={props.fault ? "fault" : "help"}>
          {said}
        </div>
      )}
    </div>
  );
}

/** Text from strangers: shown as text, searched as text. */
export function SearchableText({ text, label }: { text: string; label: string }) {
  const [q, setQ] = useState("");
  const parts = q === "" ? [text] : split(text, q);
  const hits = (parts.length - 1) / 2;
  return (
    <div className="stack tight">
      {text.length > 200 && (
        <div className="row">
          <input
            type="search"
            aria-label={`Search in ${label}`}
            placeholder={`Search in ${label}`}
            value={q}
            onChange={(event) => setQ(event.target.value)}
            className="grow"
          />
          <span className="small muted" role="status">
            {q === "" ? "" : `${hits} found`}
          </span>
        </div>
      )}
      <pre className="code" tabIndex={0} aria-label={label}>
        {parts.map((part, at) => (at % 2 === 1 ? <mark key={at}>{part}</mark> : part))}
      </pre>
    </div>
  );
}

/** Odd parts are hits. */
export function split(text: string, q: string): string[] {
  const parts: string[] = [];
  const [low, wanted] = [text.toLowerCase(), q.toLowerCase()];
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && parts.length < 2_000; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + q.length));
    from = at + q.length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function pretty(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

// The stop button, and what is held now. What the server says is the truth; events say when to ask again.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, got, type Hold } from "../api/client";
import { holds } from "../api/queries";
import { count, fromLocalField } from "../lib/format";
import { useRefresh } from "../live/live";
import { Field, Time, Wrong } from "./basics";
import { Ask } from "./dialog";
import { say } from "./toast";

/** Holds that are listed; queues have a page of their own. */
const SHOWN = 5;

export function HoldButton() {
  const client = useQueryClient();
  const found = useQuery(holds());
  const [reason, setReason] = useState("");
  const [until, setUntil] = useState("");
  if (found.data?.items.some((hold) => hold.scope === "all" && hold.everywhere)) return null;
  return (
    <Ask
      button="Hold everything"
      buttonClass="danger"
      title="Hold everything"
      action="Hold"
      danger
      onOpen={() => setUntil("")}
      onAct={async () => {
        await got(api.POST("/v1/hold", { body: { reason, ...(until ? { until: fromLocalField(until) } : {}) } }));
        say("Held: no new attempt begins.");
        await client.invalidateQueries({ queryKey: ["holds"] });
      }}
    >
      <p>
        No new attempt begins, in any queue, until somebody releases it. What runs goes on to its end; what becomes due waits and is
        not lost. To stop one queue, pause it under <Link to="/queues">Queues</Link>.
      </p>
      <Field label="Reason" help="Everybody who asks why nothing runs is told this.">
        {(of) => <input {...of} required value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} />}
      </Field>
      <Field label="Until, if it shall end by itself">
        {(of) => <input {...of} type="datetime-local" step={1} value={until} onChange={(event) => setUntil(event.target.value)} />}
      </Field>
    </Ask>
  );
}

/** What a hold stops, in words. */
export function heldWords({ scope }: Hold): string {
  if (scope === "all") return "Everything is held";
  return "queue" in scope ? `Queue ${scope.queue} is paused` : `Namespace ${scope.namespace} is held`;
}

/** One line for each hold, with its end; nothing where nothing is held. */
export function HoldBanner() {
  const found = useQuery(holds());
  useRefresh([["holds"]], (changes) => changes.types.has("hold.set") || changes.types.has("hold.released"), 300);
  if (found.error && !found.data) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  const items = found.data?.items ?? [];
  if (items.length === 0) return null;
  const more = items.length - SHOWN;
  return (
    <section className="notice" data-tone="warn" aria-label="Held">
      <ul className="holds" role="status">
        {items.slice(0, SHOWN).map((hold) => (
          <li key={JSON.stringify(hold.scope)}>
            <span className="grow break">
              <strong>
                {heldWords(hold)}: {hold.reason}
              </strong>{" "}
              <span className="small">
                {hold.until ? (
                  <>
                    Until <Time at={hold.until} /> (<Time at={hold.until} relative />
                    ).
                  </>
                ) : (
                  "Until somebody releases it."
                )}
                {!hold.everywhere && " Not all shards have heard of it yet; if that lasts, do it again."}
              </span>
            </span>
            <Release hold={hold} />
          </li>
        ))}
      </ul>
      {(more > 0 || found.data?.complete === false) && (
        <p className="small">
          And {count(more)}
          {found.data?.complete === false ? " or more" : ""} others: see <Link to="/queues">Queues</Link>.
        </p>
      )}
    </section>
  );
}

function Release({ hold }: { hold: Hold }) {
  const client = useQueryClient();
  const { scope } = hold;
  const queue = scope !== "all" && "queue" in scope ? scope.queue : undefined;
  return (
    <Ask
      button={queue === undefined ? "Release" : "Resume"}
      buttonClass="small"
      title={scope === "all" ? "Release everything" : queue === undefined ? "Release the namespace" : `Resume ${queue}`}
      action={queue === undefined ? "Release" : "Resume the queue"}
      onAct={async () => {
        await got(api.POST("/v1/release", { body: { scope } }));
        say("Released: attempts begin again.");
        await Promise.all(["holds", "queues"].map((kind) => client.invalidateQueries({ queryKey: [kind] })));
      }}
    >
      <p>Attempts begin again, and what became due in the meantime is caught up with, the most important first.</p>
    </Ask>
  );
}

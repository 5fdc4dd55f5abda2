// The stop button. The API has no list of holds: what is known comes from events, from what was done
// here, and from the explanation of a run that waits, which names the hold it waits for.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, got } from "../api/client";
import { explain, runs } from "../api/queries";
import { live, useHeld } from "../live/live";
import { Field, Status } from "./basics";
import { Ask } from "./dialog";
import { say } from "./toast";

export function Hold() {
  const held = useHeld();
  const [reason, setReason] = useState("");
  const waiting = useQuery({ ...runs({ status: "ready,retrying,scheduled" }, 1), enabled: held === undefined });
  const run = waiting.data?.items[0]?.id;
  const why = useQuery({ ...explain(run ?? ""), enabled: held === undefined && run !== undefined });
  useEffect(() => {
    const found = why.data?.reasons.find((one) => one.code === "held" && one.message.includes("everything is held"));
    if (found && live.tally.held === undefined) live.held({ held: true, reason: found.reason ?? undefined });
  }, [why.data]);
  const release = (
    <Ask
      button={held?.held ? "Release" : "Release a hold"}
      buttonClass={held?.held ? "primary" : "plain"}
      title="Release everything"
      action="Release"
      onAct={async () => {
        await got(api.POST("/v1/release", { body: { scope: "all" } }));
        live.held({ held: false });
        say("Released: attempts begin again.");
      }}
    >
      <p>Attempts begin again, and what became due in the meantime is caught up with. Where nothing is held this changes nothing.</p>
    </Ask>
  );
  if (held?.held) {
    return (
      <>
        <Status status="held" text={held.reason ? `Everything is held: ${held.reason}` : "Everything is held"} />
        {release}
      </>
    );
  }
  return (
    <>
      {held === undefined && release}
      <Ask
        button="Hold everything"
        buttonClass="danger"
        title="Hold everything"
        action="Hold"
        danger
        onAct={async () => {
          await got(api.POST("/v1/hold", { body: { scope: "all", reason } }));
          live.held({ held: true, reason });
          say("Held: no new attempt begins.");
        }}
      >
        <p>
          No new attempt begins, in any queue, until somebody releases it. What runs goes on to its end; what becomes due waits and
          is not lost.
        </p>
        <Field label="Reason" help="Everybody who asks why nothing runs is told this.">
          {(of) => <input {...of} required value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} />}
        </Field>
      </Ask>
    </>
  );
}

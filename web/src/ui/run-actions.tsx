// What can be done with a run: replay, discard, cancel.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ApiError, got, type FieldFault, type Job, type Run } from "../api/client";
import { payloadOf } from "../lib/jobform";
import { Field } from "./basics";
import { Ask } from "./dialog";
import { say } from "./toast";

const FINAL = new Set(["succeeded", "failed", "cancelled", "expired"]);

export function RunActions({ run, job }: { run: Run; job: Job | undefined }) {
  const client = useQueryClient();
  const params = { path: { run: run.id } };
  const usual = job?.payload === null || job?.payload === undefined ? "" : JSON.stringify(job.payload, null, 2);
  const [payload, setPayload] = useState(usual);
  const changed = () => client.invalidateQueries({ queryKey: ["run", run.id] });
  return (
    <>
      {run.status === "dead" && (
        <Ask
          button="Replay"
          buttonClass="primary"
          title="Replay the run"
          action="Replay it"
          onOpen={() => setPayload(usual)}
          onAct={async () => {
            const faults: FieldFault[] = [];
            const value = payloadOf(payload, faults);
            if (faults[0]) throw new ApiError(422, { detail: faults[0].message });
            const body = payload.trim() === usual.trim() ? {} : { payload: value ?? null };
            await got(api.POST("/v1/runs/{run}/replay", { params, body }));
            say("Replayed: it has a new budget of attempts.");
            await changed();
          }}
        >
          <p>The same run under the same id, with a new budget of attempts. The receiver sees the same Idempotency-Key.</p>
          <Field label="Payload" help="Change it if that was the fault.">
            {(of) => <textarea {...of} rows={5} value={payload} spellCheck={false} onChange={(event) => setPayload(event.target.value)} />}
          </Field>
        </Ask>
      )}
      {run.status === "dead" && (
        <Ask
          button="Discard"
          buttonClass="danger"
          title="Discard the run"
          action="Discard it"
          danger
          onAct={async () => {
            await got(api.POST("/v1/dead-letters/discard", { body: { ids: [run.id] } }));
            say("Discarded: it ends as failed.");
            await changed();
          }}
        >
          <p>It ends as failed and is not tried again.</p>
        </Ask>
      )}
      {!FINAL.has(run.status) && run.status !== "dead" && (
        <Ask
          button="Cancel run"
          buttonClass="danger"
          disabled={run.cancel_requested}
          title="Cancel the run"
          action="Cancel it"
          danger
          onAct={async () => {
            const answer = await got(api.POST("/v1/runs/{run}/cancel", { params }));
            say(answer.cancel_requested ? "Its holder is told to stop." : "Cancelled.");
            await changed();
          }}
        >
          <p>
            {run.status === "running"
              ? "Its holder is told to stop: a webhook's connection is closed, a worker hears it at its next heartbeat. A success that comes first still counts."
              : "It ends as cancelled and is not tried."}
          </p>
        </Ask>
      )}
    </>
  );
}

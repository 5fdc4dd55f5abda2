// Pauses and resumes a queue.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Queue } from "../api/client";
import { Field } from "./basics";
import { Ask } from "./dialog";
import { say } from "./toast";

export function QueueSwitch({ queue, small }: { queue: Queue; small?: boolean }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const params = { path: { queue: queue.name } };
  const done = async (text: string) => {
    say(text);
    await Promise.all(["queues", "queue", "holds"].map((kind) => client.invalidateQueries({ queryKey: [kind] })));
  };
  if (queue.paused) {
    return (
      <Ask
        button="Resume"
        buttonClass={small ? "small" : "primary"}
        title={`Resume ${queue.name}`}
        action="Resume the queue"
        onAct={async () => {
          await got(api.POST("/v1/queues/{queue}/resume", { params }));
          await done(`${queue.name} goes on.`);
        }}
      >
        <p>What waited starts again, the most important first.</p>
      </Ask>
    );
  }
  return (
    <Ask
      button="Pause"
      buttonClass={small ? "small" : undefined}
      title={`Pause ${queue.name}`}
      action="Pause the queue"
      onAct={async () => {
        await got(api.POST("/v1/queues/{queue}/pause", { params, body: reason ? { reason } : {} }));
        await done(`${queue.name} is paused.`);
      }}
    >
      <p>Nothing more of this queue starts; what runs goes on to its end, and what becomes due waits.</p>
      <Field label="Reason" help="Others see it here and in explanations of waiting runs.">
        {(of) => <input {...of} value={reason} onChange={(event) => setReason(event.target.value)} maxLength={500} />}
      </Field>
    </Ask>
  );
}

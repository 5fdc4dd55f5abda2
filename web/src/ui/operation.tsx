// Work that was accepted and goes on by itself: how far it is, and how to stop it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, got } from "../api/client";
import { operation } from "../api/queries";
import { count, words } from "../lib/format";
import { Status, Wrong } from "./basics";
import { sayWrong } from "./toast";

export function OperationProgress({ id, onOver }: { id: string; onOver?: () => void }) {
  const client = useQueryClient();
  const found = useQuery(operation(id));
  const over = found.data && found.data.status !== "running";
  useEffect(() => {
    if (over) onOver?.();
  }, [over, onOver]);
  if (found.error) return <Wrong error={found.error} />;
  if (!found.data) return <progress aria-label="Operation" />;
  const { kind, status, done, total, failed, rate } = found.data;
  const stop = async () => {
    try {
      await got(api.POST("/v1/operations/{operation}/cancel", { params: { path: { operation: id } } }));
      await client.invalidateQueries({ queryKey: ["operation", id] });
    } catch (error) {
      sayWrong(error);
    }
  };
  return (
    <div className="notice" role="status" data-testid="operation" data-status={status}>
      <div className="row spread">
        <span className="row">
          <strong>{words(kind)}</strong> <Status status={status} />
        </span>
        <span className="small muted">
          {count(done ?? 0)}
          {total === null ? "" : ` of ${count(total)}`}
          {failed > 0 ? `, ${count(failed)} could not` : ""}
          {rate ? `, at most ${rate}` : ""}
        </span>
        {!over && (
          <button type="button" className="small" onClick={() => void stop()}>
            Stop
          </button>
        )}
      </div>
      <progress aria-label={`${kind} progress`} max={Math.max(total ?? 1, 1)} value={over && status === "done" ? Math.max(total ?? 1, 1) : (done ?? 0)} />
    </div>
  );
}

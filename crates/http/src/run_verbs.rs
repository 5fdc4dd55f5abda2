//! What a person does to a run: cancel it, replay a dead one.

use crate::Shared;
use crate::find;
use crate::job_verbs::read_payload;
use crate::jobs::optional_text;
use crate::limits::PAYLOAD_MAX;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::name;
use crate::tenant::Tenant;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::RunId;
use serde_json::json;
use shard::command::{Answer, Command, Refused};
use wire::Faults;

pub async fn cancel(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(run): Path<String>,
) -> Answered {
    let run = find::own_run(&api, namespace, &run).await?;
    let heard = api.node.call(run.job.shard(), Command::CancelRun(run)).await;
    if heard == Answer::Refused(Refused::NotFound) {
        // Finished, or never made: the reader knows which.
        crate::run_read::read(&api, namespace, run).await?;
        let detail = "the run has ended";
        return Err(Refusal::new(StatusCode::CONFLICT, "run_final", detail));
    }
    answer(heard, run)
}

pub async fn replay(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(run): Path<String>,
    body: Bytes,
) -> Answered {
    let run = find::own_run(&api, namespace, &run).await?;
    let mut faults = Faults::default();
    let payload = read_payload(optional_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    if payload.as_ref().is_some_and(|payload| payload.len() > PAYLOAD_MAX) {
        faults.add("/payload", "a payload has at most 256 KiB");
        return Err(Refusal::faults(faults));
    }
    match api.node.call(run.job.shard(), Command::Replay { run, payload }).await {
        Answer::Refused(Refused::Invalid("payload")) => {
            faults.add("/payload", "a one-off keeps its payload; make a new job with another");
            Err(Refusal::faults(faults))
        }
        Answer::Refused(Refused::NotFound) => {
            // Finished, or never made: the reader knows which.
            crate::run_read::read(&api, namespace, run).await?;
            let detail = "the run has ended; only dead runs are replayed";
            Err(Refusal::new(StatusCode::CONFLICT, "run_final", detail))
        }
        Answer::Refused(Refused::Conflict) => {
            let detail = "only a dead run is replayed; this one is not dead";
            Err(Refusal::new(StatusCode::CONFLICT, "not_dead", detail))
        }
        heard => answer(heard, run),
    }
}

fn answer(answer: Answer, run: RunId) -> Answered {
    let body = match answer {
        Answer::Run(run, state) => json!({"id": run.to_string(), "status": name(state)}),
        Answer::Stopping(run) => {
            json!({"id": run.to_string(), "status": "running", "cancel_requested": true})
        }
        Answer::Done => json!({"id": run.to_string()}),
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(unexpected()),
    };
    Ok(Json(body).into_response())
}

//! What a person does to a run: cancel it, replay a dead one.

use crate::Shared;
use crate::job_verbs::read_payload;
use crate::jobs::optional_text;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::{name, run_id};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::RunId;
use serde_json::json;
use shard::command::{Answer, Command, Refused};
use wire::Faults;

pub async fn cancel(State(api): Shared, Path(run): Path<String>) -> Answered {
    let run = run_id(&run)?;
    let heard = api.node.call(run.job.shard(), Command::CancelRun(run)).await;
    if heard == Answer::Refused(Refused::NotFound) {
        // Finished, or never made: the reader knows which.
        crate::run_read::read(&api, run).await?;
        let detail = "the run has ended";
        return Err(Refusal::new(StatusCode::CONFLICT, "run_final", detail));
    }
    answer(heard, run)
}

pub async fn replay(State(api): Shared, Path(run): Path<String>, body: Bytes) -> Answered {
    let run = run_id(&run)?;
    let mut faults = Faults::default();
    let payload = read_payload(optional_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    answer(api.node.call(run.job.shard(), Command::Replay { run, payload }).await, run)
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

//! Operations: work that was accepted and goes on by itself. A backfill is its backlog row while it
//! lasts, and the job's count of backfills says that it was there after.

use crate::refusal::{Answered, Refusal, unexpected};
use crate::{Api, DEFAULT, Shared, find};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::JobId;
use model::row::{BacklogId, BacklogKind, Key, Row};
use serde_json::{Value, json};
use shard::command::{Answer, Command, Refused};

/// `op_`, the letters of the job, and which of its backfills.
pub fn id_of(id: BacklogId) -> String {
    let job = id.job.to_string();
    let letters = job.strip_prefix("job_").unwrap_or(&job);
    match id.kind {
        BacklogKind::Backfill { operation } => format!("op_{letters}_b{operation}"),
        BacklogKind::CatchUp { from } => format!("op_{letters}_c{}", from.micros()),
    }
}

fn parse(text: &str) -> Option<BacklogId> {
    let (letters, which) = text.strip_prefix("op_")?.split_once('_')?;
    let job = JobId::parse(&format!("job_{letters}"))?;
    let kind = match which.as_bytes().first()? {
        b'b' => BacklogKind::Backfill { operation: which[1..].parse().ok()? },
        b'c' => BacklogKind::CatchUp { from: model::Time::from_micros(which[1..].parse().ok()?) },
        _ => return None,
    };
    let id = BacklogId { job, kind };
    (id_of(id) == text).then_some(id)
}

fn operation(text: &str) -> Result<BacklogId, Refusal> {
    parse(text).ok_or_else(|| Refusal::not_found("operation"))
}

pub async fn show(State(api): Shared, Path(id): Path<String>) -> Answered {
    Ok(Json(read(&api, operation(&id)?).await?).into_response())
}

pub async fn cancel(State(api): Shared, Path(id): Path<String>) -> Answered {
    let id = operation(&id)?;
    // Not found in another namespace.
    read(&api, id).await?;
    match api.node.call(id.job.shard(), Command::CancelBackfill(id)).await {
        Answer::Done => Ok(Json(json!({"id": id_of(id), "status": "cancelled"})).into_response()),
        Answer::Refused(Refused::NotFound) => {
            let detail = "the operation is over";
            Err(Refusal::new(StatusCode::CONFLICT, "operation_over", detail))
        }
        Answer::Refused(Refused::Conflict) => {
            let detail =
                "duly catches up by the job's own policy; cancel or change the job instead";
            Err(Refusal::new(StatusCode::CONFLICT, "conflict", detail))
        }
        Answer::Refused(refused) => Err(refused.into()),
        _ => Err(unexpected()),
    }
}

pub async fn read(api: &Api, id: BacklogId) -> Result<Value, Refusal> {
    let keys = vec![Key::Job(id.job), Key::Backlog(id)];
    let (mut job, mut row) = (None, None);
    for found in find::rows(api, id.job.shard(), keys).await?.into_iter().flatten() {
        match found {
            Row::Job(found) if found.namespace == DEFAULT => job = Some(found),
            Row::Backlog(found) => row = Some(found),
            _ => {}
        }
    }
    let job = job.ok_or_else(|| Refusal::not_found("operation"))?;
    let (kind, was) = match id.kind {
        BacklogKind::Backfill { operation } => ("backfill", operation < job.backfills),
        BacklogKind::CatchUp { .. } => ("catch_up", false),
    };
    let mut answer = json!({"id": id_of(id), "kind": kind, "job_id": id.job.to_string()});
    match row {
        Some(row) => {
            answer["status"] = json!("running");
            answer["done"] = json!(row.done);
            answer["total"] = json!(row.total);
            answer["failed"] = json!(0);
            answer["rate"] = json!(format!("{}/s", row.per_second));
        }
        None if was => answer["status"] = json!("done"),
        None => return Err(Refusal::not_found("operation")),
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Slot, Time};

    #[test]
    fn ids_of_operations_survive_text() {
        let job = JobId::mint(Time::from_secs(1_806_000_000), Slot::from_bits(7), 99);
        for kind in [
            BacklogKind::Backfill { operation: 0 },
            BacklogKind::Backfill { operation: 12 },
            BacklogKind::CatchUp { from: Time::from_secs(5) },
        ] {
            let id = BacklogId { job, kind };
            assert_eq!(parse(&id_of(id)), Some(id));
        }
        let good = id_of(BacklogId { job, kind: BacklogKind::Backfill { operation: 1 } });
        for bad in ["", "op_", "op_x_b1", &good.replace("_b1", "_b01"), &good.replace("_b", "_")] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

//! Operations: work that was accepted and goes on by itself. A backfill is its backlog row while it
//! lasts; what is left of it afterwards is an entry of the catalog. Bulk operations over dead runs are
//! entries from the beginning (`node::bulk`).

use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::time;
use crate::tenant::Tenant;
use crate::{Api, Shared, find};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::row::{BacklogId, BacklogKind, Key, Row};
use model::{JobId, Namespace, Slot, Text, Time};
use node::bulk::{self, Kept};
use serde_json::{Value, json};
use shard::command::{Answer, Command, Refused};
use store::catalog::{Changed, EntryChange, Kind, Place};
use wire::answer::Operation;

/// The seed of ids that come from an idempotency key.
const KEY_SEED: u64 = 0x6f70_5f6b;

/// `op_`, the letters of the job, and which of its backfills.
pub fn id_of(id: BacklogId) -> String {
    match id.kind {
        BacklogKind::Backfill { operation } => format!("{}_b{operation}", letters(id.job)),
        BacklogKind::CatchUp { from } => format!("{}_c{}", letters(id.job), from.micros()),
    }
}

fn letters(id: JobId) -> String {
    id.to_string().replacen("job_", "op_", 1)
}

/// The id of a bulk operation: new, or always the same for the same key.
pub fn bulk_id(api: &Api, namespace: Namespace, key: Option<&str>) -> String {
    let id = match key {
        None => node::random::job_id(api.node.now(), Slot::from_bits(0)),
        Some(key) => {
            let text = format!("{}\0{key}", namespace.0);
            let hash = |seed| model::hash::hash(seed, text.as_bytes());
            JobId::from_bits(hash(KEY_SEED), hash(!KEY_SEED))
        }
    };
    letters(id)
}

fn parse(text: &str) -> Option<BacklogId> {
    let (letters, which) = text.strip_prefix("op_")?.split_once('_')?;
    let job = JobId::parse(&format!("job_{letters}"))?;
    let kind = match which.as_bytes().first()? {
        b'b' => BacklogKind::Backfill { operation: which[1..].parse().ok()? },
        b'c' => BacklogKind::CatchUp { from: Time::from_micros(which[1..].parse().ok()?) },
        _ => return None,
    };
    let id = BacklogId { job, kind };
    (id_of(id) == text).then_some(id)
}

pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(id): Path<String>,
) -> Answered {
    if let Some(id) = parse(&id) {
        return Ok(Json(of_backlog(&api, namespace, id).await?).into_response());
    }
    let kept = bulk::find(&api.node, namespace, &id).await?;
    let kept = kept.ok_or_else(|| Refusal::not_found("operation"))?;
    Ok(Json(of_bulk(&kept)).into_response())
}

pub async fn cancel(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(id): Path<String>,
) -> Answered {
    let over = || {
        let detail = "the operation is over";
        Refusal::new(StatusCode::CONFLICT, "operation_over", detail)
    };
    let Some(id) = parse(&id) else {
        let before = bulk::find(&api.node, namespace, &id).await?;
        if before.is_some_and(|kept| kept.bulk.status != bulk::Status::Running) {
            return Err(over());
        }
        let kept = bulk::cancel(&api.node, namespace, &id).await?;
        let kept = kept.ok_or_else(|| Refusal::not_found("operation"))?;
        return Ok(Json(of_bulk(&kept)).into_response());
    };
    // Not found in another namespace.
    let operation = of_backlog(&api, namespace, id).await?;
    match api.node.call(id.job.shard(), Command::CancelBackfill(id)).await {
        Answer::Done => {
            mark_cancelled(&api, namespace, id).await;
            let status = "cancelled".to_string();
            Ok(Json(Operation { status, ..operation }).into_response())
        }
        Answer::Refused(Refused::NotFound) => Err(over()),
        Answer::Refused(Refused::Conflict) => {
            let detail =
                "duly catches up by the job's own policy; cancel or change the job instead";
            Err(Refusal::new(StatusCode::CONFLICT, "conflict", detail))
        }
        Answer::Refused(refused) => Err(refused.into()),
        _ => Err(unexpected()),
    }
}

pub fn of_bulk(kept: &Kept) -> Operation {
    let bulk = &kept.bulk;
    Operation {
        id: kept.id.to_string(),
        kind: bulk.verb.name().to_string(),
        status: bulk.status.name().to_string(),
        job_id: None,
        done: Some(bulk.done),
        total: bulk.total,
        failed: bulk.failed,
        rate: Some(format!("{}/s", bulk.rate)),
        created_at: Some(time(bulk.created)),
    }
}

pub async fn of_backlog(
    api: &Api,
    namespace: Namespace,
    id: BacklogId,
) -> Result<Operation, Refusal> {
    let keys = vec![Key::Job(id.job), Key::Backlog(id)];
    let (mut job, mut row) = (None, None);
    for found in find::rows(api, id.job.shard(), keys).await?.into_iter().flatten() {
        match found {
            Row::Job(found) if found.namespace == namespace => job = Some(found),
            Row::Backlog(found) => row = Some(found),
            _ => {}
        }
    }
    let job = job.ok_or_else(|| Refusal::not_found("operation"))?;
    let (kind, was) = match id.kind {
        BacklogKind::Backfill { operation } => ("backfill", operation < job.backfills),
        BacklogKind::CatchUp { .. } => ("catch_up", false),
    };
    let mut answer = Operation {
        id: id_of(id),
        kind: kind.to_string(),
        job_id: Some(id.job.to_string()),
        ..Operation::default()
    };
    let left = left_of(api, namespace, id).await?;
    answer.created_at = left["created"].as_i64().map(|at| time(Time::from_micros(at)));
    answer.rate = left["rate"].as_u64().map(|rate| format!("{rate}/s"));
    answer.total = left["total"].as_u64();
    match row {
        Some(row) => {
            answer.status = "running".to_string();
            answer.rate = Some(format!("{}/s", row.per_second));
            (answer.done, answer.total) = (Some(row.done), Some(row.total));
        }
        None if was => {
            let status = left["status"].as_str().unwrap_or("done");
            answer.status = status.to_string();
            answer.done = if status == "done" { answer.total } else { left["done"].as_u64() };
        }
        None => return Err(Refusal::not_found("operation")),
    }
    Ok(answer)
}

fn place(namespace: Namespace, id: BacklogId) -> Place {
    Place { kind: Kind::Operation, namespace, name: Text::from(id_of(id)) }
}

async fn left_of(api: &Api, namespace: Namespace, id: BacklogId) -> Result<Value, Refusal> {
    let entry = api.node.entry(place(namespace, id)).await?;
    let value = entry.and_then(|entry| serde_json::from_str(&entry.text).ok());
    Ok(value.unwrap_or_default())
}

/// What can still be told of a backfill when its row is gone. Without it (the process died between the
/// two) only its numbers are missing.
pub async fn keep_backfill(
    api: &Api,
    namespace: Namespace,
    id: BacklogId,
    (rate, total): (u32, u64),
) -> bool {
    let text = json!({
        "verb": "backfill", "created": api.node.now().micros(), "total": total, "rate": rate,
    });
    let (place, text) = (place(namespace, id), Some(Text::from(text.to_string())));
    let changed = api.node.change_entries(vec![EntryChange { place, expect: None, text }]).await;
    !matches!(changed, Ok(Changed::Other { .. }))
}

async fn mark_cancelled(api: &Api, namespace: Namespace, id: BacklogId) {
    let Ok(Some(entry)) = api.node.entry(place(namespace, id)).await else { return };
    let mut value: Value = serde_json::from_str(&entry.text).unwrap_or_default();
    value["status"] = json!("cancelled");
    let text = Some(Text::from(value.to_string()));
    let change = EntryChange { place: entry.place, expect: Some(entry.rev), text };
    let _ = api.node.change_entries(vec![change]).await;
}

#[cfg(test)]
mod tests {
    use super::*;

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

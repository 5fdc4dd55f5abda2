//! Memory counted against the store, for `duly doctor` and for whoever waits until nothing is left to
//! do. A shard goes on while it is counted, so a difference counts only if memory was the same
//! before and after the store was read, and if it is there several times in a row.

use crate::limits::{DOCTOR_LATE, DOCTOR_PAGE, DOCTOR_TRIES};
use crate::refusal::{Answered, Refusal};
use crate::{Api, Shared};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::read::{Page, Read};
use model::row::Row;
use model::{RunId, ShardId, Time};
use shard::Counts;
use std::collections::{BTreeMap, BTreeSet};
use wire::answer::{Doctor, Finding, MemoryCounts};

const RESTART: &str =
    "stop and start duly serve: it loads everything from the store; then report it";

pub async fn show(State(api): Shared) -> Answered {
    let counts = counted(&api).await?;
    let sum = |of: fn(&Counts) -> usize| counts.values().map(of).sum::<usize>();
    let memory = MemoryCounts {
        shards: counts.len(),
        ready: sum(|c| c.ready),
        timers: sum(|c| c.timers),
        leases: sum(|c| c.leases),
        claims_waiting: sum(|c| c.waiters),
    };
    let (mut stored_leases, mut findings) = (0, Vec::new());
    for shard in counts.keys() {
        let stored = stored(&api, *shard).await?;
        stored_leases += stored.leases;
        let mut wrong = compare(counts.get(shard), &stored);
        for _ in 0..DOCTOR_TRIES {
            if wrong.is_empty() {
                break;
            }
            // It went on meanwhile, or something is wrong: then it still is.
            let before = counted(&api).await?;
            let stored = self::stored(&api, *shard).await?;
            let after = counted(&api).await?;
            let still = before.get(shard) == after.get(shard);
            wrong = if still { compare(after.get(shard), &stored) } else { Vec::new() };
        }
        findings.extend(wrong.into_iter().map(|what| {
            let help = RESTART.to_string();
            Finding { shard: Some(shard.0), what, help }
        }));
    }
    Ok(Json(Doctor { memory, stored_leases, findings }).into_response())
}

async fn counted(api: &Api) -> Result<BTreeMap<ShardId, Counts>, Refusal> {
    let counts: BTreeMap<ShardId, Counts> = api.node.counts().await.into_iter().collect();
    if counts.is_empty() {
        let detail = "the node is too busy to count; ask again";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail));
    }
    Ok(counts)
}

/// What a shard's memory must agree with.
struct Stored {
    leases: usize,
    /// Is any run ready and not claimed?
    ready: bool,
    /// The oldest of what should have been decided long ago.
    late: Option<Time>,
}

async fn stored(api: &Api, shard: ShardId) -> Result<Stored, Refusal> {
    let mut leased: BTreeSet<RunId> = BTreeSet::new();
    loop {
        let after = leased.last().copied();
        let read = Read::Leases { after, limit: DOCTOR_PAGE };
        let Page::Leases(page) = api.node.read(shard, read).await? else { break };
        let more = page.len() >= DOCTOR_PAGE;
        leased.extend(page.into_iter().map(|(lease, _)| lease.run));
        if !more {
            break;
        }
    }
    let late = api.node.now().minus(DOCTOR_LATE);
    let read = Read::Due { from: Time::MIN, before: late, after: None, limit: DOCTOR_PAGE };
    let late = match api.node.read(shard, read).await? {
        Page::Due { rows, .. } => {
            let waits = |row: &Row| match row {
                Row::Run(row) => !leased.contains(&row.id),
                _ => true,
            };
            rows.iter().filter(|row| waits(row)).filter_map(Row::due).min()
        }
        _ => None,
    };
    let mut ready = false;
    if let Page::Flows(flows) =
        api.node.read(shard, Read::Flows { after: None, limit: DOCTOR_PAGE }).await?
    {
        for flow in flows {
            // One more than all that can be claimed.
            let read = Read::Flow { flow, after: None, limit: leased.len() + 1 };
            if let Page::Runs(runs) = api.node.read(shard, read).await? {
                ready |= runs.iter().any(|run| !leased.contains(&run.id));
            }
        }
    }
    Ok(Stored { leases: leased.len(), ready, late })
}

fn compare(memory: Option<&Counts>, stored: &Stored) -> Vec<String> {
    let Some(memory) = memory else { return vec!["it has no owner".to_string()] };
    let mut wrong = Vec::new();
    if memory.leases != stored.leases {
        let (mine, theirs) = (memory.leases, stored.leases);
        wrong.push(format!("memory has {mine} leases, the store {theirs}"));
    }
    if stored.ready && memory.ready == 0 {
        wrong.push("the store has ready runs, memory has none".to_string());
    }
    if let Some(late) = stored.late {
        let at = wire::timestamp::format(late.micros());
        wrong.push(format!("something was due at {at} and is not decided"));
    }
    wrong
}

//! A job's instants: what became of the past ones, and when the next ones are. Oldest first, because
//! it is a calendar and not a log.

use crate::job_verbs::job_id;
use crate::limits::{LIST_LIMIT, LIST_LIMIT_MAX};
use crate::query::Query;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::{status, time};
use crate::{Api, DEFAULT, Shared, find};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use calendar::{DstEffect, Schedule};
use model::read::{Outcome, Page, Read};
use model::row::{JobRow, JobState, Key, Row};
use model::{Cause, RunId, Span, Time, Token};
use serde_json::{Value, json};

const TICK: Span = Span::from_micros(1);
const DAY: Span = Span::from_secs(86_400);
/// What is shown when nobody says from when until when: yesterday, and the week that comes.
const AHEAD: Span = Span::from_secs(7 * 86_400);

pub async fn list(
    State(api): Shared,
    Path(job): Path<String>,
    RawQuery(query): RawQuery,
) -> Answered {
    let id = job_id(&job)?;
    let now = api.node.now();
    let mut query = Query::read(query.as_deref());
    let from = query.time("from").unwrap_or_else(|| now.minus(DAY));
    let to = query.time("to").unwrap_or_else(|| now.plus(AHEAD));
    let limit = query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize;
    let cursor = query.text("cursor").map(|text| read_cursor(&text));
    if cursor == Some(None) {
        query.faults.add("?cursor", "this is not a cursor that duly gave");
    }
    query.finish()?;
    let (row, spec) = find::recurring(&api, DEFAULT, id, "occurrences").await?;
    let Ok(schedule) = Schedule::new(&spec.schedule, &id.to_bytes(), row.versioned) else {
        return Err(unexpected());
    };
    // Strictly after this, up to and with `until`.
    let after = cursor.flatten().unwrap_or_else(|| from.minus(TICK));
    let until = to.minus(TICK);
    let mut items = past(&api, &row, &schedule, after, until.min(row.mark), limit).await?;
    let mut last = items.last().map(|(at, _)| *at);
    if items.len() < limit {
        let mut at = after.max(row.mark);
        while items.len() < limit
            && let Some(next) = schedule.next(at).filter(|next| *next <= until)
        {
            at = next;
            last = Some(next);
            items.push((next, planned(&row, &schedule, next)));
        }
    }
    let full = items.len() >= limit;
    let next_cursor = last.filter(|_| full).map(|at| format!("o{}", at.micros()));
    let items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
    Ok(Json(json!({"items": items, "next_cursor": next_cursor})).into_response())
}

fn read_cursor(text: &str) -> Option<Time> {
    text.strip_prefix('o')?.parse().ok().map(Time::from_micros)
}

fn planned(row: &JobRow, schedule: &Schedule, nominal: Time) -> Value {
    let occurrence = schedule.occurrence(nominal);
    let status = if row.state == JobState::Paused { "paused" } else { "planned" };
    let mut item = json!({
        "scheduled_for": time(nominal), "due_at": time(occurrence.effective), "status": status,
        "run_id": RunId::new(row.id, Cause::Occurrence(nominal)).to_string(),
    });
    match occurrence.dst {
        Some(DstEffect::Gap) => item["dst"] = json!("gap"),
        Some(DstEffect::Repeat) => item["dst"] = json!("repeat"),
        None => {}
    }
    item
}

/// Verdicts of `(after, until]`, with the instant where each ends.
async fn past(
    api: &Api,
    row: &JobRow,
    schedule: &Schedule,
    after: Time,
    until: Time,
    limit: usize,
) -> Result<Vec<(Time, Value)>, Refusal> {
    if after >= until {
        return Ok(Vec::new());
    }
    let read = Read::Outcomes { job: row.id, after, until, limit };
    let Page::Outcomes(outcomes) = api.node.read(row.id.shard(), read).await? else {
        return Err(unexpected());
    };
    // Why an instant made no run stands in its verdict, under the run it would have had.
    let key = |outcome: &Outcome| {
        Key::History(RunId::new(row.id, Cause::Occurrence(outcome.nominal)), Token::NONE)
    };
    let skipped: Vec<Key> = outcomes.iter().filter(|one| !one.ran).map(key).collect();
    let mut verdicts = find::rows(api, row.id.shard(), skipped).await?.into_iter();
    let mut items = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        let Outcome { nominal, until: end, ran, succeeded, live } = outcome;
        let mut item = json!({
            "scheduled_for": time(nominal),
            "due_at": time(schedule.occurrence(nominal).effective),
        });
        if ran {
            let word = match (live, succeeded) {
                (true, _) => "unfinished",
                (false, true) => "succeeded",
                (false, false) => "failed",
            };
            item["status"] = json!(word);
            item["run_id"] = json!(RunId::new(row.id, Cause::Occurrence(nominal)).to_string());
        } else {
            let verdict = match verdicts.next().flatten() {
                Some(Row::History(verdict)) => Some(verdict),
                _ => None,
            };
            item["status"] = json!(verdict.as_ref().map_or("skipped", |one| status(one.status)));
            if end > nominal {
                item["until"] = json!(time(end));
                item["count"] = json!(verdict.map_or(1, |one| one.count.max(1)));
            }
        }
        items.push((end, item));
    }
    Ok(items)
}

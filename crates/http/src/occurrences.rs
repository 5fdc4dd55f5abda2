//! A job's instants: what became of the past ones, and when the next ones are. Oldest first, because
//! it is a calendar and not a log.

use crate::cursor;
use crate::limits::{LIST_LIMIT, LIST_LIMIT_MAX};
use crate::query::Query;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::{status, time};
use crate::tenant::Tenant;
use crate::{Api, Shared, find};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use calendar::{DstEffect, Schedule};
use model::read::{Outcome, Page, Read};
use model::row::{JobRow, JobState, Key, Row};
use model::{Cause, RunId, Span, Time, Token};
use wire::answer::{Delayed, Occurrence, Occurrences};

const TICK: Span = Span::from_micros(1);
const DAY: Span = Span::from_secs(86_400);
/// What is shown when nobody says from when until when: yesterday, and the week that comes.
const AHEAD: Span = Span::from_secs(7 * 86_400);

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
    RawQuery(query): RawQuery,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let now = api.node.now();
    let mut query = Query::read(query.as_deref());
    let from = query.time("from").unwrap_or_else(|| now.minus(DAY));
    let to = query.time("to").unwrap_or_else(|| now.plus(AHEAD));
    let limit = query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize;
    let cursor = cursor::occurrences(&mut query);
    query.finish()?;
    let (row, spec) = find::recurring(&api, namespace, id, "occurrences").await?;
    let Ok(schedule) = Schedule::new(&spec.schedule, &id.to_bytes(), row.versioned) else {
        return Err(unexpected());
    };
    // Strictly after this, up to and with `until`.
    let after = cursor.unwrap_or_else(|| from.minus(TICK));
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
            items.push((next, planned(&row, &schedule, next, now)));
        }
    }
    let full = items.len() >= limit;
    let next_cursor = last.filter(|_| full).map(cursor::write_occurrence);
    let items = items.into_iter().map(|(_, item)| item).collect();
    Ok(Json(Occurrences { items, next_cursor }).into_response())
}

fn planned(row: &JobRow, schedule: &Schedule, nominal: Time, now: Time) -> Occurrence {
    let occurrence = schedule.occurrence(nominal);
    // Active, with a pause: its fires wait.
    let waits = row.pause.as_ref().filter(|_| row.state == JobState::Active && nominal <= now);
    let status = match row.state {
        JobState::Paused => "paused",
        _ if waits.is_some() => "delayed",
        _ => "planned",
    };
    Occurrence {
        delayed: waits.map(|pause| Delayed {
            reason: pause.reason.to_string(),
            fired_at: None,
            until: pause.until.map(time),
        }),
        scheduled_for: time(nominal),
        due_at: time(occurrence.effective),
        status,
        run_id: Some(RunId::new(row.id, Cause::Occurrence(nominal)).to_string()),
        dst: occurrence.dst.map(|effect| match effect {
            DstEffect::Gap => "gap",
            DstEffect::Repeat => "repeat",
        }),
        ..Occurrence::default()
    }
}

/// Verdicts of `(after, until]`, with the instant where each ends.
async fn past(
    api: &Api,
    row: &JobRow,
    schedule: &Schedule,
    after: Time,
    until: Time,
    limit: usize,
) -> Result<Vec<(Time, Occurrence)>, Refusal> {
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
    // Beside a run that came late stands why.
    let note = |outcome: &Outcome| {
        Key::History(RunId::new(row.id, Cause::Occurrence(outcome.nominal)), Token::DELAYED)
    };
    let ran: Vec<Key> = outcomes.iter().filter(|one| one.ran).map(note).collect();
    let mut notes = find::rows(api, row.id.shard(), ran).await?.into_iter();
    let mut items = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        let Outcome { nominal, until: end, ran, succeeded, live } = outcome;
        let run_id = RunId::new(row.id, Cause::Occurrence(nominal)).to_string();
        let mut item = Occurrence {
            scheduled_for: time(nominal),
            due_at: time(schedule.occurrence(nominal).effective),
            ..Occurrence::default()
        };
        if ran {
            item.run_id = Some(run_id);
            if let Some(Row::History(note)) = notes.next().flatten() {
                item.delayed = Some(Delayed {
                    reason: note.error.as_deref().unwrap_or_default().to_string(),
                    fired_at: Some(time(note.finished)),
                    until: None,
                });
            }
            item.status = match (live, succeeded) {
                (true, _) => "unfinished",
                (false, true) => "succeeded",
                (false, false) => "failed",
            };
        } else {
            let verdict = match verdicts.next().flatten() {
                Some(Row::History(verdict)) => Some(verdict),
                _ => None,
            };
            item.status = verdict.as_ref().map_or("skipped", |one| status(one.status));
            if end > nominal {
                item.until = Some(time(end));
                item.count = Some(verdict.map_or(1, |one| one.count.max(1)));
            }
        }
        items.push((end, item));
    }
    Ok(items)
}

//! Backfill: runs for instants of the past, because a person asked. The answer is an operation that
//! goes on by itself; a dry run only says what it would do.

use crate::jobs::{body_hash, json_text, key_header};
use crate::limits::{BACKFILL_RATE, BACKFILL_RATE_MAX, DRY_RUN_MAX, READ_PAGE};
use crate::quota::Submitter;
use crate::quota_counts::Adds;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::Tenant;
use crate::{Api, Shared, find, operations};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use calendar::Schedule;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use model::read::{Outcome, Page, Read};
use model::row::{JobRow, Made, Only};
use model::{JobId, Span, Spec, Text, Time};
use shard::command::{Answer, Command, KeyOf};
use wire::answer::DryRun;
use wire::{Faults, Object, duration};

const TICK: Span = Span::from_micros(1);

struct Request {
    from: Time,
    to: Time,
    only: Only,
    rate: u32,
    dry_run: bool,
}

pub async fn backfill(
    State(api): Shared,
    Tenant(namespace): Tenant,
    submitter: Submitter,
    Path(job): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let text = json_text(&body)?;
    let request = read(text, api.node.now())?;
    let (row, spec) = find::recurring(&api, namespace, id, "instants to fill in").await?;
    if request.dry_run {
        return dry_run(&api, &row, &spec, &request).await;
    }
    submitter.for_key(&api, spec.api_key).admit(&api, Adds::Run, 0).await?;
    // The job is part of what the key was used for.
    let key = key_header(&headers)?.map(|key| KeyOf {
        key: Text::from(key),
        body: body_hash(text) ^ model::hash::mix(id.bits().1),
    });
    let Request { from, to, only, rate, .. } = request;
    let command = Command::Backfill { job: id, from, to, only, per_second: rate, key };
    let made = match api.node.call(id.shard(), command).await {
        Answer::Made(Made::Backlog(made)) => made,
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(unexpected()),
    };
    let total = Schedule::new(&spec.schedule, &id.to_bytes(), row.versioned)
        .map_or(0, |schedule| schedule.count(from, to));
    let new = operations::keep_backfill(&api, namespace, made, (rate, total)).await;
    let operation = operations::of_backlog(&api, namespace, made).await?;
    let location = format!("/v1/operations/{}", operation.id);
    let replayed = if new { "false" } else { "true" };
    let headers = [(LOCATION.as_str(), location.as_str()), ("idempotency-replayed", replayed)];
    Ok((StatusCode::ACCEPTED, headers, Json(operation)).into_response())
}

/// The fields of a backfill, for its description.
pub fn read_only(text: &str, faults: &mut Faults) {
    fields(text, Time::MAX, faults);
}

fn read(text: &str, now: Time) -> Result<Request, Refusal> {
    let mut faults = Faults::default();
    match fields(text, now, &mut faults) {
        Some(request) if faults.is_empty() => Ok(request),
        _ => Err(Refusal::faults(faults)),
    }
}

fn fields(text: &str, now: Time, faults: &mut Faults) -> Option<Request> {
    let mut object = Object::read(text, "", faults)?;
    let from = object.time("from", faults).map(Time::from_micros);
    let to = object.time("to", faults).map(Time::from_micros);
    let only = object.choice("only", &["missing", "failed", "all"], faults);
    let rate = read_rate(&mut object, BACKFILL_RATE_MAX, faults);
    let dry_run = object.flag("dry_run", faults).unwrap_or(false);
    object.finish(faults);
    if from.is_none() && !faults.at("/from") {
        faults.add("/from", "from when is missing, such as \"2027-03-01T00:00:00Z\"");
    }
    let to = to.unwrap_or(now);
    if to > now {
        faults.add("/to", "a backfill is about the past; what comes runs by itself");
    } else if from.is_some_and(|from| from >= to) {
        faults.add("/from", "from lies before to");
    }
    let only = match only {
        Some("all") => Only::All,
        Some("failed") => Only::Failed,
        _ => Only::Missing,
    };
    let rate = rate.unwrap_or(BACKFILL_RATE) as u32;
    Some(Request { from: from?, to, only, rate, dry_run })
}

/// A number per second: `10` or `"10/s"`.
pub fn read_rate(object: &mut Object<'_>, most: u64, faults: &mut Faults) -> Option<u64> {
    let raw = object.raw("rate")?;
    let text = raw.get().trim_matches('"');
    let number = text.strip_suffix("/s").unwrap_or(text).parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    if number.is_none() {
        faults.add(object.at("rate"), format!("1 to {most} per second are expected, as \"10/s\""));
    }
    number
}

async fn dry_run(api: &Api, row: &JobRow, spec: &Spec, request: &Request) -> Answered {
    let Ok(schedule) = Schedule::new(&spec.schedule, &row.id.to_bytes(), row.versioned) else {
        return Err(unexpected());
    };
    let total = schedule.count(request.from, request.to);
    let mut would_run = total;
    let mut complete = true;
    if request.only != Only::All {
        let (counted, all) = count(api, row.id, &schedule, request).await?;
        (would_run, complete) = (counted, all);
    }
    let seconds = would_run.div_ceil(u64::from(request.rate.max(1)));
    let body = DryRun {
        dry_run: true,
        instants: Some(total),
        would_run,
        complete,
        takes_about: duration::format(
            i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000),
        ),
    };
    Ok(Json(body).into_response())
}

/// How many instants are wanted, and whether all were looked at.
async fn count(
    api: &Api,
    job: JobId,
    schedule: &Schedule,
    request: &Request,
) -> Result<(u64, bool), Refusal> {
    let (mut wanted, mut looked) = (0, 0);
    let mut cursor = request.from.minus(TICK);
    let until = request.to.minus(TICK);
    loop {
        let read = Read::Outcomes { job, after: cursor, until, limit: READ_PAGE };
        let Page::Outcomes(outcomes) = api.node.read(job.shard(), read).await? else {
            return Err(unexpected());
        };
        let full = outcomes.len() >= READ_PAGE;
        let known = outcomes.last().filter(|_| full).map_or(until, |last| last.nominal);
        while let Some(at) = schedule.next(cursor).filter(|at| *at <= known) {
            cursor = at;
            looked += 1;
            wanted += u64::from(is_wanted(request.only, at, &outcomes));
            if looked >= DRY_RUN_MAX {
                return Ok((wanted, false));
            }
        }
        if !full {
            return Ok((wanted, true));
        }
        cursor = cursor.max(known);
    }
}

/// The core's rule (`shard::verbs::backlog`), over the same outcomes.
fn is_wanted(only: Only, at: Time, outcomes: &[Outcome]) -> bool {
    let first_after = outcomes.partition_point(|outcome| outcome.nominal <= at);
    let found = outcomes[..first_after].iter().rev().find(|outcome| at <= outcome.until);
    match only {
        Only::All => true,
        Only::Missing => !found.is_some_and(|found| found.ran || found.live),
        Only::Failed => found.is_some_and(|found| found.ran && !found.succeeded && !found.live),
    }
}

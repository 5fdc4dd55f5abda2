//! Why is it not running? What the rows say, in words and as fields. The reader sees what an owner
//! would look at: the lease, the state, the holds, who is before it.

use crate::limits::READ_PAGE;
use crate::refusal::{Answered, Refusal};
use crate::run_read::{name, status, time};
use crate::tenant::Tenant;
use crate::{Api, Shared, destinations, find, run_read, workers};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use calendar::Schedule;
use model::read::{Page, Read};
use model::row::{Holder, JobState, Key, LeaseRow, Row, RunRow, Scope};
use model::{Cause, Namespace, RunId, RunState, Span, Status, Time, Token};
use wire::answer::{Explained, Reason};
use wire::duration;

pub async fn explain(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(run): Path<String>,
) -> Answered {
    let run = find::run(&run)?;
    let (row, lease) = find::run_rows(&api, run).await?;
    let (state, reasons) = match (&row, &lease) {
        (Some(row), _) if row.flow.namespace != namespace => return Err(Refusal::not_found("run")),
        (Some(_), Some(lease)) => ("running", vec![running(&api, lease)]),
        (Some(row), None) => (name(row.state), waiting(&api, row).await?),
        (None, _) => not_there(&api, namespace, run).await?,
    };
    let summary = reasons.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join(" ");
    let body = Explained { run_id: run.to_string(), status: state, summary, reasons };
    Ok(Json(body).into_response())
}

pub(crate) fn reason(code: &'static str, message: String) -> Reason {
    Reason { code, message, ..Reason::default() }
}

/// `in 5m` or `5m ago`, whole seconds.
fn from_now(at: Time, now: Time) -> String {
    let micros = at.since(now).micros();
    let seconds = micros / 1_000_000 * 1_000_000;
    match seconds {
        0 if micros >= 0 => "in less than a second".to_string(),
        0 => "just now".to_string(),
        later if later > 0 => format!("in {}", duration::format(later)),
        earlier => format!("{} ago", duration::format(-earlier)),
    }
}

fn running(api: &Api, lease: &LeaseRow) -> Reason {
    let who = match &lease.holder {
        Holder::Node(_) => "duly itself".to_string(),
        Holder::Worker(worker) => format!("the worker {worker}"),
    };
    let (now, n) = (api.node.now(), lease.attempt);
    let began = from_now(lease.started, now);
    let mut message = format!("It is running: attempt {n}, held by {who}, began {began}.");
    if lease.cancel {
        message.push_str(" It was asked to stop; it ends when its holder answers.");
    }
    let mut one = reason(if lease.cancel { "stopping" } else { "running" }, message);
    one.since = Some(time(lease.started));
    one.deadline = Some(time(lease.deadline));
    one
}

async fn waiting(api: &Api, row: &RunRow) -> Result<Vec<Reason>, Refusal> {
    let now = api.node.now();
    let last = api.node.attempts_of(row.id).await?.pop();
    let snoozed = last.as_ref().is_some_and(|last| last.status == Status::Snoozed);
    let error = last.and_then(|last| last.error.map(|error| error.to_string()));
    let why = error.unwrap_or_else(|| "no error was told".to_string());
    let mut reasons = Vec::new();
    match row.state {
        RunState::Scheduled => {
            let message =
                format!("Its time has not come: {}, {}.", time(row.due), from_now(row.due, now));
            reasons.push(due(reason("not_due", message), row.due));
        }
        RunState::Blocked => {
            let job = find::rows(api, row.id.job.shard(), vec![Key::Job(row.id.job)]).await?;
            let before = job.into_iter().flatten().find_map(|row| match row {
                Row::Job(job) => job.active,
                _ => None,
            });
            let who = before.map_or("another run of its job".to_string(), |run| run.to_string());
            let message = format!("It waits for {who} to end (overlap: queue_one).");
            let mut one = reason("blocked", message);
            one.waits_for = before.map(|run| run.to_string());
            reasons.push(one);
        }
        RunState::Retrying => {
            let (n, when) = (row.attempts, from_now(row.due, now));
            let message = match snoozed {
                true => format!("It was put back unspent; it comes again {when}."),
                false => format!("Attempt {n} failed ({why}); the next one is due {when}."),
            };
            let mut one = due(reason("retrying", message), row.due);
            one.error = (!snoozed).then_some(why);
            one.retries_left = Some(row.policy.max_retries.saturating_sub(row.retries));
            reasons.push(one);
        }
        RunState::Dead => {
            let (n, run) = (row.attempts, row.id);
            let message = format!(
                "It is dead after {n} attempts ({why}) and waits for a person: duly run replay {run}, \
                 or discard it; it fails by itself on {}.",
                time(row.due)
            );
            let mut one = reason("dead", message);
            one.error = Some(why);
            reasons.push(one);
        }
        _ => {
            reasons.extend(crate::explain_limits::limits(api, row).await?);
            reasons.push(ready(api, row).await?);
        }
    }
    if matches!(row.state, RunState::Ready | RunState::Retrying) {
        reasons.extend(destination(api, row).await?);
    }
    if row.state != RunState::Dead {
        reasons.extend(holds(api, row).await?);
    }
    if row.state == RunState::Ready {
        reasons.extend(nobody(api, row).await);
    }
    Ok(reasons)
}

/// Where it is sent to fails.
async fn destination(api: &Api, row: &RunRow) -> Result<Option<Reason>, Refusal> {
    let Some(found) = destinations::failing(api, row).await? else { return Ok(None) };
    let host = found.host;
    let when = match &found.next_probe_at {
        Some(at) => format!("until {at}; then one run is sent to see whether it works again"),
        None => "while one run is sent to see whether it works again".to_string(),
    };
    let message = format!("Nothing is sent to {host}, which fails: its breaker is open {when}.");
    let mut one = reason("destination_fails", message);
    one.until = found.next_probe_at;
    one.since = found.opened_at;
    one.waits_for = Some(host);
    Ok(Some(one))
}

fn due(mut one: Reason, at: Time) -> Reason {
    one.due_at = Some(time(at));
    one
}

async fn ready(api: &Api, row: &RunRow) -> Result<Reason, Refusal> {
    let flow = row.flow.clone();
    let read = Read::Flow { flow, after: None, limit: READ_PAGE };
    let before = match api.node.read(row.id.job.shard(), read).await? {
        Page::Runs(runs) => match runs.iter().position(|run| run.id == row.id) {
            // The row of a run that was claimed stays as it was; it is not before anybody.
            Some(place) => {
                let keys = runs[..place].iter().map(|run| Key::Lease(run.id)).collect();
                let leases = find::rows(api, row.id.job.shard(), keys).await?;
                Some(place - leases.into_iter().flatten().count())
            }
            None => None,
        },
        _ => None,
    };
    let queue = &row.flow.queue;
    let line = match before {
        Some(0) => "it is the first in its line".to_string(),
        Some(1) => "one run of the same line is before it".to_string(),
        Some(n) => format!("{n} runs of the same line are before it"),
        None => format!("more than {READ_PAGE} runs of the same line are before it"),
    };
    let (code, who) = match row.flow.kind.strip_prefix("worker:") {
        Some(kind) => ("waits_for_worker", format!("for a worker of kind {kind}")),
        None => ("waits_for_turn", "for its turn to be sent".to_string()),
    };
    let mut one = reason(code, format!("It is ready in queue {queue} and waits {who}; {line}."));
    one.queue = Some(queue.to_string());
    one.before_it = before;
    one.since = Some(time(row.due));
    Ok(one)
}

/// Does no worker that lives take it?
async fn nobody(api: &Api, row: &RunRow) -> Option<Reason> {
    let (queue, kind) = (&row.flow.queue, row.flow.kind.strip_prefix("worker:")?);
    let (code, message) = match workers::takers(api, row.flow.namespace, queue, kind).await {
        (0, _) => {
            ("no_worker_of_queue", format!("No living worker takes from queue {queue}: start one."))
        }
        (n, 0) => (
            "no_worker_of_kind",
            format!("{n} living workers take from queue {queue}, none of them kind {kind}."),
        ),
        _ => return None,
    };
    let mut one = reason(code, message);
    one.queue = Some(queue.to_string());
    Some(one)
}

async fn holds(api: &Api, row: &RunRow) -> Result<Vec<Reason>, Refusal> {
    let Page::Holds(holds) = api.node.read(row.id.job.shard(), Read::Holds).await? else {
        return Ok(Vec::new());
    };
    let flow = &row.flow;
    let mut found = Vec::new();
    for (scope, hold) in holds {
        let (what, how) = match &scope {
            Scope::All => ("everything".to_string(), "duly release".to_string()),
            Scope::Namespace(namespace) if *namespace == flow.namespace => {
                ("its namespace".to_string(), "duly release --scope namespace".to_string())
            }
            Scope::Queue(namespace, queue)
                if (*namespace, queue) == (flow.namespace, &flow.queue) =>
            {
                (format!("queue {queue}"), format!("duly release --queue {queue}"))
            }
            _ => continue,
        };
        let message =
            format!("No attempt starts: {what} is held ({}); {how} ends it.", hold.reason);
        let mut one = reason("held", message);
        one.reason = Some(hold.reason.to_string());
        one.until = hold.until.map(time);
        found.push(one);
    }
    Ok(found)
}

/// No row: finished, or an occurrence that made no run, or one that is still to come.
async fn not_there(
    api: &Api,
    namespace: Namespace,
    run: RunId,
) -> Result<(&'static str, Vec<Reason>), Refusal> {
    if let Ok(found) = run_read::read(api, namespace, run).await {
        let when = found.finished_at.unwrap_or_default();
        let error = found.error.map(|error| format!(" ({error})")).unwrap_or_default();
        let message = format!("It has ended: {} {when}{error}.", found.status);
        return Ok((found.status, vec![reason("ended", message)]));
    }
    let keys = vec![Key::Job(run.job), Key::History(run, Token::NONE)];
    let (mut job, mut verdict) = (None, None);
    for row in find::rows(api, run.job.shard(), keys).await?.into_iter().flatten() {
        match row {
            Row::Job(row) if row.namespace == namespace => job = Some(row),
            Row::History(row) => verdict = Some(row),
            _ => {}
        }
    }
    let (Some(job), Cause::Occurrence(at)) = (job, run.cause()) else {
        return Err(Refusal::not_found("run"));
    };
    if let Some(verdict) = verdict {
        let word = status(verdict.status);
        let message = format!("This instant made no run: {word}.");
        return Ok((word, vec![reason(word, message)]));
    }
    let spec = find::spec(api, run.job, job.version).await?;
    let schedule =
        spec.and_then(|spec| Schedule::new(&spec.schedule, &job.id.to_bytes(), job.versioned).ok());
    let before = at.minus(Span::from_micros(1));
    let named = schedule.and_then(|schedule| schedule.next(before)) == Some(at);
    if at <= job.mark || !named {
        return Err(Refusal::not_found("run"));
    }
    let now = api.node.now();
    let mut reasons = Vec::new();
    if job.state == JobState::Paused {
        let why = job.pause.as_ref().map(|pause| pause.reason.to_string()).unwrap_or_default();
        let message = format!("Its job is paused ({why}); duly job resume {} ends it.", run.job);
        let mut one = reason("paused", message);
        one.until = job.pause.and_then(|pause| pause.until).map(time);
        reasons.push(one);
    } else if let Some(pause) = job.pause.as_ref().filter(|_| job.state == JobState::Active)
        && at <= now
    {
        let message = match &*pause.reason {
            "fires_quota" => "It waits: its namespace has fired as often as its quota allows.",
            "waiting_quota" => "It waits: as many runs of its namespace wait as its quota allows.",
            "key_fires_quota" => {
                "It waits: jobs of the API key that it was made with have fired as often as may."
            }
            "key_waiting_quota" => {
                "It waits: as many runs wait as may, of jobs of the API key that it was made with."
            }
            _ => "It waits: the service level of its queue is broken, and its priority is low.",
        };
        let mut one = reason("delayed", message.to_string());
        one.until = pause.until.map(time);
        return Ok(("delayed", vec![due(one, at)]));
    } else if job.state != JobState::Active {
        let message = format!("Its job is {}.", crate::job_read::state(job.state));
        reasons.push(reason("job_over", message));
    }
    let message = format!("Its instant, {}, comes {}.", time(at), from_now(at, now));
    reasons.push(due(reason("not_due", message), at));
    Ok(("planned", reasons))
}

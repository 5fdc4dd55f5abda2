//! Dead letters: runs that wait for a person. Listed, grouped by what they died of, and replayed or
//! discarded many at once as an operation.

use crate::backfill::read_rate;
use crate::jobs::{body_hash, json_text, key_header};
use crate::limits::{BULK_RATE, BULK_RATE_MAX, GROUP_ERROR_MAX, GROUPED_MAX, IDS_MAX, READ_PAGE};
use crate::query::Query;
use crate::quota::Submitter;
use crate::quota_counts::Adds;
use crate::refusal::{Answered, Refusal};
use crate::run_read::time;
use crate::tenant::Tenant;
use crate::{Api, Shared, find, lists, operations};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use model::{JobId, Namespace, RunId, RunState, Text, Time};
use node::bulk::{self, Bulk, Meant, Status, Verb};
use std::collections::BTreeMap;
use store::search::{RunFound, States};
use wire::answer::{DryRun, Group, Groups};
use wire::{Faults, Object, duration};

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let job = query.text("job");
    let mut find = lists::filter(namespace, &mut query);
    find.states = States::of(&[RunState::Dead]);
    if let Some(job) = job {
        find.job = Some(find::job(&api, namespace, &job).await?);
    }
    query.finish()?;
    Ok(Json(lists::page(&api, find).await?).into_response())
}

#[derive(Default)]
struct Sum {
    count: u64,
    first: Option<Time>,
    last: Option<Time>,
    run: Option<RunId>,
}

pub async fn groups(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let by = query.list("by").unwrap_or_else(|| vec!["job".to_string(), "error".to_string()]);
    if by.iter().any(|one| !["job", "error"].contains(&one.as_str())) {
        query.faults.add("?by", "job, error or both with a comma are expected");
    }
    query.finish()?;
    let (by_job, by_error) = (by.contains(&"job".to_string()), by.contains(&"error".to_string()));
    let mut sums: BTreeMap<(Option<JobId>, Option<String>), Sum> = BTreeMap::new();
    let all = Meant::Filter { job: None, queue: None, text: None, since: None, until: None };
    let (mut after, mut looked) = (None, 0);
    let complete = loop {
        let found = api.node.find_runs(all.search(namespace, after, READ_PAGE)).await?;
        looked += found.items.len();
        for one in &found.items {
            let RunFound::Live { row, last, .. } = one else { continue };
            let error = last.as_ref().and_then(|last| last.error.as_deref()).unwrap_or("no error");
            let key = (by_job.then_some(row.id.job), by_error.then(|| kind_of(error)));
            let died = last.as_ref().map(|last| last.finished);
            let sum = sums.entry(key).or_default();
            sum.count += 1;
            sum.first = [sum.first, died].into_iter().flatten().min();
            sum.last = sum.last.max(died);
            sum.run.get_or_insert(row.id);
        }
        match found.next {
            None => break true,
            Some(_) if looked >= GROUPED_MAX => break false,
            Some(next) => after = Some(next),
        }
    };
    let mut items: Vec<Group> = sums
        .into_iter()
        .map(|((job, error), sum)| Group {
            job_id: job.map(|job| job.to_string()),
            error,
            count: sum.count,
            first_at: sum.first.map(time),
            last_at: sum.last.map(time),
            run_id: sum.run.map(|run| run.to_string()).unwrap_or_default(),
        })
        .collect();
    items.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(Json(Groups { items, complete }).into_response())
}

/// Errors that differ only in numbers are of one kind.
fn kind_of(error: &str) -> String {
    let mut kind = String::new();
    for letter in error.chars().take(GROUP_ERROR_MAX) {
        match letter.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(letter),
        }
    }
    kind
}

struct Request {
    meant: Wanted,
    rate: u32,
    dry_run: bool,
}

enum Wanted {
    Ids(Vec<RunId>),
    /// The job is an id or a name.
    Filter {
        job: Option<String>,
        queue: Option<Text>,
        text: Option<Text>,
        since: Option<Time>,
        until: Option<Time>,
    },
}

pub fn read_only(text: &str, faults: &mut Faults) {
    fields(text, faults);
}

fn fields(text: &str, faults: &mut Faults) -> Option<Request> {
    let mut object = Object::read(text, "", faults)?;
    let meant = match object.one_of(&["ids", "filter"], faults) {
        Some("ids") => object.texts("ids", IDS_MAX, faults).map(|ids| read_ids(&ids, faults)),
        Some(_) => object.object("filter", faults).map(|filter| read_filter(filter, faults)),
        None => None,
    };
    let rate = read_rate(&mut object, BULK_RATE_MAX, faults).unwrap_or(BULK_RATE) as u32;
    let dry_run = object.flag("dry_run", faults).unwrap_or(false);
    object.finish(faults);
    Some(Request { meant: meant?, rate, dry_run })
}

fn read_ids(ids: &[String], faults: &mut Faults) -> Wanted {
    let mut runs = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        match RunId::parse(id) {
            Some(run) => runs.push(run),
            None => faults.add(format!("/ids/{index}"), "this is not the id of a run"),
        }
    }
    Wanted::Ids(runs)
}

fn read_filter(mut filter: Object<'_>, faults: &mut Faults) -> Wanted {
    let wanted = Wanted::Filter {
        job: filter.short("job", 128, faults),
        queue: filter.short("queue", 128, faults).map(Text::from),
        text: filter.short("q", 255, faults).map(Text::from),
        since: filter.time("since", faults).map(Time::from_micros),
        until: filter.time("until", faults).map(Time::from_micros),
    };
    filter.finish(faults);
    wanted
}

pub async fn replay(
    State(api): Shared,
    Tenant(namespace): Tenant,
    submitter: Submitter,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    submitter.admit(&api, Adds::Run, 0).await?;
    begin(&api, namespace, Verb::Replay, &headers, &body).await
}

pub async fn discard(
    State(api): Shared,
    Tenant(namespace): Tenant,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    begin(&api, namespace, Verb::Discard, &headers, &body).await
}

async fn begin(
    api: &Api,
    namespace: Namespace,
    verb: Verb,
    headers: &HeaderMap,
    body: &[u8],
) -> Answered {
    let text = json_text(body)?;
    let key = key_header(headers)?;
    let mut faults = Faults::default();
    let request = match fields(text, &mut faults) {
        Some(request) if faults.is_empty() => request,
        _ => return Err(Refusal::faults(faults)),
    };
    let meant = match request.meant {
        Wanted::Ids(ids) => Meant::Ids(own(api, namespace, ids).await?),
        Wanted::Filter { job, queue, text, since, until } => {
            let job = match job {
                Some(job) => Some(find::job(api, namespace, &job).await?),
                None => None,
            };
            Meant::Filter { job, queue, text, since, until }
        }
    };
    let total = bulk::count(&api.node, namespace, &meant).await?;
    if request.dry_run {
        let count = total.unwrap_or(node::limits::BULK_COUNT_MAX as u64);
        let seconds = count.div_ceil(u64::from(request.rate.max(1)));
        let body = DryRun {
            dry_run: true,
            instants: None,
            would_run: count,
            complete: total.is_some(),
            takes_about: duration::format(i64::try_from(seconds).unwrap_or(0) * 1_000_000),
        };
        return Ok(Json(body).into_response());
    }
    // The same key is the same operation, whatever its body: then it is compared.
    let hash = body_hash(text) ^ verb as u64;
    let id = operations::bulk_id(api, namespace, key.as_deref());
    let new = Bulk {
        verb,
        meant,
        rate: request.rate,
        status: Status::Running,
        done: 0,
        failed: 0,
        total,
        created: api.node.now(),
        body: hash,
        cursor: None,
    };
    let made = bulk::begin(&api.node, namespace, &id, &new).await?;
    let kept = bulk::find(&api.node, namespace, &id).await?;
    let kept = kept.ok_or_else(|| Refusal::not_found("operation"))?;
    if !made && kept.bulk.body != hash {
        return Err(shard::command::Refused::KeyReused.into());
    }
    let location = format!("/v1/operations/{id}");
    let replayed = if made { "false" } else { "true" };
    let headers = [(LOCATION.as_str(), location.as_str()), ("idempotency-replayed", replayed)];
    Ok((StatusCode::ACCEPTED, headers, Json(operations::of_bulk(&kept))).into_response())
}

/// Only runs of this namespace: others are not found, whoever names them.
async fn own(api: &Api, namespace: Namespace, ids: Vec<RunId>) -> Result<Vec<RunId>, Refusal> {
    for run in &ids {
        let (row, _) = find::run_rows(api, *run).await?;
        if row.is_none_or(|row| row.flow.namespace != namespace) {
            let detail = format!("{run} is not a dead run here; leave it out");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", detail));
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn errors_that_differ_in_numbers_are_of_one_kind() {
        assert_eq!(kind_of("timeout after 3012 ms"), kind_of("timeout after 7 ms"));
        assert_ne!(
            kind_of("the receiver answered 500: a"),
            kind_of("the receiver answered 500: b")
        );
    }
}

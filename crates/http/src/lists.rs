//! Lists of jobs and runs: filters, pages, newest first.

use crate::limits::{LIST_LIMIT, LIST_LIMIT_MAX};
use crate::query::Query;
use crate::refusal::Answered;
use crate::run_read::name;
use crate::tenant::Tenant;
use crate::{Shared, cursor, find, job_read, run_read};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use model::row::JobState;
use model::{Namespace, RunState, Text};
use store::search::{CauseKind, FindJobs, FindRuns, JobFound, RunFound, States};
use wire::answer::{Job, Jobs, Run, Runs};

pub async fn jobs(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let mut find = FindJobs {
        namespace,
        recurring: Some(Vec::new()),
        one_off: Some(States::default()),
        queue: query.text("queue").map(Text::from),
        owner: query.text("owner").map(Text::from),
        tag: query.text("tag").map(|text| match text.split_once(':') {
            Some((key, value)) => (Text::from(key), Some(Text::from(value))),
            None => (Text::from(text), None),
        }),
        text: query.text("q").map(Text::from),
        after: cursor::jobs(&mut query),
        limit: query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize,
    };
    if let Some(words) = query.list("status") {
        let jobs = [JobState::Active, JobState::Paused, JobState::Ended, JobState::Cancelled];
        let wanted = |state: &JobState| {
            let word = job_read::state(*state);
            let group = match state {
                JobState::Active | JobState::Paused => "pending",
                JobState::Ended | JobState::Cancelled => "finished",
            };
            words.iter().any(|one| one == word || one == group)
        };
        let recurring: Vec<JobState> = jobs.into_iter().filter(wanted).collect();
        let runs = states(&words);
        for word in &words {
            let known = !states(std::slice::from_ref(word)).is_empty()
                || jobs.iter().any(|state| job_read::state(*state) == word);
            if !known {
                query.faults.add("?status", format!("{word} is no state; {STATES_OF_JOBS}"));
            }
        }
        find.recurring = (!recurring.is_empty()).then_some(recurring);
        find.one_off = (!runs.is_empty()).then(|| States::of(&runs));
    }
    query.finish()?;
    let found = api.node.find_jobs(find).await?;
    let items = found.items.into_iter().map(job).collect();
    Ok(Json(Jobs { items, next_cursor: found.next.map(|next| next.to_string()) }).into_response())
}

const STATES_OF_JOBS: &str = "known are active, paused, ended, cancelled, the states of runs, and the \
                              groups pending, finished, failed";

fn job(found: JobFound) -> Job {
    match found {
        JobFound::Recurring { row, spec } => job_read::of_row(&row, &spec),
        JobFound::OneOff { run: found, spec } => {
            let version = match &found {
                RunFound::Live { row, .. } => row.version,
                RunFound::Ended(row) => row.version,
            };
            job_read::of_run(found.id().job, version, run(found), Some(&spec))
        }
        JobFound::Finished(row) => {
            let mut job = job_read::of_run(row.run.job, row.version, run_read::ended(&row), None);
            job.queue = row.flow.map(|flow| flow.queue.to_string());
            job
        }
    }
}

pub fn run(found: RunFound) -> Run {
    match found {
        RunFound::Live { row, lease, last } => {
            let past: Vec<_> = last.into_iter().map(|last| *last).collect();
            Run { attempts: None, ..run_read::live(&row, lease.as_ref(), &past) }
        }
        RunFound::Ended(row) => run_read::ended(&row),
    }
}

pub async fn runs(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let job = query.text("job");
    let mut find = filter(namespace, &mut query);
    if let Some(job) = job {
        find.job = Some(find::job(&api, namespace, &job).await?);
    }
    query.finish()?;
    Ok(Json(page(&api, find).await?).into_response())
}

pub async fn runs_of_job(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
    RawQuery(query): RawQuery,
) -> Answered {
    let id = find::own_job(&api, namespace, &job).await?;
    let mut query = Query::read(query.as_deref());
    let mut find = filter(namespace, &mut query);
    find.job = Some(id);
    query.finish()?;
    Ok(Json(page(&api, find).await?).into_response())
}

pub async fn page(api: &crate::Api, find: FindRuns) -> Result<Runs, crate::refusal::Refusal> {
    let found = api.node.find_runs(find).await?;
    let items = found.items.into_iter().map(run).collect();
    Ok(Runs { items, next_cursor: found.next.map(|next| next.to_string()) })
}

/// Everything but the job.
pub fn filter(namespace: Namespace, query: &mut Query) -> FindRuns {
    let words = query.list("status");
    let mut wanted = States::default();
    if let Some(words) = &words {
        for word in words.iter().filter(|word| states(std::slice::from_ref(word)).is_empty()) {
            let known: Vec<&str> = RunState::ALL.iter().map(|state| name(*state)).collect();
            let known = known.join(", ");
            let message =
                format!("{word} is no state; known are {known}, pending, finished, failed");
            query.faults.add("?status", message);
        }
        wanted = States::of(&states(words));
    }
    let causes = [
        ("one_off", CauseKind::OneOff),
        ("occurrence", CauseKind::Occurrence),
        ("trigger", CauseKind::Trigger),
        ("backfill", CauseKind::Backfill),
        ("rerun", CauseKind::Rerun),
    ];
    let cause = query.choice("cause", &causes.map(|(word, _)| word));
    FindRuns {
        namespace,
        job: None,
        states: wanted,
        queue: query.text("queue").map(Text::from),
        worker: query.text("worker").map(Text::from),
        cause: cause
            .and_then(|word| causes.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)),
        text: query.text("q").map(Text::from),
        since: query.time("since"),
        until: query.time("until"),
        after: cursor::runs(query),
        limit: query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize,
    }
}

/// The states that these words mean: their own names, and the groups of the contract.
fn states(words: &[String]) -> Vec<RunState> {
    let wanted = |state: &RunState| {
        words.iter().any(|word| match word.as_str() {
            "pending" => !state.is_final() && *state != RunState::Dead,
            "finished" => state.is_final(),
            "failed" => matches!(state, RunState::Dead | RunState::Failed | RunState::Expired),
            word => word == name(*state),
        })
    };
    RunState::ALL.into_iter().filter(wanted).collect()
}

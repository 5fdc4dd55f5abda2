//! How a job's last runs went, counted over the newest of them.

use crate::limits::STATS_RUNS;
use crate::refusal::Answered;
use crate::tenant::Tenant;
use crate::{Shared, find};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use model::RunState;
use store::search::{FindRuns, RunFound};
use wire::answer::{Spread, Stats};

pub async fn stats(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
) -> Answered {
    let id = find::own_job(&api, namespace, &job).await?;
    let mut stats = Stats { job_id: id.to_string(), ..Stats::default() };
    let (mut durations, mut delays) = (Vec::new(), Vec::new());
    let mut find = FindRuns { namespace, job: Some(id), limit: STATS_RUNS, ..FindRuns::default() };
    // Each page looks at a bounded number of rows, and so do all of them together.
    for _ in 0..STATS_RUNS {
        let found = api.node.find_runs(find.clone()).await?;
        for one in found.items {
            let row = match one {
                RunFound::Live { .. } => {
                    stats.unfinished += 1;
                    continue;
                }
                RunFound::Ended(row) => row,
            };
            stats.runs += 1;
            match row.after {
                RunState::Succeeded => stats.succeeded += 1,
                RunState::Cancelled => stats.cancelled += 1,
                RunState::Expired => stats.expired += 1,
                _ => stats.failed += 1,
            }
            if let Some(started) = row.started {
                durations.push(row.finished.since(started).micros().max(0) / 1_000);
                delays.push(started.since(row.due).micros() / 1_000);
            }
            if stats.last_error.is_none() && row.after != RunState::Succeeded {
                stats.last_error = row.error.map(|error| error.to_string());
            }
        }
        let looked = (stats.runs + stats.unfinished) as usize;
        match found.next.filter(|_| looked < STATS_RUNS) {
            Some(next) => {
                find.after = Some(next);
                find.limit = STATS_RUNS - looked;
            }
            None => break,
        }
    }
    let judged = stats.succeeded + stats.failed;
    stats.success_rate = (judged > 0).then(|| stats.succeeded as f64 / judged as f64);
    stats.duration_ms = spread(durations);
    stats.delay_ms = spread(delays);
    Ok(Json(stats).into_response())
}

fn spread(mut values: Vec<i64>) -> Option<Spread> {
    values.sort_unstable();
    let at = |percent: usize| values.get((values.len().saturating_sub(1)) * percent / 100).copied();
    Some(Spread { p50: at(50)?, p95: at(95)?, max: at(100)? })
}

//! How a run that has left the hot tables is found: its attempts by their tokens, else, of an
//! occurrence, only how it ended.

use crate::Api;
use crate::refusal::Refusal;
use model::read::{Page, Read};
use model::row::HistoryRow;
use model::{Cause, RunId, Span};

/// What was tried, oldest first.
pub async fn attempts(api: &Api, run: RunId) -> Result<Vec<HistoryRow>, Refusal> {
    Ok(api.node.attempts_of(run).await?)
}

/// Did it succeed? None if the store knows no such occurrence.
pub async fn succeeded(api: &Api, run: RunId) -> Result<Option<bool>, Refusal> {
    let tick = Span::from_micros(1);
    let Cause::Occurrence(until) = run.cause() else { return Ok(None) };
    let after = until.minus(tick);
    let read = Read::Outcomes { job: run.job, after, until, limit: 1 };
    match api.node.read(run.job.shard(), read).await? {
        Page::Outcomes(list) => {
            Ok(list.first().filter(|outcome| outcome.ran).map(|outcome| outcome.succeeded))
        }
        _ => Ok(None),
    }
}

//! How a run that has left the hot tables is found: its attempts by their tokens, else, of an
//! occurrence, only how it ended.

use crate::Api;
use crate::refusal::Refusal;
use model::read::{Page, Read};
use model::row::{HistoryRow, Key, Row};
use model::{Cause, RunId, Span, Token};

/// Attempts that are known, oldest first.
pub async fn attempts(api: &Api, run: RunId) -> Result<Vec<HistoryRow>, Refusal> {
    let mut tokens = api.node.attempts_of(run).await?;
    // What became of a run without an attempt has no token.
    if !tokens.contains(&Token::NONE) {
        tokens.push(Token::NONE);
    }
    let keys = tokens.into_iter().map(|token| Key::History(run, token)).collect();
    let Page::Rows(rows) = api.node.read(run.job.shard(), Read::Rows(keys)).await? else {
        return Ok(Vec::new());
    };
    let mut found: Vec<HistoryRow> = rows
        .into_iter()
        .flatten()
        .filter_map(|row| match row {
            Row::History(row) => Some(*row),
            _ => None,
        })
        .collect();
    found.sort_by_key(|row| (row.finished, row.attempt));
    Ok(found)
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

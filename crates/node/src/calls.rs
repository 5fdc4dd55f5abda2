//! Carries the core's store calls to a store and brings back the answers in the core's words.

use model::ShardId;
use model::read::Read;
use model::row::Commit;
use shard::host::Refusal;
use shard::{CallId, CommitEnd, StoreAnswer, StoreCall};
use store::{Committed, Outcome, Store, StoreError};

pub fn carry(store: &dyn Store, call: &StoreCall) -> StoreAnswer {
    let answer = match call {
        StoreCall::Commit(commits) => store.commit(commits).map(committed),
        StoreCall::Read(reads) => store.read(reads).map(StoreAnswer::Read),
        StoreCall::Renew(renew) => store.renew(*renew).map(StoreAnswer::Renew),
        StoreCall::Take(takes) => store.take(takes).map(StoreAnswer::Take),
        StoreCall::Give(gives) => store.give(gives).map(StoreAnswer::Give),
    };
    answer.unwrap_or_else(failed)
}

/// Reads of several calls, asked together; each gets its own pages. If they fail, all of them do.
pub fn carry_reads(store: &dyn Store, calls: &[(CallId, StoreCall)]) -> Vec<StoreAnswer> {
    if let [(_, call)] = calls {
        return vec![carry(store, call)];
    }
    let reads_of = |call: &StoreCall| match call {
        StoreCall::Read(reads) => reads.clone(),
        _ => Vec::new(),
    };
    let each: Vec<Vec<(ShardId, Read)>> = calls.iter().map(|(_, call)| reads_of(call)).collect();
    let mut pages = match store.read(&each.concat()) {
        Ok(pages) => pages.into_iter(),
        Err(error) => return calls.iter().map(|_| failed(error)).collect(),
    };
    each.iter().map(|reads| StoreAnswer::Read(pages.by_ref().take(reads.len()).collect())).collect()
}

/// A commit that is durable after a `sync`.
pub fn apply(store: &dyn Store, commits: &[Commit]) -> StoreAnswer {
    store.apply(commits).map(committed).unwrap_or_else(failed)
}

/// The answer to a commit that was begun.
pub fn end_of(store: &dyn Store, call: &StoreCall) -> StoreAnswer {
    match call {
        StoreCall::Commit(commits) => store.end(commits).map(committed).unwrap_or_else(failed),
        other => carry(store, other),
    }
}

fn committed(committed: Committed) -> StoreAnswer {
    let ends = committed.outcomes.into_iter().map(end).collect();
    StoreAnswer::Commit { now: committed.now, ends }
}

pub fn failed(error: StoreError) -> StoreAnswer {
    match error {
        StoreError::Refused(store::Refusal::Room) => StoreAnswer::Refused(Refusal::Room),
        StoreError::Refused(_) => StoreAnswer::Refused(Refusal::NotNow),
        StoreError::Unknown => StoreAnswer::Unknown,
    }
}

fn end(outcome: Outcome) -> CommitEnd {
    match outcome {
        Outcome::Durable => CommitEnd::Durable,
        Outcome::Fenced => CommitEnd::Fenced,
        Outcome::Gap { last } => CommitEnd::Gap { last },
        Outcome::Early => CommitEnd::Early,
        Outcome::Room => CommitEnd::NoRoom,
        Outcome::Row { index } => CommitEnd::Row { index },
    }
}

//! The task that works at bulk operations.

use super::{Bulk, Kept, Meant, Status, Verb, find, kept, write};
use crate::limits::{BULK_AGAIN, BULK_KEPT, BULK_LIST, BULK_PAUSE, BULK_ROUNDS, BULK_SLICE};
use crate::{NodeHandle, Reading};
use model::{RunId, ShardId, Text};
use shard::command::{Answer, Command, Refused};
use store::catalog::{EntryChange, Kind, List};

/// Works for the life of the process.
pub async fn work(node: NodeHandle) {
    node.ready().await;
    loop {
        // A store that does not answer is asked again; what was done is not done twice.
        let busy = pass(&node).await.unwrap_or(true);
        let pause = if busy { BULK_PAUSE } else { BULK_AGAIN };
        let before = mark(&node);
        for _ in 0..BULK_ROUNDS {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = node.shared.bulk.notified(), if !busy => break,
                () = node.events().closed() => return,
            }
            if busy || before.is_none() || mark(&node) != before {
                break;
            }
        }
    }
}

/// While this stays as it is, nothing was asked for and nothing has fallen to this node. None: nobody
/// knows.
fn mark(node: &NodeHandle) -> Option<(u64, Vec<ShardId>)> {
    Some((node.catalog_rev()?, node.view().here.clone()))
}

/// A slice of each operation that runs. Is there more to do?
async fn pass(node: &NodeHandle) -> Result<bool, Reading> {
    let (mut busy, mut after) = (false, None);
    loop {
        let list = List { kind: Kind::Operation, namespace: None, after, limit: BULK_LIST };
        let entries = node.list_entries(list).await?;
        let full = entries.len() >= BULK_LIST;
        after = entries.last().map(|last| (last.place.namespace, last.place.name.clone()));
        for entry in entries {
            match kept(&entry).map(|kept| (kept.bulk.status, kept)) {
                // One node of a cluster works at it.
                Some((Status::Running, kept)) if !node.is_mine(&kept.id) => {}
                Some((Status::Running, kept)) => {
                    busy = true;
                    slice(node, kept).await?;
                }
                // Over for so long that nobody will ask.
                _ if node.now().since(entry.at) > BULK_KEPT && node.is_mine(&entry.place.name) => {
                    let (place, expect) = (entry.place, Some(entry.rev));
                    node.change_entries(vec![EntryChange { place, expect, text: None }]).await?;
                }
                _ => {}
            }
        }
        if !full {
            return Ok(busy);
        }
    }
}

async fn slice(node: &NodeHandle, mut kept: Kept) -> Result<(), Reading> {
    let size = (kept.bulk.rate as usize).clamp(1, BULK_SLICE);
    let (runs, next) = turn(node, &kept, size).await?;
    let (mut done, mut failed) = (0, 0);
    let mut all = true;
    for run in runs {
        let command = match kept.bulk.verb {
            Verb::Replay => Command::Replay { run, payload: None },
            Verb::Discard => Command::Discard(run),
        };
        match node.call(run.job.shard(), command).await {
            Answer::Run(..) => done += 1,
            Answer::Refused(Refused::NotFound | Refused::Conflict) => failed += 1,
            // Not now: the same slice again in a second, without those that were done.
            _ => {
                all = false;
                break;
            }
        }
    }
    // Whoever cancelled it in between wins; what was done is written all the same.
    for _ in 0..3 {
        advance(&mut kept.bulk, (done, failed), all, next.clone());
        if write(node, &kept).await?.is_some() {
            return Ok(());
        }
        match find(node, kept.namespace, &kept.id).await? {
            Some(found) => kept = found,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// The runs of this slice, and where the next one begins.
async fn turn(
    node: &NodeHandle,
    kept: &Kept,
    size: usize,
) -> Result<(Vec<RunId>, Option<Text>), Reading> {
    let cursor = kept.bulk.cursor.clone();
    if let Meant::Ids(ids) = &kept.bulk.meant {
        let from = cursor.and_then(|text| text.parse().ok()).unwrap_or(0);
        let runs: Vec<RunId> = ids.iter().skip(from).take(size).copied().collect();
        let next = from + runs.len();
        let next = (next < ids.len()).then(|| Text::from(next.to_string()));
        return Ok((runs, next));
    }
    let found = node.find_runs(kept.bulk.meant.search(kept.namespace, cursor, size)).await?;
    Ok((found.items.iter().map(|run| run.id()).collect(), found.next))
}

fn advance(bulk: &mut Bulk, (done, failed): (u64, u64), all: bool, next: Option<Text>) {
    bulk.done += done;
    bulk.failed += failed;
    if !all {
        return;
    }
    if next.is_none() && bulk.status == Status::Running {
        bulk.status = Status::Done;
    }
    bulk.cursor = next;
}

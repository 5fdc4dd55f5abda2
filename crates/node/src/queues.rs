//! Which queues have been used: an entry of the catalog for each, made before its first job. What was
//! found once stays (queues are never removed), so it is remembered.

use crate::limits::{QUEUES_EVERY, QUEUES_KNOWN, QUEUES_MAX, QUEUES_PAGE};
use crate::{Changed, NodeHandle, Reading, SeenQueue};
use model::{Namespace, Text};
use std::collections::BTreeSet;
use store::catalog::{EntryChange, Kind, List, Place};
use tokio::sync::mpsc;

/// Called before a job is made in the queue.
pub async fn used(node: &NodeHandle, namespace: Namespace, queue: &Text) -> Result<(), Reading> {
    let known = (namespace, queue.clone());
    if node.shared.queues().contains(&known) {
        return Ok(());
    }
    let place = place(namespace, queue);
    if node.entry(place.clone()).await?.is_none() {
        let change = EntryChange { place, expect: None, text: Some(Text::from("{}")) };
        // Somebody else may have been quicker: then it is there.
        node.change_entries(vec![change]).await?;
        node.tell_changed(Changed::Queues);
    }
    let mut queues = node.shared.queues();
    if queues.len() < QUEUES_KNOWN {
        queues.insert(known);
    }
    Ok(())
}

pub async fn is_used(
    node: &NodeHandle,
    namespace: Namespace,
    queue: &str,
) -> Result<bool, Reading> {
    Ok(node.entry(place(namespace, &Text::from(queue))).await?.is_some())
}

/// Tells every queue that has been used, for the life of the process: for an executor that claims
/// from other nodes. `Seen` tells those of our own shards sooner.
pub async fn follow(node: NodeHandle, tell: mpsc::Sender<SeenQueue>) {
    let mut known = BTreeSet::new();
    let (mut told, mut listed) = (true, None);
    loop {
        // Looked at before the queues are: what changes in between is a later revision.
        let seen = node.catalog_rev();
        let mut found = Vec::new();
        if told || seen.is_none() || seen != listed {
            // A store that does not answer is asked again.
            if let Ok(all) = all(&node).await {
                (found, listed) = (all, seen);
            }
        }
        for queue in found {
            if known.len() < QUEUES_MAX
                && known.insert(queue.clone())
                && tell.send(queue).await.is_err()
            {
                return;
            }
        }
        told = tokio::select! {
            () = node.queues_changed() => true,
            () = tokio::time::sleep(QUEUES_EVERY) => false,
            () = node.events().closed() => return,
        };
    }
}

async fn all(node: &NodeHandle) -> Result<Vec<SeenQueue>, Reading> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let list = List { kind: Kind::Queue, namespace: None, after, limit: QUEUES_PAGE };
        let page = node.list_entries(list).await?;
        let full = page.len() >= QUEUES_PAGE && found.len() < QUEUES_MAX;
        after = page.last().map(|last| (last.place.namespace, last.place.name.clone()));
        found.extend(
            page.into_iter().map(|entry| SeenQueue {
                namespace: entry.place.namespace,
                queue: entry.place.name,
            }),
        );
        if !full {
            return Ok(found);
        }
    }
}

fn place(namespace: Namespace, queue: &Text) -> Place {
    Place { kind: Kind::Queue, namespace, name: queue.clone() }
}

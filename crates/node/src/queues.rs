//! Which queues have been used: an entry of the catalog for each, made before its first job. What was
//! found once stays (queues are never removed), so it is remembered.

use crate::limits::QUEUES_KNOWN;
use crate::{Changed, NodeHandle, Reading};
use model::{Namespace, Text};
use store::catalog::{EntryChange, Kind, Place};

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

fn place(namespace: Namespace, queue: &Text) -> Place {
    Place { kind: Kind::Queue, namespace, name: queue.clone() }
}

//! How fast queues move, and how many workers that asks for: for those who start and stop workers by it. Whoever
//! owns a queue's shard counts (`node::Rate`), and whoever is asked asks it.
//!
//! A worker is wanted for every `capacity` handlers that must run at once. By Little's law that is how many attempts
//! come per second, times how long one takes; what waits already shall be gone in a minute (`DRAIN_WITHIN`).

use crate::Api;
use crate::cluster::RATES;
use crate::limits::DRAIN_WITHIN;
use crate::workers;
use axum::body::Bytes;
use model::{Namespace, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::answer::Queue;

/// What one node tells of a queue whose shard it owns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Told {
    arrival: f64,
    service: f64,
    length: Option<f64>,
}

/// The queues of a namespace that this node owns, and something happened in.
pub fn here(api: &Api, namespace: Namespace) -> BTreeMap<String, Told> {
    let view = api.node.view();
    let rates = api.node.events().rates(namespace, api.node.now());
    let own = rates.into_iter().filter(|(queue, _)| {
        let shard = Slot::of(namespace, queue, 0).shard();
        view.is_here(shard)
    });
    let told = own.map(|(queue, rate)| {
        let told = Told { arrival: rate.arrival, service: rate.service, length: rate.length };
        (queue.to_string(), told)
    });
    told.collect()
}

/// Writes into each queue how fast it moves. A queue whose owner does not answer is left without.
pub async fn fill(api: &Api, namespace: Namespace, queues: &mut [Queue]) {
    let view = api.node.view();
    let mut told = here(api, namespace);
    let owner = |queue: &Queue| {
        let shard = Slot::of(namespace, &queue.name, 0).shard();
        let row = view.shards.iter().find(|row| row.shard == shard)?;
        row.owner.filter(|owner| *owner != view.node)
    };
    let mut silent = Vec::new();
    for lease in view.peers().filter(|lease| queues.iter().any(|q| owner(q) == Some(lease.node))) {
        let (Some(peers), Some(address)) = (api.peers(), lease.address.as_deref()) else {
            continue;
        };
        let path = format!("{RATES}?of={}", namespace.0);
        let answer = peers.ask(lease.node, address, "GET", &path, Bytes::new()).await;
        let read = |(status, body): (u16, Bytes)| {
            let told: Option<BTreeMap<String, Told>> = serde_json::from_slice(&body).ok();
            told.filter(|_| status == 200)
        };
        match answer.ok().and_then(read) {
            Some(theirs) => told.extend(theirs),
            None => silent.push(lease.node),
        }
    }
    let capacities = workers::capacities(api, namespace).await;
    for queue in queues {
        let answered =
            owner(queue).is_none_or(|owner| view.is_alive(owner) && !silent.contains(&owner));
        if answered {
            let nothing = Told { arrival: 0.0, service: 0.0, length: None };
            let told = told.get(&queue.name).copied().unwrap_or(nothing);
            let capacity = capacities.get(&queue.name).copied().unwrap_or(1.0);
            queue.arrival_per_s = Some(rounded(told.arrival));
            queue.service_per_s = Some(rounded(told.service));
            queue.suggested_workers = Some(suggested(queue.ready, queue.running, told, capacity));
        }
    }
}

/// To thousandths: more digits than a minute's count has.
fn rounded(rate: f64) -> f64 {
    (rate * 1_000.0).round() / 1_000.0
}

/// How many workers a queue asks for; none only if nothing waits, runs or comes.
fn suggested(ready: usize, running: usize, told: Told, capacity: f64) -> u64 {
    if ready == 0 && running == 0 && told.arrival <= 0.0 {
        return 0;
    }
    let per_second = told.arrival + ready as f64 / DRAIN_WITHIN.as_secs_f64();
    let handlers = match told.length {
        Some(length) => per_second * length,
        // Nothing has ended for a minute: how long an attempt takes is not known. Those that run go on.
        None => running as f64,
    };
    (handlers / capacity.max(1.0)).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(arrival: f64, length: Option<f64>) -> Told {
        Told { arrival, service: arrival, length }
    }

    #[test]
    fn workers_are_suggested_by_littles_law() {
        // 20 a second that take 2 s each keep 40 handlers busy; 600 that wait want 20 more for a minute.
        assert_eq!(suggested(0, 40, told(20.0, Some(2.0)), 1.0), 40);
        assert_eq!(suggested(0, 40, told(20.0, Some(2.0)), 10.0), 4);
        assert_eq!(suggested(600, 40, told(20.0, Some(2.0)), 1.0), 60);
        assert_eq!(suggested(0, 1, told(0.001, Some(0.001)), 1.0), 1);
    }

    #[test]
    fn none_only_when_there_is_nothing_to_do() {
        assert_eq!(suggested(0, 0, told(0.0, Some(5.0)), 1.0), 0);
        assert_eq!(suggested(1, 0, told(0.0, None), 1.0), 1, "somebody must begin");
        assert_eq!(suggested(0, 25, told(0.0, None), 10.0), 3, "those that run go on");
    }
}

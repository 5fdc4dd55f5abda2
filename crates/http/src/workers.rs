//! Workers that were heard of: who claims, what they say of themselves, when they were last heard, and
//! what they shall be told. Nothing here is truth about runs: leases are. It is a note of this process,
//! bounded, and lost with it; a worker is noted again with its next claim or heartbeat.
//!
//! In a cluster a worker may speak to any node. Each notes what it hears, and whoever is asked asks the
//! others; what a worker shall be told is noted by all, so that it hears it wherever it claims.

use crate::cluster::{WORKERS, WORKERS_TELL};
use crate::jobs::{json_text, optional_text};
use crate::limits::{
    DRAINED_PAUSE, LIST_LIMIT, LIST_LIMIT_MAX, WORKER_FORGOTTEN, WORKER_SILENT, WORKERS_MAX,
};
use crate::query::Query;
use crate::refusal::{Answered, Refusal};
use crate::run_read::time;
use crate::tenant::Tenant;
use crate::{Api, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::{Namespace, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::answer::{Left, Worker, Workers as WorkersAnswer};
use wire::work::{About, ClaimRequest};
use wire::{Faults, Object};

/// What a worker shall be told with its next answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    #[default]
    None,
    /// Take nothing more.
    Quiet,
    /// Take nothing more, finish, and go.
    Terminate,
}

impl Signal {
    pub const fn name(self) -> &'static str {
        match self {
            Signal::None => "none",
            Signal::Quiet => "quiet",
            Signal::Terminate => "terminate",
        }
    }
}

/// What one node knows of a worker. Nodes tell each other in this form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Microseconds; zero if this node only knows what it shall be told.
    seen: i64,
    /// Longer than this it is not silent, if it lives.
    silent: i64,
    signal: Signal,
    about: About,
    queues: Vec<String>,
    kinds: Option<Vec<String>>,
}

impl Known {
    fn lives(&self, now: Time) -> bool {
        let silent = Span::from_micros(self.silent.max(WORKER_SILENT.micros()));
        now.since(Time::from_micros(self.seen)) <= silent
    }
}

type Place = (Namespace, String);

#[derive(Debug)]
pub struct Workers {
    known: Mutex<BTreeMap<Place, Known>>,
    /// Grows when somebody is to be told something: claims that wait look.
    told: watch::Sender<u64>,
}

impl Default for Workers {
    fn default() -> Workers {
        Workers { known: Mutex::default(), told: watch::Sender::new(0) }
    }
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker claims. What shall it be told?
    pub fn claims(&self, namespace: Namespace, request: &ClaimRequest, now: Time) -> Signal {
        self.note(namespace, &request.worker, now, |known| {
            let longest = request.lease.max(request.wait);
            known.silent = longest.saturating_add(WORKER_SILENT.micros());
            known.queues.clone_from(&request.queues);
            known.kinds.clone_from(&request.kinds);
            if let Some(about) = &request.about {
                known.about.clone_from(about);
            }
        })
    }

    /// A worker beats or settles. What shall it be told?
    pub fn heard(
        &self,
        namespace: Namespace,
        worker: &str,
        about: Option<&About>,
        now: Time,
    ) -> Signal {
        self.note(namespace, worker, now, |known| {
            if let Some(about) = about {
                known.about.clone_from(about);
            }
        })
    }

    fn note(
        &self,
        namespace: Namespace,
        worker: &str,
        now: Time,
        change: impl FnOnce(&mut Known),
    ) -> Signal {
        let mut all = self.lock();
        let place = (namespace, worker.to_string());
        if !all.contains_key(&place) {
            make_room(&mut all, now);
        }
        let known = all.entry(place).or_default();
        known.seen = now.micros();
        change(known);
        known.signal
    }

    /// Waits until there is something to tell this worker.
    pub async fn told(&self, namespace: Namespace, worker: &str) -> Signal {
        let mut changes = self.told.subscribe();
        let place = (namespace, worker.to_string());
        loop {
            let signal = self.lock().get(&place).map_or(Signal::None, |known| known.signal);
            // The sender lives as long as we do.
            if signal != Signal::None || changes.changed().await.is_err() {
                return signal;
            }
        }
    }

    pub fn tell(&self, namespace: Namespace, worker: &str, signal: Signal, now: Time) {
        {
            let mut all = self.lock();
            let place = (namespace, worker.to_string());
            if !all.contains_key(&place) {
                make_room(&mut all, now);
            }
            all.entry(place).or_default().signal = signal;
        }
        self.told.send_modify(|number| *number += 1);
    }

    pub fn forget(&self, namespace: Namespace, worker: &str) {
        self.lock().remove(&(namespace, worker.to_string()));
    }

    /// What this node knows of the workers of a namespace.
    pub fn of(&self, namespace: Namespace) -> BTreeMap<String, Known> {
        let all = self.lock();
        let from = all.range((namespace, String::new())..);
        let own = from.take_while(|((of, _), _)| *of == namespace);
        own.map(|((_, worker), known)| (worker.clone(), known.clone())).collect()
    }
}

/// Those that were not heard of for long leave first, then whoever was heard of longest ago.
fn make_room(all: &mut BTreeMap<Place, Known>, now: Time) {
    if all.len() < WORKERS_MAX {
        return;
    }
    let old = now.micros() - WORKER_FORGOTTEN.micros();
    all.retain(|_, known| known.seen > old);
    if all.len() >= WORKERS_MAX
        && let Some(oldest) =
            all.iter().min_by_key(|(_, known)| known.seen).map(|(place, _)| place.clone())
    {
        all.remove(&oldest);
    }
}

/// A claim of a worker that was told to take nothing: it waits a little, so that a worker that does
/// not listen does not ask without end.
pub async fn pause(wait: i64) {
    let wait = u64::try_from(wait).map_or(DRAINED_PAUSE, std::time::Duration::from_micros);
    tokio::time::sleep(DRAINED_PAUSE.min(wait)).await;
}

/// What the nodes know of the workers of a namespace, the latest word of each.
async fn everywhere(api: &Api, namespace: Namespace) -> BTreeMap<String, Known> {
    let mut all = api.workers.of(namespace);
    let path = format!("{WORKERS}?of={}", namespace.0);
    for (_, body) in asked(api, "GET", &path, Bytes::new()).await.into_iter().flatten() {
        let told: BTreeMap<String, Known> = serde_json::from_slice(&body).unwrap_or_default();
        for (worker, other) in told {
            let known = all.entry(worker).or_default();
            let signal = known.signal.max(other.signal);
            if other.seen > known.seen {
                *known = other;
            }
            known.signal = signal;
        }
    }
    let old = api.node.now().micros() - WORKER_FORGOTTEN.micros();
    all.retain(|_, known| known.seen > old);
    all
}

/// Living workers that take from this queue, and how many of them take this kind.
pub(crate) async fn takers(
    api: &Api,
    namespace: Namespace,
    queue: &str,
    kind: &str,
) -> (usize, usize) {
    let now = api.node.now();
    let all = everywhere(api, namespace).await.into_iter();
    let living = all.filter(|(_, known)| known.signal == Signal::None && known.lives(now));
    let of_queue: Vec<Known> = living
        .map(|(_, known)| known)
        .filter(|known| known.queues.iter().any(|of| of == queue))
        .collect();
    let takes = |known: &&Known| match &known.kinds {
        Some(kinds) => kinds.iter().any(|of| of == kind),
        None => true,
    };
    (of_queue.len(), of_queue.iter().filter(takes).count())
}

/// Handlers that a worker of each queue runs at once, on average over those that live and say so.
pub async fn capacities(api: &Api, namespace: Namespace) -> BTreeMap<String, f64> {
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let now = api.node.now();
    for known in everywhere(api, namespace).await.into_values() {
        let lives = known.lives(now);
        let Some(capacity) = known.about.capacity.filter(|_| lives) else { continue };
        for queue in known.queues {
            let (sum, count) = found.entry(queue).or_default();
            *sum += capacity;
            *count += 1;
        }
    }
    found.into_iter().map(|(queue, (sum, count))| (queue, sum as f64 / count as f64)).collect()
}

/// Asks every other node; None for one that did not answer well.
pub(crate) async fn asked(
    api: &Api,
    method: &str,
    path: &str,
    body: Bytes,
) -> Vec<Option<(u16, Bytes)>> {
    let (view, mut answers) = (api.node.view(), Vec::new());
    let Some(peers) = api.peers() else { return answers };
    for lease in view.alive().filter(|lease| lease.node != view.node) {
        if let Some(address) = lease.address.as_deref() {
            let answer = peers.ask(lease.node, address, method, path, body.clone()).await;
            answers.push(answer.ok().filter(|(status, _)| *status == 200));
        }
    }
    answers
}

fn shown(worker: String, known: Known, now: Time) -> Worker {
    let seen = Time::from_micros(known.seen);
    let status = match known.signal {
        _ if !known.lives(now) => "vanished",
        Signal::None => "active",
        Signal::Quiet => "quiet",
        Signal::Terminate => "terminating",
    };
    let About { capacity, running, version, labels } = known.about;
    let (queues, kinds, last_seen_at) = (known.queues, known.kinds, time(seen));
    let id = worker;
    Worker { id, status, last_seen_at, capacity, running, version, labels, queues, kinds }
}

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    RawQuery(query): RawQuery,
) -> Answered {
    let mut query = Query::read(query.as_deref());
    let limit = query.number("limit", LIST_LIMIT_MAX).unwrap_or(LIST_LIMIT) as usize;
    let after = query.text("cursor");
    query.finish()?;
    let now = api.node.now();
    let all = everywhere(&api, namespace).await.into_iter();
    let rest = all.filter(|(id, _)| after.as_ref().is_none_or(|after| id > after));
    let items: Vec<_> = rest.take(limit).map(|(id, known)| shown(id, known, now)).collect();
    let full = items.len() >= limit;
    let next_cursor = items.last().filter(|_| full).map(|last| last.id.clone());
    Ok(Json(WorkersAnswer { items, next_cursor }).into_response())
}

pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(worker): Path<String>,
) -> Answered {
    let known = everywhere(&api, namespace).await.remove(&worker);
    let known = known.ok_or_else(|| Refusal::not_found("worker"))?;
    Ok(Json(shown(worker, known, api.node.now())).into_response())
}

/// What one node asks the others to tell a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tell {
    pub of: u32,
    pub worker: String,
    /// None: it has left.
    pub signal: Option<Signal>,
}

pub async fn drain(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(worker): Path<String>,
    body: Bytes,
) -> Answered {
    let mut faults = Faults::default();
    let signal = read_signal(optional_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    if !everywhere(&api, namespace).await.contains_key(&worker) {
        return Err(Refusal::not_found("worker"));
    }
    if !tell(&api, namespace, &worker, Some(signal)).await {
        let detail = "a node did not answer: the worker may not hear of it there; ask again";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", detail));
    }
    show(State(api), Tenant(namespace), Path(worker)).await
}

pub async fn leave(State(api): Shared, Tenant(namespace): Tenant, body: Bytes) -> Answered {
    let mut faults = Faults::default();
    let worker = wire::work::read_leave(json_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    // A node that does not answer forgets it by itself.
    tell(&api, namespace, &worker, None).await;
    Ok(Json(Left { left: true }).into_response())
}

/// Notes it here and at every other node. Did all of them hear?
async fn tell(api: &Api, namespace: Namespace, worker: &str, signal: Option<Signal>) -> bool {
    let tell = Tell { of: namespace.0, worker: worker.to_string(), signal };
    note(api, &tell);
    let body = serde_json::to_vec(&tell).unwrap_or_default();
    asked(api, "POST", WORKERS_TELL, Bytes::from(body)).await.iter().all(Option::is_some)
}

/// What a node does when it is asked to tell.
pub fn note(api: &Api, tell: &Tell) {
    match tell.signal {
        Some(signal) => {
            api.workers.tell(Namespace(tell.of), &tell.worker, signal, api.node.now());
        }
        None => api.workers.forget(Namespace(tell.of), &tell.worker),
    }
}

fn read_signal(text: &str, faults: &mut Faults) -> Signal {
    let Some(mut object) = Object::read(text, "", faults) else { return Signal::Terminate };
    let signal = match object.choice("signal", &["terminate", "quiet", "none"], faults) {
        Some("quiet") => Signal::Quiet,
        Some("none") => Signal::None,
        _ => Signal::Terminate,
    };
    object.finish(faults);
    signal
}

pub fn read_only(text: &str, faults: &mut Faults) {
    read_signal(text, faults);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Namespace = Namespace(3);

    #[test]
    fn what_is_known_is_bounded_and_the_longest_silent_goes_first() {
        let workers = Workers::default();
        for number in 0..=WORKERS_MAX as i64 {
            workers.heard(NS, &format!("w{number}"), None, Time::from_micros(1 + number));
        }
        let known = workers.of(NS);
        assert_eq!(known.len(), WORKERS_MAX);
        assert!(!known.contains_key("w0") && known.contains_key("w1"));
        assert!(workers.of(Namespace(4)).is_empty(), "workers of another namespace");
    }

    #[test]
    fn a_worker_that_should_have_been_heard_of_has_vanished() {
        let known = Known { seen: 0, silent: WORKER_SILENT.micros() * 2, ..Known::default() };
        let at = |micros| shown("w".to_string(), known.clone(), Time::from_micros(micros)).status;
        assert_eq!(at(WORKER_SILENT.micros() * 2), "active");
        assert_eq!(at(WORKER_SILENT.micros() * 2 + 1), "vanished");
    }
}

//! How far attempts are, as their workers say with heartbeats. A note of the process that heard it, bounded and lost
//! with it; it is never stored, and nothing is decided by it. In a cluster a worker may speak to any node, and
//! whoever is asked asks the others.

use crate::Api;
use crate::cluster::PROGRESS;
use crate::limits::{PROGRESS_MAX, PROGRESS_TEXT_MAX};
use crate::run_read::time;
use axum::body::Bytes;
use model::{RunId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::answer::{Progress, Run};
use wire::work;

/// The last word of an attempt. Nodes tell each other in this form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noted {
    token: u64,
    fraction: Option<f64>,
    message: Option<String>,
    /// Microseconds.
    at: i64,
}

#[derive(Debug, Default)]
pub struct Progresses(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    runs: BTreeMap<RunId, Noted>,
    /// Whoever said nothing for longest makes room.
    order: BTreeSet<(i64, RunId)>,
}

impl Notes {
    fn forget(&mut self, run: RunId) {
        if let Some(noted) = self.runs.remove(&run) {
            self.order.remove(&(noted.at, run));
        }
    }
}

impl Progresses {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat whose token was valid said this.
    pub fn note(&self, run: RunId, token: u64, said: &work::Progress, now: Time) {
        let mut notes = self.lock();
        notes.forget(run);
        if notes.runs.len() >= PROGRESS_MAX
            && let Some((_, oldest)) = notes.order.first().copied()
        {
            notes.forget(oldest);
        }
        let message = said.message.as_ref();
        let message = message.map(|text| text.chars().take(PROGRESS_TEXT_MAX).collect());
        let at = now.micros();
        notes.order.insert((at, run));
        notes.runs.insert(run, Noted { token, fraction: said.fraction, message, at });
    }

    pub fn forget(&self, run: RunId) {
        self.lock().forget(run);
    }

    pub fn of(&self, run: RunId) -> Option<Noted> {
        self.lock().runs.get(&run).cloned()
    }
}

/// What the attempt under way said last, wherever it said it.
pub async fn fill(api: &Api, run: RunId, found: &mut Run) {
    let Some(token) = found.token else { return };
    let mut said: Vec<Noted> = api.progress.of(run).into_iter().collect();
    let view = api.node.view();
    for lease in view.peers() {
        let (Some(peers), Some(address)) = (api.peers(), lease.address.as_deref()) else { break };
        let path = format!("{PROGRESS}?run={run}");
        let answer = peers.ask(lease.node, address, "GET", &path, Bytes::new()).await;
        if let Ok((200, body)) = answer {
            said.extend(serde_json::from_slice::<Option<Noted>>(&body).ok().flatten());
        }
    }
    let last = said.into_iter().filter(|one| one.token == token).max_by_key(|one| one.at);
    found.progress = last.map(|noted| Progress {
        fraction: noted.fraction,
        message: noted.message,
        at: time(Time::from_micros(noted.at)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cause, JobId, Slot};

    fn run(number: u64) -> RunId {
        // An id has room for 62 random bits, the upper ones.
        let job = JobId::mint(Time::from_secs(1_806_000_000), Slot::from_bits(7), number << 2);
        RunId::new(job, Cause::OneOff)
    }

    fn said(text: &str) -> work::Progress {
        work::Progress { fraction: Some(0.5), message: Some(text.to_string()) }
    }

    #[test]
    fn the_last_word_stays_until_the_end_and_notes_are_bounded() {
        let notes = Progresses::default();
        notes.note(run(1), 7, &said("a"), Time::from_micros(1));
        notes.note(run(1), 7, &said(&"b".repeat(1_000)), Time::from_micros(2));
        let last = notes.of(run(1)).and_then(|noted| noted.message).unwrap_or_default();
        assert_eq!(last, "b".repeat(PROGRESS_TEXT_MAX));
        notes.forget(run(1));
        assert_eq!(notes.of(run(1)), None);
        for number in 0..=PROGRESS_MAX as u64 {
            notes.note(run(number), 7, &said(""), Time::from_micros(number as i64));
        }
        assert_eq!(notes.lock().order.len(), PROGRESS_MAX);
        assert!(notes.of(run(0)).is_none() && notes.of(run(1)).is_some(), "the oldest makes room");
    }
}

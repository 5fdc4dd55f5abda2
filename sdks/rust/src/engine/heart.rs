//! Heartbeats, and what time alone says.

use super::Engine;
use super::held::Held;
use crate::clock::{self, Moment};
use crate::context::Reason;
use crate::error::Error;
use crate::limits::{BEAT_TIMEOUT, BODY_BYTES_MAX, ITEMS_MAX};
use crate::transport::{Call, read};
use crate::types::Beats;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A run to be renewed, what is said of it, and how many of its checkpoints that stores.
struct Due {
    held: Arc<Held>,
    text: String,
    checkpoints: usize,
}

impl Engine {
    pub(super) async fn beats(self: Arc<Engine>) {
        let mut failures = 0;
        while !self.closed.is_cancelled() {
            let due = self.due();
            let Some(due) = due else {
                let look_at = self.state().beat_look_at;
                tokio::select! {
                    () = self.closed.cancelled() => return,
                    () = self.beat_wanted.notified() => {}
                    () = tokio::time::sleep(Engine::until(look_at)) => {}
                }
                continue;
            };
            let sent = clock::now();
            let answer = tokio::select! {
                () = self.closed.cancelled() => return,
                answer = self.beat(&due) => answer,
            };
            match answer {
                Ok(beats) => {
                    failures = 0;
                    for (one, beat) in due.iter().zip(&beats.results) {
                        self.answered(one, &beat.status, sent);
                    }
                    self.signal(beats.signal);
                }
                Err(error) => {
                    failures += 1;
                    self.unanswered(&due, &error, failures);
                }
            }
        }
    }

    /// What is to be said now; None when nothing is, and when that may change is noted.
    fn due(&self) -> Option<Vec<Due>> {
        let now = clock::now();
        let mut state = self.state();
        let empty = state.empty_beat_at;
        let mut look_at = empty.unwrap_or(Moment::MAX);
        let (mut due, mut bytes) = (Vec::new(), 0);
        for slot in state.held.values() {
            if slot.stale {
                continue;
            }
            if slot.beat_at > now {
                look_at = look_at.min(slot.beat_at);
                continue;
            }
            let run = &slot.held.run;
            let mut text = format!("{{\"run_id\":\"{}\",\"token\":{}", run.run_id, run.token);
            if let Some((checkpoint, _)) = slot.checkpoints.last() {
                text.push_str(",\"checkpoint\":");
                text.push_str(checkpoint);
            }
            if let Some(progress) = slot.held.progress() {
                text.push_str(&format!(",\"progress\":{progress}"));
            }
            text.push('}');
            bytes += text.len();
            let checkpoints = slot.checkpoints.len();
            due.push(Due { held: Arc::clone(&slot.held), text, checkpoints });
            if due.len() >= ITEMS_MAX || bytes >= BODY_BYTES_MAX {
                break;
            }
        }
        if due.is_empty() && empty.is_none_or(|at| at > now) {
            state.beat_look_at = look_at;
            return None;
        }
        if state.quiet {
            state.empty_beat_at = Some(now + self.options.lease / 3);
        }
        // While a heartbeat is under way nobody needs to wake this loop: it looks again anyway.
        state.beat_look_at = Moment::ZERO;
        Some(due)
    }

    async fn beat(&self, due: &[Due]) -> Result<Beats, Error> {
        let about = self.about(&self.state());
        let about = about.map_or_else(String::new, |about| format!(",\"about\":{about}"));
        let worker = Value::from(self.options.name.as_str());
        let items: Vec<&str> = due.iter().map(|one| one.text.as_str()).collect();
        let body = format!("{{\"worker\":{worker},\"runs\":[{}]{about}}}", items.join(","));
        let timeout = BEAT_TIMEOUT.min(self.options.lease / 3);
        let call = Call::post("/v1/work/heartbeat").raw(body).timeout(timeout);
        let beats: Beats = read("a heartbeat", &self.transport.once(&call).await?)?;
        if beats.results.len() != due.len() {
            return Err(Error::unreadable("a heartbeat", "it has another number of runs"));
        }
        Ok(beats)
    }

    fn answered(self: &Arc<Engine>, one: &Due, status: &str, sent: Moment) {
        let mut state = self.state();
        let Some(slot) = state.held.get_mut(&one.held.serial) else { return };
        let stored: Vec<_> =
            slot.checkpoints.drain(..one.checkpoints.min(slot.checkpoints.len())).collect();
        let stale = status == "stale";
        for (_, told) in stored {
            let lost = || Error::LeaseLost(format!("{} belongs to another", one.held.run.run_id));
            let _ = told.send(if stale { Err(lost()) } else { Ok(()) });
        }
        if stale {
            slot.stale = true;
            one.held.set_unknown(true);
            if !slot.begun && !one.held.is_finished() {
                one.held.finish();
                self.drop_held(&mut state, &one.held);
                return;
            }
        } else {
            slot.renewed(sent);
            if !slot.checkpoints.is_empty() {
                // One that came while this heartbeat was under way.
                slot.beat_at = Moment::ZERO;
            }
            let confirmed = std::mem::take(&mut slot.confirm) && !one.held.is_finished();
            if confirmed {
                self.watch_wanted.notify_one();
                if !self.draining.is_cancelled() {
                    state.ready.push_back(Arc::clone(&one.held));
                    self.pump(&mut state);
                }
            }
        }
        drop(state);
        match status {
            "stale" => one.held.tell(Reason::LeaseLost),
            "cancel" => one.held.tell(Reason::Cancelled),
            _ => {}
        }
    }

    fn unanswered(&self, due: &[Due], error: &Error, failures: u32) {
        if self.is_mute_now(error) {
            return;
        }
        tracing::warn!("a heartbeat was not answered: {error}");
        let pause = self.transport.backoff.pause(error, failures).min(self.options.lease / 10);
        let again = clock::now() + pause;
        let mut state = self.state();
        if let Some(at) = state.empty_beat_at.filter(|_| due.is_empty()) {
            state.empty_beat_at = Some(at.max(again));
        }
        for one in due {
            let Some(slot) = state.held.get_mut(&one.held.serial) else { continue };
            slot.beat_at = slot.beat_at.max(again);
            if !error.may_pass() {
                // A checkpoint that the server will never take must not be sent for ever.
                let count = one.checkpoints.min(slot.checkpoints.len());
                for (_, told) in slot.checkpoints.drain(..count) {
                    let _ = told.send(Err(Error::Transport(error.to_string())));
                }
            }
        }
    }

    /// Tells handlers what time alone says: leases that are unknown by now, attempts whose time is over. Apart
    /// from heartbeats, because one that is under way may wait for its answer for long.
    pub(super) async fn watch(self: Arc<Engine>) {
        while !self.closed.is_cancelled() {
            let next = self.look();
            tokio::select! {
                () = self.closed.cancelled() => return,
                () = self.watch_wanted.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    fn look(&self) -> Duration {
        let now = clock::now();
        let mut told = Vec::new();
        let mut state = self.state();
        let mut look_at = Moment::MAX;
        for slot in state.held.values() {
            let held = &slot.held;
            if slot.stale || held.is_finished() {
                continue;
            }
            if held.told().is_none() {
                if held.deadline_at <= now {
                    told.push((Arc::clone(held), Reason::Deadline));
                } else {
                    look_at = look_at.min(held.deadline_at);
                }
            }
            if held.is_unknown() {
                continue;
            }
            if slot.trusted_until <= now {
                held.set_unknown(true);
                if self.stops_when_unknown(held) {
                    told.push((Arc::clone(held), Reason::LeaseLost));
                }
            } else {
                look_at = look_at.min(slot.trusted_until);
            }
        }
        state.watch_look_at = look_at;
        drop(state);
        for (held, reason) in told {
            held.tell(reason);
        }
        Engine::until(look_at)
    }
}

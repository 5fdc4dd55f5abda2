//! Claims: ask for as many runs as there is room for, again and again.

use super::held::{Held, Slot};
use super::{Engine, State};
use crate::clock::{self, Moment};
use crate::end::Said;
use crate::error::Error;
use crate::limits::{BEAT_TIMEOUT, ITEMS_MAX, LAST_WORDS};
use crate::time::{Length, parse};
use crate::transport::{Call, read};
use crate::types::{Claimed, ClaimedRun, Signal};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    pub(super) async fn claims(self: Arc<Engine>) {
        let mut failures = 0;
        let mut request = clock::new_id();
        let mut cut_off = false;
        while let Some(most) = self.room().await {
            let sent = clock::now();
            let answer = tokio::select! {
                biased;
                answer = self.claim(most, self.options.wait, &request, BEAT_TIMEOUT) => answer,
                () = self.draining.cancelled() => {
                    cut_off = true;
                    break;
                }
            };
            match answer {
                Ok(claimed) => {
                    failures = 0;
                    request = clock::new_id();
                    self.take(claimed.runs, sent);
                    self.signal(claimed.signal);
                }
                Err(error) if self.is_mute_now(&error) => {}
                Err(error) => {
                    if !error.may_pass() {
                        tracing::error!("claims are refused: {error}");
                    }
                    failures += 1;
                    // The same request again: if the server did answer, it answers with the same leases.
                    tokio::select! {
                        () = self.draining.cancelled() => cut_off = true,
                        () = self.pause(self.transport.backoff.pause(&error, failures)) => {}
                    }
                }
            }
        }
        if cut_off && !self.closed.is_cancelled() {
            // The last claim was cut off. If the server had answered it, those leases are ours and nobody
            // runs them: the same request tells. What it brings is handed back.
            let sent = clock::now();
            if let Ok(claimed) = self.claim(1, Duration::ZERO, &request, LAST_WORDS).await {
                self.take(claimed.runs, sent);
            }
        }
        self.state().claiming = false;
        self.changed.notify_one();
    }

    /// How many runs there is room for; None when nothing more shall be taken.
    async fn room(&self) -> Option<usize> {
        loop {
            if self.draining.is_cancelled() {
                return None;
            }
            let capacity = self.options.concurrency.saturating_add(self.options.prefetch);
            let (held, quiet) = {
                let state = self.state();
                (state.held.len(), state.quiet)
            };
            let room = capacity.saturating_sub(held).min(ITEMS_MAX);
            if room > 0 && !quiet {
                return Some(room);
            }
            tokio::select! {
                () = self.room.notified() => {}
                () = self.draining.cancelled() => {}
            }
        }
    }

    async fn claim(
        &self,
        most: usize,
        wait: Duration,
        request: &str,
        margin: Duration,
    ) -> Result<Claimed, Error> {
        let options = &self.options;
        let mut kinds: Vec<&String> = self.handlers.keys().collect();
        kinds.sort();
        let mut body = json!({
            "worker": options.name,
            "queues": options.queues,
            "kinds": kinds,
            "max": most,
            "wait": Length::from(wait),
            "lease": Length::from(options.lease),
            "request_id": request,
        });
        if let Some(about) = self.about(&self.state()) {
            body["about"] = about;
        }
        let call = Call::post("/v1/work/claim").body(&body)?.timeout(wait + margin);
        read("a claim", &self.transport.once(&call).await?)
    }

    /// Was this refused because the server does not register workers? Then it is not told any more.
    pub(super) fn is_mute_now(&self, error: &Error) -> bool {
        let refused = error.api().is_some_and(|api| {
            api.status == 422 && api.errors.iter().any(|fault| fault.pointer.starts_with("/about"))
        });
        refused && !std::mem::replace(&mut self.state().mute, true)
    }

    fn take(self: &Arc<Engine>, runs: Vec<ClaimedRun>, sent: Moment) {
        if runs.is_empty() {
            return;
        }
        let heard = clock::now();
        let wall = Timestamp::now();
        let lease = self.options.lease;
        self.count(|stats| stats.claimed += runs.len() as u64);
        let mut state = self.state();
        for run in runs {
            state.serial += 1;
            let deadline_at = heard.saturating_add(until_deadline(&run, lease, wall));
            let held = Arc::new(Held::new(state.serial, run, deadline_at));
            let mut slot = Slot::new(Arc::clone(&held), lease, sent);
            if heard >= slot.trusted_until {
                // The answer lay about while this process stood still. A heartbeat tells whether it holds.
                slot.confirm = true;
                slot.beat_at = heard;
                held.set_unknown(true);
            }
            let confirm = slot.confirm;
            self.wake_for(&state, &slot);
            state.held.insert(held.serial, slot);
            if self.draining.is_cancelled() {
                self.end(&mut state, &held, Said::released());
            } else if !confirm {
                state.ready.push_back(held);
            }
        }
        self.pump(&mut state);
    }

    /// The loops look again when something comes before they would by themselves.
    pub(super) fn wake_for(&self, state: &State, slot: &Slot) {
        if slot.beat_at < state.beat_look_at {
            self.beat_wanted.notify_one();
        }
        let trusted = if slot.held.is_unknown() { Moment::MAX } else { slot.trusted_until };
        if trusted.min(slot.held.deadline_at) < state.watch_look_at {
            self.watch_wanted.notify_one();
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        match signal {
            Signal::Terminate => self.drain(),
            Signal::Quiet | Signal::None => {
                let quiet = signal == Signal::Quiet;
                let mut state = self.state();
                if state.quiet == quiet {
                    return;
                }
                state.quiet = quiet;
                state.empty_beat_at = quiet.then(|| clock::now() + self.options.lease / 3);
                drop(state);
                self.room.notify_one();
                self.beat_wanted.notify_one();
            }
            Signal::Unknown => {}
        }
    }
}

/// How long until the attempt's deadline. The lease's end says what the server's clock was, unless the
/// deadline comes first; then this machine's clock has to do.
fn until_deadline(run: &ClaimedRun, lease: Duration, wall: Timestamp) -> Duration {
    let (Some(deadline), Some(expires)) = (parse(&run.deadline), parse(&run.lease_expires_at))
    else {
        return lease;
    };
    let between = |from: Timestamp, to: Timestamp| {
        Duration::try_from(to.duration_since(from)).unwrap_or_default()
    };
    if expires < deadline {
        between(expires, deadline).saturating_add(lease)
    } else {
        between(wall, deadline).min(lease)
    }
}

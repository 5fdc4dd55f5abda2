//! "Stop this attempt": from the core to the executor that holds it. A stop may come before the
//! executor has registered the attempt it was just given, so early ones are kept for a while.

use crate::limits::EARLY_STOPS_MAX;
use model::{RunId, Token};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

type Attempt = (RunId, Token);

#[derive(Debug, Default)]
pub struct Stops {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<Attempt, Arc<Notify>>,
    early: VecDeque<Attempt>,
}

/// Resolves when the attempt shall stop; unregisters when dropped.
#[derive(Debug)]
pub struct Stopped {
    stops: Arc<Stops>,
    attempt: Attempt,
    notify: Arc<Notify>,
}

impl Stops {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stop(&self, run: RunId, token: Token) {
        let mut state = self.state();
        match state.running.get(&(run, token)) {
            Some(notify) => notify.notify_one(),
            None => {
                if state.early.len() >= EARLY_STOPS_MAX {
                    state.early.pop_front();
                }
                state.early.push_back((run, token));
            }
        }
    }

    pub fn register(self: &Arc<Stops>, run: RunId, token: Token) -> Stopped {
        let attempt = (run, token);
        let notify = Arc::new(Notify::new());
        let mut state = self.state();
        if let Some(at) = state.early.iter().position(|early| *early == attempt) {
            state.early.remove(at);
            notify.notify_one();
        }
        state.running.insert(attempt, notify.clone());
        Stopped { stops: self.clone(), attempt, notify }
    }
}

impl Stopped {
    pub async fn wait(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.stops.state().running.remove(&self.attempt);
    }
}

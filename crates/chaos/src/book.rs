//! What those outside saw, as they saw it: clients, workers and the webhook receiver write here
//! while the server lives and dies. `story` turns it into the checker's log at the end.

use model::{JobId, RunId, Time, Token};
use shard::command::{Beat, End, SettleAnswer};
use sim::log::Op;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock: what the server's store takes its time from at each start.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Somebody got an attempt: a webhook arrived, or a claim was answered.
#[derive(Clone, Debug)]
pub struct Got {
    pub at: Time,
    pub run: RunId,
    pub token: Token,
    pub attempt: u16,
    /// In whole milliseconds, rounded up: so it is told.
    pub nominal: Option<Time>,
    pub due: Option<Time>,
    /// The worker and the number of its request; none for a webhook.
    pub worker: Option<(String, u64)>,
    /// The number in the payload.
    pub number: Option<u64>,
}

/// Somebody said how an attempt ended.
#[derive(Clone, Debug)]
pub struct Said {
    pub sent: Time,
    pub run: RunId,
    pub token: Token,
    pub end: End,
    /// The answer; when the next attempt is due in whole milliseconds, rounded up.
    pub heard: Option<(Time, SettleAnswer)>,
}

#[derive(Debug, Default)]
pub struct Pages {
    pub ops: Vec<Op>,
    /// The number in the payload of a submission, by the op's place.
    pub numbers: Vec<(usize, u64)>,
    pub got: Vec<Got>,
    pub said: Vec<Said>,
    pub beats: Vec<(Time, Beat)>,
    /// What a client may do something to.
    pub recurring: Vec<JobId>,
    pub runs: Vec<RunId>,
    pub dead: Vec<RunId>,
}

#[derive(Debug, Default)]
struct Stage {
    server: Option<SocketAddr>,
    clients_go: bool,
    over: bool,
}

#[derive(Debug, Default)]
pub struct Book {
    pages: Mutex<Pages>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Book {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server is there, or none; do clients send (workers always do)?
    pub fn set_server(&self, server: Option<SocketAddr>, clients_go: bool) {
        let mut stage = self.stage();
        (stage.server, stage.clients_go) = (server, clients_go);
        drop(stage);
        self.changed.notify_all();
    }

    pub fn end(&self) {
        self.stage().over = true;
        self.changed.notify_all();
    }

    pub fn is_over(&self) -> bool {
        self.stage().over
    }

    /// Waits for a server; none when the world is over.
    pub fn server(&self, client: bool) -> Option<SocketAddr> {
        let mut stage = self.stage();
        loop {
            if stage.over {
                return None;
            }
            match stage.server {
                Some(server) if stage.clients_go || !client => return Some(server),
                _ => {}
            }
            stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A pause that ends with the world.
    pub fn pause(&self, pause: Duration) {
        let stage = self.stage();
        if !stage.over {
            let _ = self.changed.wait_timeout(stage, pause);
        }
    }
}

//! What those outside saw, as they saw it: clients, workers and the webhook receiver write here
//! while the server lives and dies. `story` turns it into the checker's log at the end.

use model::{JobId, RunId, Span, Text, Time, Token};
use serde_json::Value;
use shard::command::{Beat, End, SettleAnswer};
use sim::log::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the database's clock was moved, in microseconds: everybody's time here is the store's.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// The wall clock: what the server's store takes its time from at each start.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Time::from_micros(wall.saturating_add(AHEAD.load(Ordering::SeqCst)))
}

/// The database's clock is moved: called before that is done, so that nothing seems early.
pub fn move_clock(span: Span) {
    AHEAD.fetch_add(span.micros(), Ordering::SeqCst);
}

/// A new database has the clock of its machine.
pub fn reset_clock() {
    AHEAD.store(0, Ordering::SeqCst);
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
    pub worker: Option<(Arc<str>, u64)>,
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

/// Somebody worked on an attempt from then till then, by the clock that is everybody's here.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    pub run: RunId,
    pub token: Token,
    pub begin: Time,
    /// None: it has not ended yet.
    pub end: Option<Time>,
}

#[derive(Clone, Debug, Default)]
pub struct Pages {
    pub ops: Vec<Op>,
    /// The number in the payload of a submission, by the op's place; the jobs of a batch have the
    /// numbers that follow.
    pub numbers: Vec<(usize, u64)>,
    pub got: Vec<Got>,
    pub said: Vec<Said>,
    pub beats: Vec<(Time, Beat)>,
    /// What a client may do something to.
    pub recurring: Vec<JobId>,
    pub runs: Vec<RunId>,
    pub dead: Vec<RunId>,
    /// Of queues with limits only.
    pub executions: Vec<Execution>,
}

#[derive(Debug, Default)]
struct Stage {
    servers: Vec<SocketAddr>,
    clients_go: bool,
    over: bool,
    /// Who was sent to which server, mixed: callers spread over them as by chance.
    asked: u64,
}

#[derive(Debug, Default)]
pub struct Book {
    pages: Mutex<Pages>,
    stage: Mutex<Stage>,
    changed: Condvar,
    /// Jobs of batches that clients were told of.
    pub made: AtomicU64,
    waiting: Mutex<Waiting>,
}

/// Of queues with limits: jobs that were sent and have not begun.
#[derive(Debug, Default)]
struct Waiting {
    queues: BTreeMap<Text, usize>,
    begun: BTreeSet<RunId>,
}

impl Book {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn waiting(&self, queue: &Text) -> usize {
        self.waits().queues.get(queue).copied().unwrap_or(0)
    }

    pub fn wanted(&self, queue: &Text) {
        *self.waits().queues.entry(queue.clone()).or_default() += 1;
    }

    /// An attempt of it arrived somewhere; its payload says of which queue it is.
    pub fn begun(&self, run: RunId, payload: &Value) {
        let Some(queue) = payload["q"].as_str() else { return };
        let mut waits = self.waits();
        if waits.begun.insert(run) {
            let count = waits.queues.entry(Text::from(queue)).or_default();
            *count = count.saturating_sub(1);
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server is there, or none; do clients send (workers always do)?
    pub fn set_server(&self, server: Option<SocketAddr>, clients_go: bool) {
        self.set_servers(server.into_iter().collect(), clients_go);
    }

    /// As a load balancer that knows these.
    pub fn set_servers(&self, servers: Vec<SocketAddr>, clients_go: bool) {
        let mut stage = self.stage();
        (stage.servers, stage.clients_go) = (servers, clients_go);
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

    /// Waits for a server, any of them; none when the world is over.
    pub fn server(&self, client: bool) -> Option<SocketAddr> {
        let mut stage = self.stage();
        loop {
            if stage.over {
                return None;
            }
            if !stage.servers.is_empty() && (stage.clients_go || !client) {
                stage.asked = model::hash::mix(stage.asked.wrapping_add(1));
                let at = stage.asked % stage.servers.len() as u64;
                return stage.servers.get(at as usize).copied();
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

    /// The same, whatever else happens meanwhile.
    pub fn pause_whole(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut stage = self.stage();
        while !stage.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(stage, left);
            stage = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

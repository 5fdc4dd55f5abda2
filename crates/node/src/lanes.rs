//! Lanes: threads that carry store calls, one at a time each. What waits for a lane waits in the
//! driver, in order; how much that can be is bounded by the core (a few commits, one ownership call and
//! a renewal beside it, `PAGES_MAX` pages and the reads of the commands in its inboxes).
//!
//! The commit lane has two threads where the store can sync apart from applying: one applies commits
//! in order, the other syncs what has been applied and tells the answers. Nothing is told before a
//! sync that began after it was applied has succeeded.

use crate::calls::{apply, carry, failed};
use crate::clock::BootClock;
use crate::crash;
use crate::driver::Input;
use crate::handle::Shared;
use crate::limits::COMMITS_AT_ONCE;
use model::Time;
use shard::{CallId, StoreAnswer, StoreCall};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use store::Store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Commit,
    Read,
    /// Takes and gifts: they wait for commits of the shards they change.
    Own,
    /// Renewals: apart, so that nothing slow can cost the node its lease.
    Renew,
}

pub fn lane_of(call: &StoreCall) -> Which {
    match call {
        StoreCall::Commit(_) => Which::Commit,
        StoreCall::Read(_) => Which::Read,
        StoreCall::Take(_) | StoreCall::Give(_) => Which::Own,
        StoreCall::Renew(_) => Which::Renew,
    }
}

#[derive(Debug)]
pub struct Lane {
    thread: SyncSender<(CallId, StoreCall)>,
    /// Calls that may be on the lane at once, and how many are.
    most: usize,
    under_way: usize,
    waiting: VecDeque<(CallId, StoreCall)>,
}

impl Lane {
    pub fn start(
        which: Which,
        store: Arc<dyn Store>,
        input: SyncSender<Input>,
        shared: Arc<Shared>,
    ) -> Lane {
        let most = if which == Which::Commit { commits_at_once(&*store) } else { 1 };
        let (thread, calls) = sync_channel::<(CallId, StoreCall)>(most);
        let end = End { which, store: store.clone(), input, shared };
        if most > 1 {
            let (applied, to_sync) = sync_channel(most);
            crate::tasks::thread("lane-sync", move || end.sync(&to_sync));
            crate::tasks::thread("lane-commit", move || {
                while let Ok((id, call)) = calls.recv() {
                    let StoreCall::Commit(commits) = &call else { continue };
                    crash::point("commit-before");
                    crash::during("commit-during");
                    let began = BootClock.local();
                    let answer = apply(&*store, commits);
                    crash::point("commit-applied");
                    if applied.send((id, call, began, answer)).is_err() {
                        return;
                    }
                }
            });
        } else {
            crate::tasks::thread(&format!("lane-{which:?}").to_lowercase(), move || {
                while let Ok((id, call)) = calls.recv() {
                    if which == Which::Commit {
                        crash::point("commit-before");
                        crash::during("commit-during");
                    }
                    let began = BootClock.local();
                    let answer = carry(&*store, &call);
                    if !end.tell((id, call, began, answer)) {
                        return;
                    }
                }
            });
        }
        Lane { thread, most, under_way: 0, waiting: VecDeque::new() }
    }

    pub fn send(&mut self, id: CallId, call: StoreCall) {
        self.waiting.push_back((id, call));
        self.next();
    }

    /// The lane has answered and is free.
    pub fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.next();
    }

    fn next(&mut self) {
        while self.under_way < self.most
            && let Some(call) = self.waiting.pop_front()
        {
            // Never blocks: the lane has room for as many as are under way.
            if self.thread.send(call).is_err() {
                return; // Its thread has ended, and with it the process.
            }
            self.under_way += 1;
        }
    }
}

/// How many commits of this store may be under way.
pub fn commits_at_once(store: &dyn Store) -> usize {
    if store.syncs_apart() { COMMITS_AT_ONCE } else { 1 }
}

/// A call that the store has answered, and when it began.
type Done = (CallId, StoreCall, Time, StoreAnswer);

/// Where answers leave a lane.
struct End {
    which: Which,
    store: Arc<dyn Store>,
    input: SyncSender<Input>,
    shared: Arc<Shared>,
}

impl End {
    /// Tells answers to commits after a sync that began when all of them were applied, in order.
    fn sync(&self, applied: &Receiver<Done>) {
        while let Ok(first) = applied.recv() {
            let mut done = vec![first];
            done.extend(applied.try_iter());
            let synced = self.store.sync();
            for (id, call, began, mut answer) in done {
                if let (StoreAnswer::Commit { .. }, Err(error)) = (&answer, synced) {
                    answer = failed(error);
                }
                if !self.tell((id, call, began, answer)) {
                    return;
                }
            }
        }
    }

    /// False if the driver has ended.
    fn tell(&self, (id, call, began, answer): Done) -> bool {
        let took = BootClock.local().since(began);
        match self.which {
            Which::Commit => self.shared.metrics.commit.observe(took),
            Which::Read => self.shared.metrics.read.observe(took),
            Which::Own | Which::Renew => {}
        }
        crash::point(match call {
            StoreCall::Commit(_) => "commit-after",
            StoreCall::Read(_) => "load-after",
            StoreCall::Renew(_) => "renew-after",
            StoreCall::Take(_) | StoreCall::Give(_) => "take-after",
        });
        self.input.send(Input::Store { which: self.which, id, answer }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::cluster::{Cluster, Give, Renew, Take, Taken};
    use model::read::{Page, Read};
    use model::row::Commit;
    use model::{NodeId, RunId, ShardId, Span, Spec};
    use std::sync::Mutex;
    use store::{Committed, MemoryStore, StoreError};

    /// Whoever takes or gives waits until somebody says go.
    struct Slow {
        inner: MemoryStore,
        go: Mutex<Receiver<()>>,
    }

    impl Slow {
        fn wait(&self) {
            self.go.lock().expect("one at a time").recv().expect("somebody says go");
        }
    }

    impl Store for Slow {
        fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
            self.inner.commit(commits)
        }
        fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
            self.inner.read(reads)
        }
        fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
            self.inner.specs(runs)
        }
        fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
            self.inner.renew(renew)
        }
        fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
            self.wait();
            self.inner.take(takes)
        }
        fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
            self.wait();
            self.inner.give(gives)
        }
        fn rotate(&self) -> Result<(), StoreError> {
            self.inner.rotate()
        }
    }

    #[test]
    fn a_renewal_waits_for_nobody() {
        let (go, told) = sync_channel(1);
        let store = Arc::new(Slow { inner: MemoryStore::new(2), go: Mutex::new(told) });
        let (input, heard) = sync_channel(8);
        let lane = |which| Lane::start(which, store.clone(), input.clone(), Arc::default());
        let mut lanes =
            [Which::Commit, Which::Read, Which::Own, Which::Renew].map(|w| (w, lane(w)));
        let node = NodeId { node: 1, boot: 1 };
        let calls = [
            StoreCall::Take(vec![]),
            StoreCall::Give(vec![]),
            StoreCall::Renew(Renew { node, ttl: Span::from_secs(3) }),
        ];
        for (id, call) in calls.into_iter().enumerate() {
            let which = lane_of(&call);
            let lane = lanes.iter_mut().find(|(other, _)| *other == which);
            lane.expect("a lane for it").1.send(CallId(id as u64), call);
        }
        let heard = heard.recv_timeout(std::time::Duration::from_secs(30));
        let Ok(Input::Store { which, answer, .. }) = heard else { panic!("no answer") };
        assert_eq!(which, Which::Renew, "the others still wait");
        assert!(matches!(answer, StoreAnswer::Renew(_)));
        drop(go);
    }
}

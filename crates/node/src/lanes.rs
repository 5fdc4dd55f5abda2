//! Lanes: threads that carry store calls, one at a time each. What waits for a lane waits in the
//! driver, in order; how much that can be is bounded by the core (one commit, one ownership call and a
//! renewal beside it,
//! `PAGES_MAX` pages and the reads of the commands in its inboxes).

use crate::calls::carry;
use crate::clock::BootClock;
use crate::crash;
use crate::driver::Input;
use crate::handle::Shared;
use shard::{CallId, StoreCall};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
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
    busy: bool,
    waiting: VecDeque<(CallId, StoreCall)>,
}

impl Lane {
    pub fn start(
        which: Which,
        store: Arc<dyn Store>,
        input: SyncSender<Input>,
        shared: Arc<Shared>,
    ) -> Lane {
        let (thread, calls) = sync_channel::<(CallId, StoreCall)>(1);
        crate::tasks::thread(&format!("lane-{which:?}").to_lowercase(), move || {
            while let Ok((id, call)) = calls.recv() {
                if which == Which::Commit {
                    crash::point("commit-before");
                    crash::during("commit-during");
                }
                let began = BootClock.local();
                let answer = carry(store.as_ref(), &call);
                let took = BootClock.local().since(began);
                match which {
                    Which::Commit => shared.metrics.commit.observe(took),
                    Which::Read => shared.metrics.read.observe(took),
                    Which::Own | Which::Renew => {}
                }
                crash::point(match call {
                    StoreCall::Commit(_) => "commit-after",
                    StoreCall::Read(_) => "load-after",
                    StoreCall::Renew(_) => "renew-after",
                    StoreCall::Take(_) | StoreCall::Give(_) => "take-after",
                });
                if input.send(Input::Store { which, id, answer }).is_err() {
                    return; // The driver has ended.
                }
            }
        });
        Lane { thread, busy: false, waiting: VecDeque::new() }
    }

    pub fn send(&mut self, id: CallId, call: StoreCall) {
        self.waiting.push_back((id, call));
        self.next();
    }

    /// The lane has answered and is free.
    pub fn answered(&mut self) {
        self.busy = false;
        self.next();
    }

    fn next(&mut self) {
        if !self.busy
            && let Some(call) = self.waiting.pop_front()
        {
            // Never blocks: the lane has room for one and is idle.
            self.busy = self.thread.send(call).is_ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::cluster::{Cluster, Give, Renew, Take, Taken};
    use model::read::{Page, Read};
    use model::row::Commit;
    use model::{NodeId, RunId, ShardId, Span, Spec};
    use shard::StoreAnswer;
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;
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

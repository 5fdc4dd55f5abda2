//! Lanes: threads that carry store calls, one at a time each. What waits for a lane waits in the
//! driver, in order; how much that can be is bounded by the core (a few commits, one ownership call and
//! a renewal beside it, `PAGES_MAX` pages and the reads of the commands in its inboxes).
//!
//! Reads that wait for the read lane are asked together: a node that takes many shards asks the same few
//! things of each, and one call costs a few trips to a database, however many shards it asks about.
//!
//! The commit lane has two threads where the store can sync apart from applying: one applies commits
//! in order, the other syncs what has been applied and tells the answers. Nothing is told before a
//! sync that began after it was applied has succeeded. Where the store takes commits ahead of its answers
//! one thread sends them, in order, and the other waits for the answers.

use crate::calls::{apply, carry, carry_reads, end_of, failed};
use crate::clock::BootClock;
use crate::crash;
use crate::driver::Input;
use crate::handle::Shared;
use crate::limits::{COMMITS_AHEAD, COMMITS_AT_ONCE, READS_TOGETHER, SLOW_CALL};
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
        let most = match which {
            Which::Commit => commits_at_once(&*store),
            Which::Read => READS_TOGETHER,
            Which::Own | Which::Renew => 1,
        };
        let (thread, calls) = sync_channel::<(CallId, StoreCall)>(most);
        let end = End { which, store: store.clone(), input, shared };
        if which == Which::Read {
            crate::tasks::thread("lane-read", move || end.read(&calls));
        } else if which == Which::Commit && store.takes_ahead() {
            let (begun, to_end) = sync_channel(most);
            crate::tasks::thread("lane-answer", move || {
                while let Ok((id, call, began)) = to_end.recv() {
                    let answer = end_of(&*end.store, &call);
                    if !end.tell((id, call, began, answer)) {
                        return;
                    }
                }
            });
            crate::tasks::thread("lane-commit", move || {
                while let Ok((id, call)) = calls.recv() {
                    let StoreCall::Commit(commits) = &call else { continue };
                    crash::point("commit-before");
                    crash::during("commit-during");
                    let began = BootClock.local();
                    store.begin(commits);
                    if begun.send((id, call, began)).is_err() {
                        return;
                    }
                }
            });
        } else if which == Which::Commit && store.syncs_apart() {
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
    match (store.syncs_apart(), store.takes_ahead()) {
        (true, _) => COMMITS_AT_ONCE,
        (false, true) => COMMITS_AHEAD,
        (false, false) => 1,
    }
}

/// A call that the store has answered, and when it began.
type Done = (CallId, StoreCall, Time, StoreAnswer);

fn what(call: &StoreCall) -> &'static str {
    match call {
        StoreCall::Commit(_) => "commit",
        StoreCall::Read(_) => "read",
        StoreCall::Renew(_) => "renew",
        StoreCall::Take(_) => "take",
        StoreCall::Give(_) => "give",
    }
}

/// Where answers leave a lane.
struct End {
    which: Which,
    store: Arc<dyn Store>,
    input: SyncSender<Input>,
    shared: Arc<Shared>,
}

impl End {
    /// What has come while the last reads were under way is read at once. After a failure calls go one
    /// by one for a while, so that one that always fails stands alone.
    fn read(&self, calls: &Receiver<(CallId, StoreCall)>) {
        let mut alone = 0;
        while let Ok(first) = calls.recv() {
            let mut together = vec![first];
            if alone == 0 {
                together.extend(calls.try_iter());
            }
            alone = usize::saturating_sub(alone, 1);
            let began = BootClock.local();
            let answers = carry_reads(&*self.store, &together);
            if together.len() > 1 && !matches!(answers.first(), Some(StoreAnswer::Read(_))) {
                alone = READS_TOGETHER;
            }
            for ((id, call), answer) in together.into_iter().zip(answers) {
                if !self.tell((id, call, began, answer)) {
                    return;
                }
            }
        }
    }

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
        if took > SLOW_CALL {
            // A node whose renewals are slow calls nobody dead and takes nothing over: why shall stand somewhere.
            let (what, millis) = (what(&call), took.micros() / 1_000);
            tracing::warn!(what, millis, "the store took long to answer");
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

    /// Tells how much was asked at once, and answers when somebody says go.
    struct Counted {
        inner: MemoryStore,
        began: SyncSender<usize>,
        go: Mutex<Receiver<()>>,
        bad: ShardId,
    }

    impl Store for Counted {
        fn commit(&self, commits: &[Commit]) -> Result<Committed, StoreError> {
            self.inner.commit(commits)
        }
        fn read(&self, reads: &[(ShardId, Read)]) -> Result<Vec<Page>, StoreError> {
            self.began.send(reads.len()).expect("somebody counts");
            self.go.lock().expect("one at a time").recv().expect("somebody says go");
            match reads.iter().any(|(shard, _)| *shard == self.bad) {
                true => Err(StoreError::Unknown),
                false => self.inner.read(reads),
            }
        }
        fn specs(&self, runs: &[(RunId, u32)]) -> Result<Vec<Option<Arc<Spec>>>, StoreError> {
            self.inner.specs(runs)
        }
        fn renew(&self, renew: Renew) -> Result<Cluster, StoreError> {
            self.inner.renew(renew)
        }
        fn take(&self, takes: &[Take]) -> Result<Vec<Option<Taken>>, StoreError> {
            self.inner.take(takes)
        }
        fn give(&self, gives: &[Give]) -> Result<Vec<bool>, StoreError> {
            self.inner.give(gives)
        }
        fn rotate(&self) -> Result<(), StoreError> {
            self.inner.rotate()
        }
    }

    #[test]
    fn reads_that_wait_are_read_together_and_a_bad_one_stands_alone() {
        let wait = std::time::Duration::from_secs(30);
        let (go, told) = sync_channel(1);
        let (began, begun) = sync_channel(1);
        let (inner, bad) = (MemoryStore::new(8), ShardId(7));
        let store = Arc::new(Counted { inner, began, go: Mutex::new(told), bad });
        let (input, heard) = sync_channel(64);
        let mut lane = Lane::start(Which::Read, store, input, Arc::default());
        let mut next = 0;
        let mut send = |shards: &[u16]| {
            next += 1;
            let reads = shards.iter().map(|shard| (ShardId(*shard), Read::Holds)).collect();
            lane.send(CallId(next), StoreCall::Read(reads));
        };
        // How many reads were asked at once, and how many pages each of its calls got.
        let begun = || begun.recv_timeout(wait).expect("it is asked");
        let answers = |calls: usize| -> Vec<(u64, Option<usize>)> {
            go.send(()).expect("it waits");
            let answer = |_| match heard.recv_timeout(wait) {
                Ok(Input::Store { id, answer: StoreAnswer::Read(pages), .. }) => {
                    (id.0, Some(pages.len()))
                }
                Ok(Input::Store { id, .. }) => (id.0, None),
                _ => panic!("no answer"),
            };
            (0..calls).map(answer).collect()
        };
        send(&[0]);
        assert_eq!(begun(), 1);
        // What comes while one is under way goes together.
        [&[1, 2][..], &[3], &[4]].into_iter().for_each(&mut send);
        assert_eq!(answers(1), [(1, Some(1))]);
        assert_eq!(begun(), 4);
        send(&[7]);
        send(&[5]);
        assert_eq!(answers(3), [(2, Some(2)), (3, Some(1)), (4, Some(1))], "each has its own");
        // A shard that cannot be read fails those that came with it, and then only itself.
        assert_eq!(begun(), 2);
        [&[6][..], &[7], &[5]].into_iter().for_each(&mut send);
        assert_eq!(answers(2), [(5, None), (6, None)]);
        for answer in [(7, Some(1)), (8, None), (9, Some(1))] {
            assert_eq!(begun(), 1);
            assert_eq!(answers(1), [answer]);
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

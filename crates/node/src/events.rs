//! What happened, for those who listen: a bounded ring of events, told only after the commit that
//! made them is durable. Each listener reads the ring from its own cursor, so a slow one costs
//! nothing and finds a gap when it comes too late. Nothing here is truth: whoever finds a gap reads
//! the rows again.
//!
//! Beside the ring: those who wait for the end of one run, woken when it comes.

mod rows;
mod what;

pub use what::{Ended, Happened, What};

use crate::limits::{EVENTS_KEPT, WAITS_MAX, WATCHES_MAX};
use crate::random;
use crate::rates::{Rate, Rates};
use crate::specs::Specs;
use model::{Namespace, NodeId, RunId, Text, Time};
use rows::Known;
use shard::{CallId, CommitEnd, StoreAnswer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// What a listener finds behind its cursor.
#[derive(Clone, Debug)]
pub enum Next {
    Events(Vec<Happened>),
    /// Some were lost; the first that is still there has this number.
    Gap(u64),
}

#[derive(Debug)]
pub struct Events {
    /// A cursor of another life of the process finds a gap.
    boot: u64,
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
    closing: watch::Sender<bool>,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Happened>,
    /// The number of the last event.
    last: u64,
    known: Known,
    rates: Rates,
    /// Commits on their way: what they change, until the store answers.
    pending: BTreeMap<CallId, Vec<model::row::Commit>>,
}

#[derive(Debug, Default)]
struct Waits {
    runs: BTreeMap<RunId, Vec<Arc<Notify>>>,
    count: usize,
    /// Runs that callers of other nodes wait for.
    watched: BTreeSet<(RunId, NodeId)>,
}

impl Default for Events {
    fn default() -> Events {
        Events::of(random::bits())
    }
}

impl Events {
    /// Of this life of a node.
    pub fn of(boot: u64) -> Events {
        Events {
            boot,
            ring: Mutex::default(),
            last: watch::channel(0).0,
            closing: watch::channel(false).0,
            waits: Mutex::default(),
        }
    }
}

impl Events {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the driver's side ----------------------------------------------------------------------

    pub(crate) fn sent(&self, id: CallId, commits: &[model::row::Commit]) {
        self.ring().pending.insert(id, commits.to_vec());
    }

    pub(crate) fn pages(&self, pages: &[model::read::Page]) {
        self.ring().known.pages(pages);
    }

    /// The store has answered a commit: what is durable is told. Where nobody knows whether it was
    /// applied, listeners find a gap and those who wait look again.
    ///
    /// The answer is whom else to tell of which run.
    pub(crate) fn answered(
        &self,
        id: CallId,
        answer: &StoreAnswer,
        specs: &Specs,
    ) -> Vec<(NodeId, RunId)> {
        let mut ring = self.ring();
        let Some(commits) = ring.pending.remove(&id) else { return Vec::new() };
        if let StoreAnswer::Commit { ends, .. } = answer {
            let ends = commits.iter().zip(ends);
            let durable = ends.filter(|(_, end)| **end == CommitEnd::Durable);
            specs.durable(durable.map(|(commit, _)| commit));
        }
        let mut ended = Vec::new();
        let mut unknown = false;
        match answer {
            StoreAnswer::Commit { ends, .. } => {
                for (commit, end) in commits.iter().zip(ends) {
                    if *end == CommitEnd::Durable {
                        let told = ring.known.commit(commit);
                        ended.extend(told.iter().filter(|one| one.is_end()).filter_map(|h| h.run));
                        told.iter().for_each(|one| ring.rates.count(one));
                        told.into_iter().for_each(|one| ring.push(one));
                    }
                }
            }
            StoreAnswer::Refused(_) => {}
            _ => {
                unknown = true;
                let at = commits.first().map_or(Time::MIN, |commit| commit.decided);
                ring.push(Happened::gap(at));
            }
        }
        let last = ring.last;
        drop(ring);
        self.last.send_if_modified(|was| std::mem::replace(was, last) != last);
        let mut waits = self.waits();
        if unknown {
            waits.runs.values().flatten().for_each(|waiter| waiter.notify_one());
            let all = std::mem::take(&mut waits.watched);
            return all.into_iter().map(|(run, node)| (node, run)).collect();
        }
        let woken = ended.iter().filter_map(|run| waits.runs.get(run));
        woken.flatten().for_each(|waiter| waiter.notify_one());
        let mut theirs = Vec::new();
        for run in ended.iter().filter(|_| !waits.watched.is_empty()) {
            let first = (*run, NodeId { node: 0, boot: 0 });
            let of_run = waits.watched.range(first..).take_while(|(one, _)| one == run);
            theirs.extend(of_run.map(|(run, node)| (*node, *run)));
        }
        for (node, run) in &theirs {
            waits.watched.remove(&(*run, *node));
        }
        theirs
    }

    /// Another node wants to hear of the end of a run. Who asks too much hears nothing and looks for
    /// itself, as it does now and then anyway.
    pub(crate) fn watch(&self, run: RunId, node: NodeId) {
        let mut waits = self.waits();
        if waits.watched.len() >= WATCHES_MAX {
            waits.watched.clear();
        }
        waits.watched.insert((run, node));
    }

    pub(crate) fn look_again(&self, run: RunId) {
        let waits = self.waits();
        waits.runs.get(&run).into_iter().flatten().for_each(|waiter| waiter.notify_one());
    }

    /// Something that no shard's commit says.
    pub(crate) fn tell(&self, event: Happened) {
        let mut ring = self.ring();
        ring.push(event);
        let last = ring.last;
        drop(ring);
        self.last.send_replace(last);
    }

    // ---- the listeners' side --------------------------------------------------------------------

    /// How fast the queues of a namespace move whose shards are here.
    pub fn rates(&self, namespace: Namespace, now: Time) -> BTreeMap<Text, Rate> {
        self.ring().rates.of(namespace, now)
    }

    /// The number of the last event so far.
    pub fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Up to `most` events behind the cursor; none if there are none yet.
    pub fn after(&self, cursor: u64, most: usize) -> Next {
        let ring = self.ring();
        let first = ring.last + 1 - ring.kept.len() as u64;
        if cursor + 1 < first || cursor > ring.last {
            return Next::Gap(first);
        }
        let skip = (cursor + 1 - first) as usize;
        Next::Events(ring.kept.iter().skip(skip).take(most).cloned().collect())
    }

    /// Resolves when there is something behind the cursor, or when the process ends.
    pub async fn more(&self, cursor: u64) {
        let (mut last, mut closing) = (self.last.subscribe(), self.closing.subscribe());
        tokio::select! {
            _ = last.wait_for(|last| *last != cursor) => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
    }

    /// The process is about to end: streams and waits end first.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub async fn closed(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// The cursor as text that says nothing to its reader.
    pub fn cursor(&self, seq: u64) -> String {
        format!("{:016x}-{seq}", self.boot)
    }

    /// None if the text is of another life of this process, or no cursor.
    pub fn read_cursor(&self, text: &str) -> Option<u64> {
        cursor_of(text).and_then(|(boot, seq)| (boot == self.boot).then_some(seq))
    }

    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// To be told when the run ends. None if too many wait already.
    pub fn wait_for(self: &Arc<Events>, run: RunId) -> Option<Wait> {
        let mut waits = self.waits();
        if waits.count >= WAITS_MAX {
            return None;
        }
        waits.count += 1;
        let notify = Arc::new(Notify::new());
        waits.runs.entry(run).or_default().push(notify.clone());
        drop(waits);
        Some(Wait { events: self.clone(), run, notify })
    }
}

/// Which life of which node counted, and how far.
pub fn cursor_of(text: &str) -> Option<(u64, u64)> {
    let (boot, seq) = text.split_once('-')?;
    Some((u64::from_str_radix(boot, 16).ok()?, seq.parse().ok()?))
}

impl Ring {
    fn push(&mut self, mut event: Happened) {
        self.last += 1;
        event.seq = self.last;
        if self.kept.len() >= EVENTS_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }
}

/// Someone who waits for the end of a run; leaves when dropped.
#[derive(Debug)]
pub struct Wait {
    events: Arc<Events>,
    run: RunId,
    notify: Arc<Notify>,
}

impl Wait {
    /// The run may have ended, or the process is about to.
    pub async fn woken(&self) {
        tokio::select! {
            () = self.notify.notified() => {}
            () = self.events.closed() => {}
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.events.waits();
        waits.count -= 1;
        if let Some(list) = waits.runs.get_mut(&self.run) {
            list.retain(|one| !Arc::ptr_eq(one, &self.notify));
            if list.is_empty() {
                waits.runs.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &Events, count: u64) {
        let mut ring = events.ring();
        (0..count).for_each(|_| ring.push(Happened::gap(Time::MIN)));
        let last = ring.last;
        drop(ring);
        events.last.send_replace(last);
    }

    fn seen(events: &Events, cursor: u64) -> Option<Vec<u64>> {
        match events.after(cursor, 10) {
            Next::Events(list) => Some(list.iter().map(|one| one.seq).collect()),
            Next::Gap(_) => None,
        }
    }

    #[test]
    fn a_cursor_goes_on_where_it_was_and_finds_a_gap_when_it_is_too_old() {
        let events = Events::default();
        assert_eq!(seen(&events, 0), Some(vec![]));
        told(&events, 3);
        assert_eq!(seen(&events, 1), Some(vec![2, 3]));
        assert_eq!(seen(&events, 3), Some(vec![]));
        assert_eq!(seen(&events, 4), None, "a number that was never given out");
        told(&events, EVENTS_KEPT as u64);
        assert_eq!(seen(&events, 2), None, "fell out of the ring");
        assert_eq!(seen(&events, 3).map(|list| list[0]), Some(4), "the oldest that is kept");
    }

    #[test]
    fn a_cursor_of_another_life_is_none() {
        let (one, other) = (Events::default(), Events::default());
        assert_eq!(one.read_cursor(&one.cursor(7)), Some(7));
        assert_eq!(other.read_cursor(&one.cursor(7)), None);
        for rubbish in ["", "-", "7", "x-7", "ffffffffffffffffff-1"] {
            assert_eq!(one.read_cursor(rubbish), None, "{rubbish}");
        }
    }
}

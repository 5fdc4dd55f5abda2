//! Bringing rows from the store into memory, while decisions go on.
//!
//! **After a takeover**: leases, holds, the flows that have ready runs; then the shard lives. The
//! wheel and the fronts of the flows follow in pages. All of it is bounded and does not depend on
//! how much is waiting.
//!
//! **Raising the horizon** is a protocol, because rows are inserted, cancelled and settled while
//! the page is read:
//!   1. the core raises the horizon first: from now on what is due before it is kept when decided;
//!   2. the page is read only when every batch decided before that is durable;
//!   3. at the merge, rows that were touched since are ignored: memory knows better.
//!
//! Pages of flows follow the same three steps.

use crate::batch::Event;
use crate::flows::WantedPage;
use crate::limits::{
    DENSE_FOR, HORIZON, HORIZON_FAR, HORIZON_FAR_LEAST, HORIZON_FIRST, HORIZON_LOW, STRANGERS_MAX,
};
use crate::planted::Bug;
use crate::rows::ReadId;
use crate::shard::Shard;
use crate::starts::Began;
use crate::timer::Timed;
use crate::touched::Since;
use model::cluster::Taken;
use model::read::{Page, Read, WheelCursor, WheelKey};
use model::row::{Holder, Row};
use model::{FlowKey, Namespace, NodeId, RunState, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Loader {
    stage: Stage,
    stage_read: Option<ReadId>,
    alive: Vec<NodeId>,
    /// When that was seen, by the store's clock: of a node that began later it says nothing.
    seen_at: Time,
    /// Nodes that hold leases and that were not seen yet; the host judges them by what it sees next.
    strangers: BTreeSet<NodeId>,
    /// What is due before this is kept in memory when it is decided.
    kept_before: Time,
    /// Everything stored that is due before this is in memory.
    complete_before: Time,
    raise: Option<Raise>,
    pages: BTreeMap<ReadId, FlowPage>,
    gated_pages: Vec<(u64, FlowPage)>,
    flows_after: Option<FlowKey>,
    flows_listed: bool,
    /// What queues allow is read beside the rest.
    queues_read: Option<ReadId>,
    queues_known: bool,
    /// When too much waited for a far horizon.
    dense_at: Option<Time>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Leases,
    Holds,
    Flows,
    /// All but what queues allow is known.
    Queues,
    Live,
}

#[derive(Debug)]
struct Raise {
    from: Time,
    before: Time,
    gate: u64,
    cursor: Option<WheelCursor>,
    read: Option<ReadId>,
    /// Of the page that is asked for next or under way. Each page waits for the batches decided
    /// before it, so what earlier pages had to leave out need not be remembered.
    since: Since,
}

#[derive(Debug)]
struct FlowPage {
    wanted: WantedPage,
    since: Since,
}

/// How long a failed read waits before it is sent again.
const READ_AGAIN: Span = Span::from_millis(50);

impl Loader {
    pub fn is_live(&self) -> bool {
        self.stage == Stage::Live
    }

    /// Found dead after loading began.
    pub fn seen_at(&mut self, at: Time) {
        self.seen_at = at;
    }

    pub fn strangers(&self) -> impl Iterator<Item = NodeId> {
        self.strangers.iter().copied()
    }

    pub fn forget_alive(&mut self, node: NodeId) {
        self.alive.retain(|alive| *alive != node);
        self.strangers.remove(&node);
    }

    /// Is every flow that has ready runs on disk known?
    pub fn has_listed_flows(&self) -> bool {
        self.flows_listed
    }

    pub fn kept_before(&self) -> Time {
        self.kept_before
    }

    pub fn next_raise(&self) -> Option<Time> {
        (self.is_live() && self.raise.is_none()).then(|| self.complete_before.minus(HORIZON_LOW))
    }

    /// Is everything that is due by now in memory?
    pub fn is_caught_up(&self, now: Time) -> bool {
        self.is_live() && self.complete_before > now
    }
}

impl Shard {
    pub(crate) fn begin_load(&mut self, taken: Taken, alive: &[NodeId], now: Time) {
        self.loader = Loader {
            alive: alive.to_vec(),
            seen_at: Time::MAX,
            kept_before: taken.floor,
            complete_before: taken.floor,
            ..Loader::default()
        };
        self.flows.assume_more(true);
        self.began = Began::at(taken.starts);
        self.floor_written = now;
        self.floor_ahead = Some(taken.floor).filter(|floor| *floor > now.minus(HORIZON));
        if self.planted.is(Bug::ForgetLeases) {
            self.loader.stage = Stage::Holds;
        }
        self.load_more(now);
    }

    /// Rows that a decision changed are not to be overwritten by a page that was asked for before.
    pub(crate) fn touch(&mut self, key: WheelKey) {
        if self.planted.is(Bug::NoTouchedSet) {
            return;
        }
        self.touched.touch(key);
    }

    /// Asks for what memory lacks next.
    pub(crate) fn load_more(&mut self, now: Time) {
        if self.pipeline.is_broken() {
            return;
        }
        if self.loader.stage_read.is_none() {
            let read = match self.loader.stage {
                Stage::Leases => {
                    let after = self.leases.iter().last().map(|lease| lease.row.run);
                    Some(Read::Leases { after, limit: self.sizes.page })
                }
                Stage::Holds => Some(Read::Holds),
                Stage::Flows => Some(self.flows_read()),
                Stage::Live
                    if !self.loader.flows_listed
                        && self.flows.room_for_flows() > self.sizes.page =>
                {
                    Some(self.flows_read())
                }
                Stage::Queues | Stage::Live => None,
            };
            self.loader.stage_read = read.map(|read| self.read(read));
        }
        if !self.loader.queues_known && self.loader.queues_read.is_none() {
            self.loader.queues_read = Some(self.read(Read::Queues));
        }
        if self.loader.is_live() {
            self.raise_horizon(now);
            self.read_wheel();
            self.read_flows();
            self.read_sweeps();
        }
    }

    fn flows_read(&self) -> Read {
        Read::Flows { after: self.loader.flows_after.clone(), limit: self.sizes.page }
    }

    fn raise_horizon(&mut self, now: Time) {
        if self.timer.len() > self.sizes.timer_max {
            self.lower_horizon();
            return;
        }
        let far = self.loader.kept_before > now.plus(HORIZON.times(2));
        if self.sizes.sparse > 0 && far && self.timer.len() > self.sizes.sparse.saturating_mul(2) {
            self.loader.dense_at = Some(now);
            self.timer.cut(now.plus(HORIZON));
            self.end_horizon_at(now.plus(HORIZON));
        }
        let loader = &self.loader;
        let low = loader.complete_before <= now.plus(HORIZON_LOW);
        if loader.raise.is_some() || !low || self.timer.len() > self.sizes.timer_max / 2 {
            return;
        }
        let from = loader.complete_before;
        let before = self.next_horizon(now, from);
        let gate = self.wheel_gate();
        if !self.planted.is(Bug::HorizonAfterRead) {
            self.loader.kept_before = before;
        }
        let since = self.touched.begin();
        self.loader.raise = Some(Raise { from, before, gate, cursor: None, read: None, since });
    }

    fn next_horizon(&self, now: Time, from: Time) -> Time {
        let lately = |at: Time| now >= at && now.since(at) < DENSE_FOR;
        if from <= now {
            now.plus(HORIZON_FIRST)
        } else if self.timer.len() >= self.sizes.sparse || self.loader.dense_at.is_some_and(lately)
        {
            now.plus(HORIZON)
        } else {
            let (step, least) = (HORIZON_FAR.micros(), now.plus(HORIZON_FAR_LEAST).micros());
            Time::from_micros(least.div_euclid(step).saturating_add(1).saturating_mul(step))
        }
    }

    fn wheel_gate(&self) -> u64 {
        if self.planted.is(Bug::PageBeforeDurable) { 0 } else { self.pipeline.gate() }
    }

    /// Too much is near: what lies further away is forgotten and read again when it is nearer.
    fn lower_horizon(&mut self) {
        if let Some(ends) = self.timer.lower() {
            self.end_horizon_at(ends);
        }
    }

    fn end_horizon_at(&mut self, ends: Time) {
        self.event(Event::HorizonLowered);
        self.loader.kept_before = ends;
        self.loader.complete_before = ends.min(self.loader.complete_before);
        if let Some(raise) = self.loader.raise.take() {
            self.touched.end(raise.since);
        }
    }

    fn read_wheel(&mut self) {
        let busy = self.timer.len() > self.sizes.timer_max / 2;
        let durable = self.pipeline.durable();
        let Some(raise) = &self.loader.raise else { return };
        if raise.read.is_some() || durable < raise.gate || busy {
            return;
        }
        let read = Read::Due {
            from: raise.from,
            before: raise.before,
            after: raise.cursor,
            limit: self.sizes.page,
        };
        let id = self.read(read);
        if let Some(raise) = &mut self.loader.raise {
            raise.read = Some(id);
        }
    }

    fn read_flows(&mut self) {
        let gate = self.pipeline.gate();
        for wanted in self.flows.wanted_pages() {
            let page = FlowPage { wanted, since: self.touched.begin() };
            self.loader.gated_pages.push((gate, page));
        }
        let durable = self.pipeline.durable();
        let (ready, wait) = std::mem::take(&mut self.loader.gated_pages)
            .into_iter()
            .partition::<Vec<_>, _>(|(gate, _)| *gate <= durable);
        self.loader.gated_pages = wait;
        for (_, page) in ready {
            let (flow, after) = (page.wanted.key.clone(), page.wanted.after);
            let limit = page.wanted.limit;
            let id = self.read(Read::Flow { flow, after, limit });
            self.loader.pages.insert(id, page);
        }
    }

    /// A read was answered.
    pub fn handle_read(&mut self, now: Time, id: ReadId, page: Page) {
        if self.outstanding.remove(&id).is_none() {
            return; // From before a reload.
        }
        if let Some((keys, works)) = self.parked.remove(&id) {
            self.rows_read(keys, page);
            self.again.extend(works);
        } else if self.loader.stage_read == Some(id) {
            self.loader.stage_read = None;
            self.stage_read(now, page);
        } else if self.loader.queues_read == Some(id) {
            self.loader.queues_read = None;
            self.queues_read(now, page);
        } else if self.loader.raise.as_ref().is_some_and(|raise| raise.read == Some(id)) {
            self.merge_wheel(page);
        } else if let Some(flow) = self.loader.pages.remove(&id) {
            self.merge_flow(flow, page);
        } else if let Some(wait) = self.outcome_reads.remove(&id) {
            self.outcomes_read(now, wait, page);
        } else if let Some(aside) = self.asides.remove(&id) {
            self.aside_read(aside, page);
        } else {
            self.sweep_read(now, id, page);
        }
        self.retire();
        self.work(now);
    }

    /// A read failed: it is asked again a little later.
    pub fn handle_read_failed(&mut self, now: Time, id: ReadId) {
        if self.outstanding.contains_key(&id) {
            self.retry_reads.push((now.plus(READ_AGAIN), id));
        }
    }

    pub(crate) fn read_again(&mut self, now: Time) {
        let (due, wait): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.retry_reads).into_iter().partition(|(at, _)| {
                // Further away than a pause can be: the clock ran wild and came back.
                *at <= now || at.since(now) > READ_AGAIN
            });
        self.retry_reads = wait;
        for (_, id) in due {
            if let Some(read) = self.outstanding.get(&id) {
                self.reads.push_back((id, read.clone()));
            }
        }
    }

    fn rows_read(&mut self, keys: Vec<model::row::Key>, page: Page) {
        let Page::Rows(rows) = page else { return };
        for (key, row) in keys.into_iter().zip(rows) {
            self.read_once.push(key.clone());
            self.rows.read(key, row);
        }
    }

    fn stage_read(&mut self, now: Time, page: Page) {
        match page {
            Page::Leases(leases) => {
                let more = leases.len() >= self.sizes.page;
                if leases.iter().any(|(lease, _)| lease.token.epoch() < self.epoch) {
                    self.event(Event::TookOverRunning);
                }
                for (lease, run) in leases {
                    let entry = self.entry_of(&run);
                    let dead = match lease.holder {
                        Holder::Node(node) => {
                            let unseen = node != self.node && !self.loader.alive.contains(&node);
                            let later = lease.started > self.loader.seen_at;
                            if unseen && later && self.loader.strangers.len() < STRANGERS_MAX {
                                self.loader.strangers.insert(node);
                            }
                            unseen && !self.loader.strangers.contains(&node)
                        }
                        Holder::Worker(_) => false,
                    };
                    let run = lease.run;
                    self.leases.load(lease, entry, now);
                    if dead {
                        // Whatever the clock says: it may be running wild.
                        self.leases.end_at(run, Time::MIN);
                        self.event(Event::RescuedAtLoad);
                    }
                }
                if !more {
                    self.leases.loaded();
                    self.loader.stage = Stage::Holds;
                }
            }
            Page::Holds(holds) => {
                self.holds = holds.into_iter().collect();
                self.loader.stage = Stage::Flows;
            }
            Page::Flows(flows) => {
                self.loader.flows_after = flows.last().cloned().or(self.loader.flows_after.take());
                if flows.len() < self.sizes.page {
                    self.loader.flows_listed = true;
                }
                for flow in &flows {
                    self.flows.found(flow);
                }
                if self.loader.flows_listed {
                    self.flows.assume_more(false);
                }
                if self.loader.stage == Stage::Flows {
                    self.loader.stage = Stage::Queues;
                    self.go_live(now);
                }
            }
            _ => {}
        }
    }

    fn queues_read(&mut self, now: Time, page: Page) {
        let Page::Queues(queues) = page else { return };
        self.loader.queues_known = true;
        self.flows.pass(now);
        if !self.planted.is(Bug::ForgetLimits) {
            let rows = queues.into_iter().map(|(queue, row)| (queue, Some(row))).collect();
            // What runs is counted when all is known.
            self.flows.limit(rows, std::iter::empty());
        }
        self.go_live(now);
    }

    /// Everything that claims and decisions need has been loaded, if it has.
    fn go_live(&mut self, now: Time) {
        if self.loader.stage != Stage::Queues || !self.loader.queues_known {
            return;
        }
        self.flows.pass(now);
        if !self.planted.is(Bug::LoadForgetsRunning) {
            let leased: Vec<_> = self.leases.iter().map(|lease| lease.entry.flow).collect();
            self.flows.count_running(leased.into_iter());
        }
        self.loader.stage = Stage::Live;
        self.event(Event::Reloaded);
    }

    fn merge_wheel(&mut self, page: Page) {
        let Page::Due { rows, next } = page else { return };
        let Some(mut raise) = self.loader.raise.take() else { return };
        raise.read = None;
        raise.cursor = next;
        if self.touched.any(raise.since) {
            self.event(Event::PageWhileTouched);
        }
        if self.planted.is(Bug::HorizonAfterRead) {
            self.loader.kept_before = raise.before;
        }
        for row in rows {
            let Some((due, timed)) = self.timed(&row) else { continue };
            if !self.touched.is_touched(timed.key(), raise.since) {
                self.wait_for(due, timed);
            }
        }
        self.touched.end(raise.since);
        if next.is_some() {
            raise.since = self.touched.begin();
            raise.gate = self.wheel_gate();
            self.loader.raise = Some(raise);
        } else {
            self.loader.complete_before = raise.before;
        }
    }

    fn timed(&mut self, row: &Row) -> Option<(Time, Timed)> {
        let due = row.due()?;
        match row {
            // Its row stays as it was while it is claimed.
            Row::Run(row) if self.leases.contains(row.id) => None,
            Row::Run(row) if row.state == RunState::Ready => None,
            Row::Run(row) => Some((due, Timed::Run(self.entry_of(row)))),
            Row::Job(row) => Some((due, Timed::Row(WheelKey::Job(row.id), row.namespace))),
            Row::Backlog(row) => {
                // Backlogs of all namespaces take one turn together: they are never urgent.
                Some((due, Timed::Row(WheelKey::Backlog(row.id), Namespace(u32::MAX))))
            }
            _ => None,
        }
    }

    fn merge_flow(&mut self, page: FlowPage, answer: Page) {
        let Page::Runs(rows) = answer else { return };
        let complete = rows.len() < page.wanted.limit;
        let places = rows.iter().map(|row| (row.due, row.id)).collect();
        self.event(Event::PageMerged);
        if self.touched.any(page.since) {
            self.event(Event::PageWhileTouched);
        }
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            let touched = self.touched.is_touched(WheelKey::Run(row.id), page.since);
            if !touched && !self.leases.contains(row.id) {
                entries.push(self.entry_of(&row));
            }
        }
        self.touched.end(page.since);
        let forget = self.planted.is(Bug::FlowForgetsArrival);
        self.flows.merge(page.wanted.flow, entries, places, complete, forget);
    }
}

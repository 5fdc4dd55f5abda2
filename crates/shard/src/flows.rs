//! Ready runs, in flows.
//!
//! A flow is (queue, kind, priority, lane, group). Inside a flow runs start first in, first out, by
//! (due, id): an order that never changes, so it can be stored and paged. Memory holds the
//! **front** of each flow; if `more` is set, the rest is on disk, all of it behind `cursor`.
//!
//! Between flows of a queue: the highest priority first; inside a level the lanes by their shares,
//! inside a lane the groups in turn, for as many starts as their weight says. One start in `OLDEST_EVERY` goes to the run of the queue that
//! has waited longest, whatever its level, so a run starts at the latest when all that were ready
//! before it have gone at that fraction of the queue's rate.
//!
//! A page of a flow is read while runs arrive, are claimed and are cancelled. What arrives during
//! the read and belongs behind the front is set aside in `arrived`, because the page may or may not
//! contain it; the merge puts the two together. What was touched meanwhile is left out of the merge
//! by the caller (`load.rs`).
//!
//! A queue with limits (`limited.rs`) is asked before one of its runs is picked; a group at its limit
//! does not show its runs to those who pick.

mod level;
mod limited;
mod limiting;
mod pages;
mod turns;

use crate::entry::Entry;
use crate::limits::{FLOWS_MAX, READY_MAX, Sizes};
use crate::planted::{Bug, Planted};
pub use level::LevelChange;
pub use limited::Bucket;
use limited::Limited;
use model::{FlowKey, Lane, Namespace, RunId, Span, Text, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use turns::{Queue, choose};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u32);

#[derive(Debug, Default)]
pub struct Flows {
    flows: Vec<Option<Flow>>,
    ids: BTreeMap<FlowKey, FlowId>,
    free: Vec<FlowId>,
    queues: BTreeMap<(Namespace, Text), Queue>,
    /// Queues whose limits somebody set.
    limited: BTreeMap<(Namespace, Text), Limited>,
    level_changes: Vec<LevelChange>,
    /// The instant of the pass that is under way.
    now: Time,
    resident: usize,
    served: u64,
    /// Queues that got a ready run since they were last asked.
    woken: BTreeSet<(Namespace, Text)>,
    /// Runs in memory that expire: when, and where they stand.
    expiring: BTreeSet<(Time, FlowId, Time, RunId)>,
    /// Flows whose front is short while more is on disk.
    low: BTreeSet<FlowId>,
    /// Pages asked for and not merged.
    pages: usize,
    /// While the flows on disk have not all been listed, a flow that is new to memory may have
    /// older runs there.
    assume_more: bool,
    sizes: Sizes,
    collect_at: usize,
    planted: Planted,
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    front: VecDeque<Entry>,
    more: bool,
    cursor: Option<(Time, RunId)>,
    page: Option<PageUnderWay>,
    /// Stands in its lane's turn.
    listed: bool,
    /// The run that those who pick can see: the first, unless its group is at a limit.
    shown: Option<(Time, RunId)>,
    shut: bool,
    /// Starts in its turn, how many it has had in this one, and how many it had out of turn.
    weight: u32,
    turn: u32,
    owed: u32,
}

#[derive(Debug, Default)]
struct PageUnderWay {
    /// In order, at most a page of them: the first ones.
    arrived: Vec<Entry>,
    /// The first place of those that did not fit. The page may lack them, so nothing behind this
    /// is taken from it.
    overflow: Option<(Time, RunId)>,
}

/// A page of a flow that should be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPage {
    pub flow: FlowId,
    pub key: FlowKey,
    pub after: Option<(Time, RunId)>,
    pub limit: usize,
}

const COLLECT_FIRST: usize = 4_096;
const TICK: Span = Span::from_micros(1);

impl Flows {
    pub fn id(&mut self, key: &FlowKey) -> FlowId {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        let flow = Flow {
            key: key.clone(),
            front: VecDeque::new(),
            more: self.assume_more,
            cursor: None,
            page: None,
            listed: false,
            shown: None,
            shut: false,
            weight: 1,
            turn: 0,
            owed: 0,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.flows[id.0 as usize] = Some(flow);
                id
            }
            None => {
                self.flows.push(Some(flow));
                FlowId(self.flows.len() as u32 - 1)
            }
        };
        self.ids.insert(key.clone(), id);
        self.note_low(id);
        if !self.limited.is_empty() && !self.planted.is(Bug::NewFlowNotShut) {
            self.limit_flow(id);
        }
        id
    }

    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    pub fn set_planted(&mut self, planted: Planted) {
        self.planted = planted;
    }

    pub fn assume_more(&mut self, assume: bool) {
        self.assume_more = assume;
    }

    fn note_low(&mut self, id: FlowId) {
        let flow = self.flow(id);
        if flow.more && flow.page.is_none() && flow.front.len() < self.sizes.flow_low {
            self.low.insert(id);
        }
    }

    /// The same flow in another lane.
    pub fn in_lane(&mut self, id: FlowId, lane: Lane) -> FlowId {
        let mut key = self.key(id).clone();
        key.lane = lane;
        self.id(&key)
    }

    pub fn key(&self, id: FlowId) -> &FlowKey {
        &self.flow(id).key
    }

    fn flow(&self, id: FlowId) -> &Flow {
        match self.flows.get(id.0 as usize) {
            Some(Some(flow)) => flow,
            // Ids are only made by `id` and only collected when nothing holds them.
            _ => unreachable!("flow {id:?} was collected while in use"),
        }
    }

    fn flow_mut(&mut self, id: FlowId) -> &mut Flow {
        match self.flows.get_mut(id.0 as usize) {
            Some(Some(flow)) => flow,
            _ => unreachable!("flow {id:?} was collected while in use"),
        }
    }

    /// Would `push` keep this run in memory?
    pub fn keeps(&self, entry: &Entry) -> bool {
        let flow = self.flow(entry.flow);
        let full = flow.front.len() >= self.sizes.flow_front || self.resident >= READY_MAX;
        let end = match flow.more {
            true => flow.cursor,
            false if full => flow.front.back().map(Entry::place),
            false => return true,
        };
        end.is_some_and(|end| entry.place() <= end)
    }

    /// A run became ready. False if it was left to the disk, where its row must say "ready".
    pub fn push(&mut self, entry: Entry) -> bool {
        let full = self.resident >= READY_MAX;
        let sizes = self.sizes;
        let flow = self.flow_mut(entry.flow);
        let queue = (flow.key.namespace, flow.key.queue.clone());
        let place = entry.place();
        let in_front = flow.cursor.is_some_and(|cursor| place <= cursor);
        if !flow.more && (flow.front.len() >= sizes.flow_front || full) {
            // The first that does not fit: from here on this flow continues on disk.
            flow.more = true;
            flow.cursor = flow.front.back().map(Entry::place);
        }
        let in_front = in_front || flow.cursor.is_some_and(|cursor| place <= cursor);
        if flow.more && !in_front {
            if let Some(page) = &mut flow.page {
                let at = page.arrived.partition_point(|other| other.place() < place);
                page.arrived.insert(at, entry);
                if page.arrived.len() > sizes.page {
                    let out = page.arrived.pop().map(|entry| entry.place());
                    page.overflow = page.overflow.min(out).or(out);
                }
            }
            self.note_low(entry.flow);
            return false;
        }
        self.insert(entry);
        self.woken.insert(queue);
        true
    }

    /// A run of the front, to be changed in place (never its place).
    pub fn get_mut(&mut self, id: FlowId, place: (Time, RunId)) -> Option<&mut Entry> {
        let flow = self.flow_mut(id);
        let at = flow.front.partition_point(|other| other.place() < place);
        flow.front.get_mut(at).filter(|entry| entry.id == place.1)
    }

    fn insert(&mut self, entry: Entry) {
        let flow = self.flow_mut(entry.flow);
        let place = entry.place();
        let at = match flow.front.back() {
            Some(last) if last.place() >= place => {
                flow.front.partition_point(|other| other.place() < place)
            }
            _ => flow.front.len(),
        };
        if flow.front.get(at).is_some_and(|other| other.id == entry.id) {
            return;
        }
        flow.front.insert(at, entry);
        self.resident += 1;
        if entry.expires() < Time::MAX {
            self.expiring.insert((entry.expires(), entry.flow, entry.due, entry.id));
        }
        if at == 0 {
            self.refresh(entry.flow);
        }
    }

    /// Keeps the line's view of a flow: which run heads it, and whether it stands in its lane.
    fn refresh(&mut self, id: FlowId) {
        let flow = self.flow_mut(id);
        let old = flow.shown;
        let new = flow.front.front().filter(|_| !flow.shut).map(Entry::place);
        let list = new.is_some() && !flow.listed;
        if new == old && !list {
            return;
        }
        flow.shown = new;
        flow.listed |= list;
        let key = flow.key.clone();
        let lane = key.lane as usize;
        let line = self
            .queues
            .entry((key.namespace, key.queue))
            .or_default()
            .lines
            .entry(key.kind)
            .or_default();
        if let Some((due, run)) = old {
            line.heads.remove(&(due, run, id));
        }
        if let Some((due, run)) = new {
            line.heads.insert((due, run, id));
        }
        let level = &mut line.levels[usize::from(key.priority.min(9))];
        match (old.is_some(), new.is_some()) {
            (false, true) => level.ready[lane] += 1,
            (true, false) => level.ready[lane] -= 1,
            _ => {}
        }
        if list {
            level.turns[lane].push_back(id);
        }
    }

    /// Takes a run that is not to start any more out of the front, wherever it stands.
    pub fn remove(&mut self, id: FlowId, place: (Time, RunId)) -> Option<Entry> {
        let flow = self.flow_mut(id);
        if let Some(page) = &mut flow.page {
            page.arrived.retain(|entry| entry.id != place.1);
        }
        let at = flow.front.partition_point(|other| other.place() < place);
        if flow.front.get(at).is_none_or(|entry| entry.id != place.1) {
            return None;
        }
        let entry = flow.front.remove(at);
        self.resident -= 1;
        self.left(entry.as_ref());
        if at == 0 {
            self.refresh(id);
        }
        self.note_low(id);
        entry
    }

    /// The next run to start for a claimer of these queues and kinds, taken out.
    pub fn take(
        &mut self,
        namespace: Namespace,
        queues: &[Text],
        kinds: Option<&[Text]>,
        held: impl Fn(Namespace, &Text) -> bool,
    ) -> Option<Entry> {
        for queue in queues {
            if held(namespace, queue) {
                continue;
            }
            let key = (namespace, queue.clone());
            if !self.is_open(&key) {
                continue;
            }
            let flows = &mut self.flows;
            let Some(flow) = self.queues.get_mut(&key).and_then(|q| choose(q, flows, kinds)) else {
                continue;
            };
            self.served += 1;
            let served = self.served;
            return self.pop(flow, served);
        }
        None
    }

    fn pop(&mut self, id: FlowId, served: u64) -> Option<Entry> {
        let flow = self.flow_mut(id);
        let entry = flow.front.pop_front()?;
        let key = flow.key.clone();
        self.resident -= 1;
        self.left(Some(&entry));
        self.refresh(id);
        self.note_low(id);
        if let Some(line) = self
            .queues
            .get_mut(&(key.namespace, key.queue))
            .and_then(|q| q.lines.get_mut(&key.kind))
        {
            line.served = served;
        }
        Some(entry)
    }

    /// A run stands in no front any more.
    fn left(&mut self, entry: Option<&Entry>) {
        if let Some(entry) = entry.filter(|entry| entry.expires() < Time::MAX) {
            self.expiring.remove(&(entry.expires(), entry.flow, entry.due, entry.id));
        }
    }

    /// A run whose time is over, taken out.
    pub fn expired(&mut self, now: Time) -> Option<Entry> {
        let (_, flow, due, run) = self.expiring.first().copied().filter(|(at, ..)| *at <= now)?;
        self.remove(flow, (due, run))
    }

    pub fn next_expiry(&self) -> Option<Time> {
        self.expiring.first().map(|(at, ..)| *at)
    }

    /// Is nothing of this queue ready, is all of this flow in memory, and does nothing limit its starts?
    pub fn is_idle(&self, id: FlowId, queue: &(Namespace, Text)) -> bool {
        let flow = self.flow(id);
        let shows = |q: &Queue| q.lines.values().any(|line| !line.heads.is_empty());
        !flow.more
            && flow.page.is_none()
            && flow.front.is_empty()
            && !self.limited.contains_key(queue)
            && !self.queues.get(queue).is_some_and(shows)
    }

    /// Has this queue something that could start?
    pub fn has_ready(&mut self, queue: &(Namespace, Text)) -> bool {
        let shows = |q: &Queue| q.lines.values().any(|line| !line.heads.is_empty());
        self.queues.get(queue).is_some_and(shows) && self.is_open(queue)
    }

    pub fn take_woken(&mut self) -> BTreeSet<(Namespace, Text)> {
        std::mem::take(&mut self.woken)
    }

    /// Whoever waits for this queue was not served yet.
    pub fn wake(&mut self, queue: (Namespace, Text)) {
        self.woken.insert(queue);
    }

    pub fn wake_all(&mut self) {
        self.woken.extend(self.queues.keys().cloned());
    }

    pub fn resident(&self) -> usize {
        self.resident
    }

    /// How many flows could be loaded on top of those in memory.
    pub fn room_for_flows(&self) -> usize {
        FLOWS_MAX.saturating_sub(self.ids.len())
    }

    pub fn wants_collection(&self) -> bool {
        self.ids.len() > self.collect_at.max(COLLECT_FIRST)
    }

    /// Forgets flows that hold nothing and that no entry elsewhere names.
    pub fn collect(&mut self, used: &BTreeSet<FlowId>) {
        for (at, slot) in self.flows.iter_mut().enumerate() {
            let id = FlowId(at as u32);
            let idle = slot.as_ref().is_some_and(|flow| {
                flow.front.is_empty() && !flow.more && flow.page.is_none() && !used.contains(&id)
            });
            if idle && let Some(flow) = slot.take() {
                self.ids.remove(&flow.key);
                self.free.push(id);
                let queue = (flow.key.namespace, flow.key.queue.clone());
                if let Some(limited) = self.limited.get_mut(&queue) {
                    limited.remove_flow(flow.key.group.as_ref(), id);
                }
                if flow.listed
                    && let Some(line) = self
                        .queues
                        .get_mut(&(flow.key.namespace, flow.key.queue.clone()))
                        .and_then(|q| q.lines.get_mut(&flow.key.kind))
                {
                    let level = usize::from(flow.key.priority.min(9));
                    line.levels[level].turns[flow.key.lane as usize].retain(|f| *f != id);
                }
            }
        }
        self.queues.retain(|_, queue| {
            queue.lines.retain(|_, line| {
                line.levels.iter().any(|l| l.turns.iter().any(|turn| !turn.is_empty()))
            });
            !queue.lines.is_empty()
        });
        self.collect_at = self.ids.len() * 2;
    }

    /// What waits, flow by flow: how many are in memory, whether more is on disk, and since when the
    /// first one waits.
    pub fn waiting(&self) -> impl Iterator<Item = (&FlowKey, usize, bool, Option<Time>)> {
        self.flows.iter().flatten().filter(|flow| !flow.front.is_empty() || flow.more).map(|flow| {
            (&flow.key, flow.front.len(), flow.more, flow.front.front().map(|entry| entry.due))
        })
    }

    /// Entries in memory, for marking what is in use and for recounts.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.flows.iter().flatten().flat_map(|flow| {
            flow.front.iter().chain(flow.page.iter().flat_map(|page| page.arrived.iter()))
        })
    }
}

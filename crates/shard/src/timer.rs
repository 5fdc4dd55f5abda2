//! The near horizon: what is due soon, in order, and what is due now, in fair slices.
//!
//! The far future lies in the store, on a wheel of buckets. `load.rs` brings it here ahead of its
//! time. A tick costs what is due, never what is registered.
//!
//! What has fallen due moves to the due set, from which slices are taken in turn over namespaces
//! and then over flows: a herd of a hundred thousand delays nobody else's single run.

use crate::entry::Entry;
use model::read::WheelKey;
use model::{Namespace, RunId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// A thing that waits for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    Run(Entry),
    /// A recurring job or a backlog row: its state is in its row, which is read when it fires.
    Row(WheelKey, Namespace),
}

impl Timed {
    pub fn key(&self) -> WheelKey {
        match self {
            Timed::Run(entry) => WheelKey::Run(entry.id),
            Timed::Row(key, _) => *key,
        }
    }
}

#[derive(Debug, Default)]
pub struct Timer {
    waiting: BTreeMap<(Time, WheelKey), Timed>,
    due: BTreeMap<Namespace, DueOfNamespace>,
    turns: VecDeque<Namespace>,
    due_count: usize,
    /// Due, and put off for a while. Not among what waits: it would stand there for an instant that
    /// the wheel on disk does not know, and what is forgotten there is read again by its own.
    postponed: Vec<Timed>,
}

#[derive(Debug, Default)]
struct DueOfNamespace {
    /// By flow; jobs and backlog rows share one. Keyed like what waits, so that a row that a page
    /// brings again is in here once.
    flows: BTreeMap<u32, BTreeMap<(Time, WheelKey), Timed>>,
    turns: VecDeque<u32>,
}

const ROWS: u32 = u32::MAX;

impl Timer {
    pub fn len(&self) -> usize {
        self.waiting.len() + self.due_count + self.postponed.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits for an instant up to this one, in order.
    pub fn upcoming(&self, until: Time) -> impl Iterator<Item = (Time, &Timed)> {
        let all = self.waiting.iter().take_while(move |((at, _), _)| *at <= until);
        all.map(|((at, _), timed)| (*at, timed))
    }

    /// When the first thing falls due that waits for an instant after this one.
    pub fn next_after(&self, until: Time) -> Option<Time> {
        let behind = (until.plus(TICK), WheelKey::Run(RunId::first_of(ZERO_JOB)));
        self.waiting.range(behind..).next().map(|((at, _), _)| at.ceil_millis())
    }

    /// Is something due that was not taken yet?
    pub fn has_due(&self) -> bool {
        self.due_count > 0
    }

    pub fn put(&mut self, at: Time, timed: Timed) {
        self.waiting.insert((at, timed.key()), timed);
    }

    /// When something falls due next; at once if something is due already.
    pub fn next(&self) -> Option<Time> {
        if self.due_count > 0 {
            return Some(Time::MIN);
        }
        self.waiting.first_key_value().map(|((at, _), _)| at.ceil_millis())
    }

    /// Moves what is due at `now` to the due set.
    pub fn advance(&mut self, now: Time, flow_namespace: impl Fn(&Entry) -> Namespace) {
        while let Some(first) = self.waiting.first_entry() {
            // Timers round up to the millisecond: late by less than one, never early.
            if first.key().0.ceil_millis() > now {
                break;
            }
            let (place, timed) = first.remove_entry();
            let (namespace, flow) = match &timed {
                Timed::Run(entry) => (flow_namespace(entry), entry.flow.0),
                Timed::Row(_, namespace) => (*namespace, ROWS),
            };
            self.fall_due(place, timed, namespace, flow);
        }
    }

    fn fall_due(&mut self, place: (Time, WheelKey), timed: Timed, namespace: Namespace, flow: u32) {
        let of = self.due.entry(namespace).or_insert_with(|| {
            self.turns.push_back(namespace);
            DueOfNamespace::default()
        });
        let queue = of.flows.entry(flow).or_insert_with(|| {
            of.turns.push_back(flow);
            BTreeMap::new()
        });
        self.due_count += usize::from(queue.insert(place, timed).is_none());
    }

    /// A row is to be looked at in the next pass, whatever it is due.
    pub fn put_due(&mut self, now: Time, key: WheelKey, namespace: Namespace) {
        self.fall_due((now, key), Timed::Row(key, namespace), namespace, ROWS);
    }

    /// It was due, and is not decided now.
    pub fn postpone(&mut self, timed: Timed) {
        self.postponed.push(timed);
    }

    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// What was postponed is due again.
    pub fn resume(&mut self, now: Time) {
        for timed in std::mem::take(&mut self.postponed) {
            match timed {
                Timed::Row(key, namespace) => self.put_due(now, key, namespace),
                Timed::Run(entry) => self.put(entry.due, timed),
            }
        }
    }

    /// The next due thing, namespaces in turn, then flows in turn.
    pub fn pop_due(&mut self) -> Option<Timed> {
        let namespace = self.turns.pop_front()?;
        let of = self.due.get_mut(&namespace)?;
        let flow = of.turns.pop_front()?;
        let queue = of.flows.get_mut(&flow)?;
        let (_, timed) = queue.pop_first()?;
        self.due_count -= 1;
        if queue.is_empty() {
            of.flows.remove(&flow);
        } else {
            of.turns.push_back(flow);
        }
        if of.turns.is_empty() {
            self.due.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        Some(timed)
    }

    /// Takes a thing out, whether it waits or is due.
    pub fn remove(&mut self, at: Time, key: WheelKey) -> bool {
        if self.waiting.remove(&(at, key)).is_some() {
            return true;
        }
        for (namespace, of) in &mut self.due {
            for (flow, queue) in &mut of.flows {
                if queue.remove(&(at, key)).is_none() {
                    continue;
                }
                self.due_count -= 1;
                if queue.is_empty() {
                    let (namespace, flow) = (*namespace, *flow);
                    self.forget(namespace, flow);
                }
                return true;
            }
        }
        false
    }

    fn forget(&mut self, namespace: Namespace, flow: u32) {
        let Some(of) = self.due.get_mut(&namespace) else { return };
        of.flows.remove(&flow);
        of.turns.retain(|f| *f != flow);
        if of.turns.is_empty() {
            self.due.remove(&namespace);
            self.turns.retain(|n| *n != namespace);
        }
    }

    /// Drops the later half of what waits and returns where memory now ends: everything due
    /// before that instant is still here.
    pub fn lower(&mut self) -> Option<Time> {
        let middle = self.waiting.keys().nth(self.waiting.len() / 2)?.0;
        self.waiting.split_off(&(middle, WheelKey::Run(RunId::first_of(ZERO_JOB))));
        Some(middle)
    }

    /// Drops what waits for this instant or a later one.
    pub fn cut(&mut self, at: Time) {
        self.waiting.split_off(&(at, WheelKey::Run(RunId::first_of(ZERO_JOB))));
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let due = self.due.values().flat_map(|of| of.flows.values().flat_map(BTreeMap::values));
        self.waiting.values().chain(due).filter_map(|timed| match timed {
            Timed::Run(entry) => Some(entry),
            Timed::Row(..) => None,
        })
    }
}

const TICK: Span = Span::from_micros(1);

/// Sorts before every key of its instant.
const ZERO_JOB: model::JobId = model::JobId::from_bits(0, 0);

//! Which shards something happened to. A node holds up to 256, and most inputs concern one of them:
//! asking all of them for commits, reads, outputs and their next instant after every input costs
//! more than deciding. What a shard wants changes only when it is told something or asked something,
//! so it is enough to ask those that were stirred; a sweep now and then asks all, for what depends on
//! a clock that ran wild.

use super::Host;
use crate::limits::SWEEP_EVERY;
use model::id::SHARDS;
use model::{ShardId, Span, Time};
use std::collections::BTreeSet;

const WORDS: usize = (SHARDS as usize).div_ceil(64);

/// A set of shards, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks([u64; WORDS]);

impl Marks {
    pub fn insert(&mut self, shard: ShardId) {
        if let Some(word) = self.0.get_mut(usize::from(shard.0) / 64) {
            *word |= 1 << (shard.0 % 64);
        }
    }

    pub fn remove(&mut self, shard: ShardId) {
        if let Some(word) = self.0.get_mut(usize::from(shard.0) / 64) {
            *word &= !(1 << (shard.0 % 64));
        }
    }

    pub fn set(&mut self, shard: ShardId, to: bool) {
        if to { self.insert(shard) } else { self.remove(shard) }
    }

    pub fn add(&mut self, other: Marks) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn iter(self) -> impl Iterator<Item = ShardId> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(index, word)| {
            let bits = (0..64_u16).filter(move |bit| (word >> bit) & 1 == 1);
            bits.map(move |bit| ShardId(index as u16 * 64 + bit))
        })
    }
}

/// What is remembered of the shards so that not all of them are asked.
#[derive(Debug, Default)]
pub(super) struct Stirred {
    /// Told something since they were last asked.
    pub now: Marks,
    /// May have a batch that waits for the commit lane.
    pub to_commit: Marks,
    /// Fenced, or in need of a new epoch.
    pub wishes: Marks,
    pub live: Marks,
    /// When each wants its next tick, by the store's clock; and the same by shard.
    ticks: BTreeSet<(Time, ShardId)>,
    tick_of: Vec<Option<Time>>,
    /// Local time of the last tick of all.
    swept: Time,
}

impl Stirred {
    pub fn next_tick(&self) -> Option<Time> {
        self.ticks.first().map(|(at, _)| *at)
    }

    fn set_tick(&mut self, shard: ShardId, tick: Option<Time>) {
        let place = usize::from(shard.0);
        if self.tick_of.len() <= place {
            self.tick_of.resize(place + 1, None);
        }
        let was = std::mem::replace(&mut self.tick_of[place], tick);
        if was == tick {
            return;
        }
        if let Some(was) = was {
            self.ticks.remove(&(was, shard));
        }
        if let Some(tick) = tick {
            self.ticks.insert((tick, shard));
        }
    }

    pub fn forget(&mut self, shard: ShardId) {
        self.set_tick(shard, None);
        for marks in [&mut self.now, &mut self.to_commit, &mut self.wishes, &mut self.live] {
            marks.remove(shard);
        }
    }
}

impl Host {
    pub(super) fn stir_all(&mut self) {
        self.shards.keys().for_each(|shard| self.stirred.now.insert(*shard));
    }

    /// Shards that have loaded what they need.
    pub fn live(&self) -> usize {
        self.stirred.live.len()
    }

    /// Shards that this node holds.
    pub fn held(&self) -> usize {
        self.shards.len()
    }

    /// Time has passed for those that waited for it; now and then for all.
    pub(super) fn tick_shards(&mut self, local: Time, now: Time) {
        let since = local.since(self.stirred.swept);
        if since >= SWEEP_EVERY || since < Span::ZERO {
            self.stirred.swept = local;
            self.shards.values_mut().for_each(|shard| shard.handle_tick(now));
            self.stir_all();
            return;
        }
        let due = self.stirred.ticks.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<ShardId> = due.map(|(_, shard)| *shard).collect();
        for id in due {
            if let Some(shard) = self.shards.get_mut(&id) {
                shard.handle_tick(now);
                self.stirred.now.insert(id);
            }
        }
    }

    /// How these stand after they were asked for everything.
    pub(super) fn note_standing(&mut self, asked: Marks) {
        for id in asked.iter() {
            if let Some(shard) = self.shards.get(&id) {
                let (live, tick) = (shard.is_live(), shard.next_tick());
                self.stirred.live.set(id, live);
                self.stirred.set_tick(id, tick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_a_set_in_order() {
        let mut marks = Marks::default();
        for shard in [255, 0, 63, 64, 0] {
            marks.insert(ShardId(shard));
        }
        marks.remove(ShardId(63));
        marks.remove(ShardId(7));
        assert_eq!(marks.iter().collect::<Vec<_>>(), [0, 64, 255].map(ShardId));
        assert_eq!((marks.len(), marks.is_empty()), (3, false));
    }

    #[test]
    fn the_earliest_tick_is_the_next_whatever_was_before() {
        let mut stirred = Stirred::default();
        stirred.set_tick(ShardId(3), Some(Time::from_secs(5)));
        stirred.set_tick(ShardId(9), Some(Time::from_secs(2)));
        assert_eq!(stirred.next_tick(), Some(Time::from_secs(2)));
        stirred.set_tick(ShardId(9), Some(Time::from_secs(7)));
        assert_eq!(stirred.next_tick(), Some(Time::from_secs(5)));
        stirred.forget(ShardId(3));
        assert_eq!(stirred.next_tick(), Some(Time::from_secs(7)));
        stirred.set_tick(ShardId(9), None);
        assert_eq!(stirred.next_tick(), None);
    }
}

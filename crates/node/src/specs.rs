//! What runs shall do, kept for the moment between their submission and their first attempt, so that
//! most attempts begin without a read. A definition (run, version) never changes once it is durable,
//! so what is kept cannot grow old; it is taken from commits that are durable, not from those on
//! their way. Bounded in count and in bytes; what does not fit is read from the store as before. Those that
//! came first stay, because they run first: in a backlog that grows, a newcomer that drove out the
//! oldest would drive out the very next one to be asked for.

use crate::limits::{SPEC_BYTES_MAX, SPECS_KEPT, SPECS_KEPT_BYTES, SPECS_NEAR};
use model::row::{Change, Commit, Key, Row};
use model::{RunId, Span, Spec, Time};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Specs(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    specs: HashMap<RunId, (u32, Arc<Spec>)>,
    /// In the order they came, and when; some have gone since.
    order: VecDeque<(Time, RunId)>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, now: Time, run: RunId, version: u32, spec: &Arc<Spec>) {
        self.forget(run);
        let size = spec.payload.len();
        while self.specs.len() >= SPECS_KEPT || self.bytes + size > SPECS_KEPT_BYTES {
            let Some((since, oldest)) = self.order.front().copied() else { return };
            // What is held or waits for a worker for so long leaves its place to others.
            let age = now.since(since);
            let stays = age >= Span::ZERO && age <= SPECS_NEAR.times(2);
            if stays && self.specs.contains_key(&oldest) {
                return;
            }
            self.order.pop_front();
            self.forget(oldest);
        }
        self.bytes += size;
        self.specs.insert(run, (version, spec.clone()));
        self.order.push_back((now, run));
    }

    fn forget(&mut self, run: RunId) {
        if let Some((_, spec)) = self.specs.remove(&run) {
            self.bytes -= spec.payload.len();
        }
    }
}

impl Specs {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These commits are durable.
    pub fn durable<'a>(&self, commits: impl Iterator<Item = &'a Commit>) {
        let mut kept = self.kept();
        for commit in commits {
            for change in commit.changes.iter() {
                let Change { key: Key::Run(run), row, .. } = change else { continue };
                match row {
                    Some(Row::Run(row)) => {
                        let near = row.due <= commit.decided.plus(SPECS_NEAR);
                        let fits = |spec: &&Arc<Spec>| spec.payload.len() <= SPEC_BYTES_MAX;
                        if let Some(spec) = row.body.as_ref().filter(fits).filter(|_| near) {
                            kept.keep(commit.decided, *run, row.version, spec);
                        }
                    }
                    _ => kept.forget(*run),
                }
            }
        }
        // Most of what is told leaves again by its end; the order is cut back to what is there.
        if kept.order.len() > 2 * kept.specs.len() + SPECS_KEPT / 4 {
            let Kept { specs, order, .. } = &mut *kept;
            order.retain(|(_, run)| specs.contains_key(run));
        }
    }

    /// Those that are kept; the others are `None`.
    pub fn get(&self, runs: &[(RunId, u32)]) -> Vec<Option<Arc<Spec>>> {
        let kept = self.kept();
        let found = |(run, version): &(RunId, u32)| {
            let (known, spec) = kept.specs.get(run)?;
            (known == version).then(|| spec.clone())
        };
        runs.iter().map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::row::{Expect, RunRow};
    use model::{Cause, Epoch, FlowKey, JobId, Lane, Namespace, Policy, RunState, ShardId};
    use model::{Slot, Target, Text};

    fn run(number: u64) -> RunId {
        let at = Time::from_secs(1_806_000_000);
        // An id keeps only some of its random bits.
        let bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        RunId::new(JobId::mint(at, Slot::from_bits(7), bits), Cause::OneOff)
    }

    fn spec(payload: usize) -> Arc<Spec> {
        Arc::new(Spec {
            namespace: Namespace(1),
            name: None,
            owner: None,
            tags: Vec::new(),
            schedule: model::ScheduleSpec::new(model::When::Now),
            target: Target::Worker { kind: Text::from("k") },
            payload: model::Bytes::from(vec![0; payload]),
            content_type: Text::from("application/json"),
            queue: Text::from("q"),
            group: None,
            priority: 5,
            policy: Policy::default(),
            overlap: model::Overlap::QueueOne,
            catch_up: model::CatchUp::Once,
            permanent: None,
            within: model::Within::default(),
            request_id: None,
            api_key: None,
            origin: model::Origin::default(),
        })
    }

    fn put(run: RunId, version: u32, due: i64, body: Option<Arc<Spec>>) -> Change {
        let row = RunRow {
            id: run,
            rev: 1,
            state: RunState::Ready,
            due: Time::from_secs(due),
            nominal: Time::from_secs(due),
            flow: FlowKey {
                namespace: Namespace(1),
                queue: Text::from("q"),
                kind: Text::from("k"),
                priority: 5,
                lane: Lane::Fresh,
                group: None,
            },
            version,
            attempts: 0,
            retries: 0,
            lost: 0,
            replays: 0,
            policy: Policy::default(),
            checkpoint: 0,
            fresh: false,
            start_by: None,
            finish_by: None,
            body,
        };
        Change { key: Key::Run(run), expect: Expect::Absent, row: Some(Row::Run(row)) }
    }

    fn commit(changes: Vec<Change>) -> Commit {
        commit_at(100, changes)
    }

    fn commit_at(decided: i64, changes: Vec<Change>) -> Commit {
        Commit {
            shard: ShardId(0),
            epoch: Epoch(1),
            seq: 1,
            decided: Time::from_secs(decided),
            changes: Arc::new(changes),
            floor: None,
            starts: model::row::Starts::default(),
        }
    }

    #[test]
    fn what_was_made_is_known_until_it_ends_and_only_in_its_version() {
        let specs = Specs::default();
        let one = spec(10);
        let changes = vec![put(run(1), 1, 100, Some(one.clone())), put(run(2), 1, 100, None)];
        specs.durable([commit(changes)].iter());
        let found = specs.get(&[(run(1), 1), (run(1), 2), (run(2), 1)]);
        assert_eq!(found, [Some(one), None, None]);
        // Changed: another version, another definition.
        let two = spec(20);
        specs.durable([commit(vec![put(run(1), 2, 100, Some(two.clone()))])].iter());
        assert_eq!(specs.get(&[(run(1), 1), (run(1), 2)]), [None, Some(two)]);
        // A claim writes the row without its definition: that is no change of it.
        specs.durable([commit(vec![put(run(1), 2, 100, None)])].iter());
        assert!(specs.get(&[(run(1), 2)])[0].is_some());
        let end = Change { key: Key::Run(run(1)), expect: Expect::Rev(1), row: None };
        specs.durable([commit(vec![end])].iter());
        assert_eq!(specs.get(&[(run(1), 2)]), [None]);
        assert_eq!(specs.kept().bytes, 0);
    }

    #[test]
    fn what_is_far_away_or_large_is_left_to_the_store_and_nothing_grows() {
        let specs = Specs::default();
        let far = 100 + SPECS_NEAR.micros() / 1_000_000 + 1;
        let large = Some(spec(SPEC_BYTES_MAX + 1));
        let changes = vec![put(run(1), 1, far, Some(spec(1))), put(run(2), 1, 100, large)];
        specs.durable([commit(changes)].iter());
        assert_eq!(specs.get(&[(run(1), 1), (run(2), 1)]), [None, None]);
        let body = spec(SPEC_BYTES_MAX);
        for number in 0..2 * SPECS_KEPT as u64 {
            let change = put(run(number), 1, 100, Some(body.clone()));
            specs.durable([commit(vec![change])].iter());
        }
        let kept = specs.kept();
        assert!(kept.bytes <= SPECS_KEPT_BYTES && kept.specs.len() <= SPECS_KEPT);
        assert!(kept.order.len() <= SPECS_KEPT);
    }

    #[test]
    fn who_came_first_is_known_until_it_has_waited_too_long() {
        let specs = Specs::default();
        let (body, all) = (spec(1), 2 * SPECS_KEPT as u64);
        let puts = |decided: i64, numbers: std::ops::Range<u64>| {
            let put = |number| put(run(number), 1, decided, Some(body.clone()));
            specs.durable([commit_at(decided, numbers.map(put).collect())].iter());
        };
        let knows = |number| specs.get(&[(run(number), 1)])[0].is_some();
        puts(100, 0..all);
        assert!(knows(0) && knows(all / 2 - 1) && !knows(all / 2) && !knows(all - 1));
        // One ends: there is room for one.
        let end = Change { key: Key::Run(run(7)), expect: Expect::Rev(1), row: None };
        specs.durable([commit(vec![end])].iter());
        puts(101, all..all + 2);
        assert!(!knows(7) && knows(all) && !knows(all + 1));
        // Nobody wants the others: those who come find room. So they do if the clock was set back.
        let later = 100 + 3 * SPECS_NEAR.micros() / 1_000_000;
        puts(later, all + 2..all + 3);
        assert!(knows(all + 2) && !knows(0) && knows(1));
        puts(50, all + 3..all + 4);
        assert!(knows(all + 3) && !knows(1) && knows(2));
    }
}

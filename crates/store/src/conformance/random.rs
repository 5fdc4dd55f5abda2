//! Random commands against the naive store. The universe is small on purpose: two shards, three
//! jobs, few keys, so that commands meet.

use super::TestStore;
use super::desk::runs;
use super::naive::Naive;
use super::sample::{self, job_id};
use crate::Store;
use model::cluster::{Give, Renew, Take};
use model::id::{NodeId, ShardId};
use model::read::{Page, Read};
use model::row::{BacklogRow, Change, Commit, Expect, Key, Row, Scope};
use model::{
    Cause, Epoch, FlowKey, JobId, Lane, Namespace, RunId, RunState, Span, Status, Time, Token,
};

const STEPS: u32 = 1_500;
pub const SEEDS: u64 = 8;
const SHARDS: [ShardId; 2] = [ShardId(3), ShardId(200)];
const MINUTE: i64 = 60;
/// Never a sum of the steps in which time passes, so that a clock that runs by itself does not
/// decide whether a lease has expired.
const TTL: Span = Span::from_secs(45 * MINUTE + 30);

/// Runs so many seeds, or the one that `DULY_SEED` names.
pub fn random_commands(make: &dyn Fn() -> Box<dyn TestStore>, seeds: u64) {
    let given = std::env::var("DULY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = given.map_or(1..=seeds, |seed| seed..=seed);
    for seed in seeds {
        println!("DULY_SEED={seed}");
        let store = make();
        let mut test = Random::new(&*store, seed);
        for _ in 0..STEPS {
            test.step();
        }
    }
}

struct Random<'a> {
    store: &'a dyn TestStore,
    naive: Naive,
    start: Time,
    state: u64,
}

impl<'a> Random<'a> {
    fn new(store: &'a dyn TestStore, seed: u64) -> Random<'a> {
        let mut naive = Naive::new(&SHARDS);
        naive.now = store.commit(&[]).expect("the store answers").now;
        Random { store, start: naive.now, naive, state: model::hash::mix(seed + 1) }
    }

    /// A number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        model::hash::mix(self.state) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    fn step(&mut self) {
        match self.below(20) {
            0 => self.pass_time(),
            1 => self.renew(),
            2 | 3 => self.take(),
            4 => self.give(),
            5 => self.store.rotate().expect("the store answers"),
            6..=12 => self.commit(),
            _ => self.read(),
        }
    }

    fn pass_time(&mut self) {
        let span = Span::from_secs(self.pick(&[1, 60, 50 * MINUTE]));
        // A day after the first key was written the tables may turn.
        if self.naive.now.plus(span).since(self.start) < Span::from_secs(23 * 3_600) {
            self.store.advance(span);
        }
        self.naive.now = self.store.commit(&[]).expect("the store answers").now;
    }

    fn node(&mut self) -> NodeId {
        NodeId { node: self.below(3) as u32, boot: 1 }
    }

    fn epoch_of(&mut self, shard: ShardId) -> Epoch {
        let epoch = self.naive.shard(shard).epoch;
        let near = [epoch.0.saturating_sub(1), epoch.0 + 1, epoch.0 + 2];
        if self.one_in(8) { Epoch(self.pick(&near)) } else { epoch }
    }

    fn renew(&mut self) {
        let renew = Renew { node: self.node(), ttl: TTL };
        let cluster = self.store.renew(renew).expect("the store answers");
        self.naive.now = cluster.now;
        self.naive.renew(renew, cluster.now);
        let alive = |nodes: &[model::cluster::NodeLease]| {
            let mut nodes: Vec<_> =
                nodes.iter().filter(|lease| lease.expires > cluster.now).cloned().collect();
            nodes.sort_by_key(|lease| lease.node);
            nodes
        };
        assert_eq!(alive(&cluster.nodes), alive(&self.naive.nodes));
        for shard in &self.naive.shards {
            let row = cluster.shards[usize::from(shard.id.0)];
            assert_eq!(
                (row.owner, row.epoch, row.seq),
                (shard.owner, shard.epoch, shard.seq),
                "{:?}",
                shard.id
            );
        }
    }

    fn take(&mut self) {
        let shard = self.pick(&SHARDS);
        let (node, epoch) = (self.node(), self.epoch_of(shard));
        let take = Take { shard, node, epoch, by: self.below(3) as u32 };
        assert_eq!(self.store.take(&[take]), Ok(vec![self.naive.take(take)]), "{take:?}");
    }

    fn give(&mut self) {
        let shard = self.pick(&SHARDS);
        let (node, to, epoch) = (self.node(), self.node(), self.epoch_of(shard));
        let give = Give { shard, node, epoch, to };
        assert_eq!(self.store.give(&[give]), Ok(vec![self.naive.give(give)]), "{give:?}");
    }

    fn commit(&mut self) {
        let mut commits = Vec::new();
        for shard in SHARDS {
            if self.one_in(2) {
                continue;
            }
            let epoch = self.epoch_of(shard);
            let seq = self.naive.shard(shard).seq + if self.one_in(12) { self.below(4) } else { 1 };
            let changes = self.changes(shard);
            let floor = if self.one_in(4) { Some(self.time()) } else { None };
            commits.push(Commit {
                shard,
                epoch,
                seq,
                decided: Time::MIN,
                changes: changes.into(),
                floor,
                starts: model::row::Starts::default(),
            });
        }
        let committed = self.store.commit(&commits).expect("the store answers");
        self.naive.now = committed.now;
        for (commit, outcome) in commits.iter().zip(committed.outcomes) {
            assert_eq!(outcome, self.naive.shard(commit.shard).commit(commit), "{commit:?}");
        }
    }

    /// Changes that mostly fit each other and what is there.
    fn changes(&mut self, shard: ShardId) -> Vec<Change> {
        let mut scratch = self.naive.shard(shard).clone();
        let mut changes = Vec::new();
        for _ in 0..self.below(7) {
            let key = self.key(shard);
            let there = scratch.row(&key).map(|row| row.rev());
            let expect = match there {
                _ if self.one_in(30) => Expect::Rev(self.below(4) as u32),
                _ if self.one_in(40) => Expect::Absent,
                None => Expect::Absent,
                Some(rev) => Expect::Rev(rev),
            };
            let kept = there.is_none() || self.one_in(2);
            let row = if kept { Some(self.row(&key, there.unwrap_or(0) + 1)) } else { None };
            let change = Change { key, expect, row };
            scratch.change(&change);
            changes.push(change);
        }
        changes
    }

    /// A whole second near the clock: dues meet, and lie on both sides of every bound.
    fn time(&mut self) -> Time {
        let base = Time::from_secs(self.naive.now.secs());
        let spread = self.pick(&[10, 7_200, 6 * 3_600]);
        base.plus(Span::from_secs(self.below(spread * 3 / 2) as i64 - spread as i64 / 2))
    }

    /// One of few nominal instants, so that rows share them.
    fn nominal(&mut self) -> Time {
        Time::from_secs(1_700_000_000 + 100 * self.below(6) as i64)
    }

    fn job(&mut self, shard: ShardId) -> JobId {
        job_id(shard, self.below(3))
    }

    fn run_id(&mut self, shard: ShardId) -> RunId {
        let job = self.job(shard);
        let cause = match self.below(6) {
            0 => Cause::OneOff,
            1 | 2 => Cause::Occurrence(self.nominal()),
            3 => Cause::Trigger(self.below(2)),
            4 => {
                let (operation, second) = (self.below(2) as u16, self.nominal().secs());
                Cause::Backfill { operation, second }
            }
            _ => Cause::Rerun(self.below(2) as u32),
        };
        RunId::new(job, cause)
    }

    fn flow(&mut self) -> FlowKey {
        let (queue, group) = (self.pick(&["", "a", "b"]), self.pick(&[None, Some(""), Some("g")]));
        let (priority, lane) = (self.pick(&[0, 9]), self.pick(&Lane::ALL));
        sample::flow(queue, priority, lane, group)
    }

    fn key(&mut self, shard: ShardId) -> Key {
        match self.below(14) {
            0..=3 => Key::Run(self.run_id(shard)),
            4 => Key::Lease(self.run_id(shard)),
            5 => Key::Job(self.job(shard)),
            6 => Key::Spec(self.job(shard), self.below(2) as u32 + 3),
            7 => {
                let (job, due) = (self.job(shard), self.time());
                Key::Backlog(sample::backlog(job, self.below(2) as u16, due).id)
            }
            8 => Key::Idempotency(sample::key(self.pick(&["", "k", "K"]))),
            9 => Key::Checkpoint(self.run_id(shard)),
            10 => {
                let queue = Scope::Queue(Namespace(7), self.pick(&["", "a"]).into());
                Key::Hold(self.pick(&[Scope::All, Scope::Namespace(Namespace(7)), queue]))
            }
            11 => Key::Queue(Namespace(7), self.pick(&["", "a"]).into()),
            _ => Key::History(self.run_id(shard), Token(self.below(6))),
        }
    }

    fn row(&mut self, key: &Key, rev: u32) -> Row {
        const STATES: [RunState; 5] = [
            RunState::Scheduled,
            RunState::Ready,
            RunState::Ready,
            RunState::Blocked,
            RunState::Retrying,
        ];
        const STATUSES: [Status; 4] =
            [Status::Succeeded, Status::Failed, Status::Missed, Status::SkippedOverlap];
        match key {
            Key::Run(id) => {
                let mut row = sample::run(*id, self.pick(&STATES), self.time());
                (row.rev, row.flow, row.nominal) = (rev, self.flow(), self.nominal());
                row.body =
                    if self.one_in(3) { Some(sample::spec(&[self.below(9) as u8])) } else { None };
                Row::Run(row)
            }
            Key::Lease(id) => {
                let mut row = sample::lease(*id, self.below(9) as u32, self.time());
                row.rev = rev;
                Row::Lease(row)
            }
            Key::Job(id) => {
                let due = if self.one_in(3) { None } else { Some(self.time()) };
                let mut row = sample::job(*id, due);
                row.rev = rev;
                Row::Job(row)
            }
            Key::Spec(..) => Row::Spec(sample::spec(&[self.below(9) as u8])),
            Key::Backlog(id) => {
                let row = sample::backlog(id.job, 0, self.time());
                Row::Backlog(BacklogRow { id: *id, rev, ..row })
            }
            Key::Idempotency(key) => {
                let number = u64::from(key.key.len() as u32);
                Row::Idempotency(sample::key_row(job_id(SHARDS[0], number)))
            }
            Key::Checkpoint(_) => Row::Checkpoint(sample::checkpoint(rev, &[self.below(9) as u8])),
            Key::Hold(_) => Row::Hold(sample::hold(self.pick(&["", "why"]))),
            Key::Queue(..) => Row::Queue(sample::queue(rev)),
            Key::History(run, token) => {
                // An attempt ends once, and on one day: a store may keep days and failures apart.
                let seconds = (model::hash::mix(token.0) % 7) as i64 * 86_400;
                let finished = Time::from_secs(1_700_000_000 + seconds);
                // One token is that of a note, and nothing else is written under it.
                let status = match *token {
                    Token::DELAYED => Status::Delayed,
                    token => STATUSES[((token.0 + 1) % 4) as usize],
                };
                let mut row = sample::history(*run, 0, self.nominal(), status);
                (row.token, row.finished) = (*token, finished);
                row.until = if self.one_in(3) { Some(self.nominal()) } else { None };
                Row::History(Box::new(row))
            }
        }
    }

    fn read(&mut self) {
        let shard = self.pick(&SHARDS);
        let limit = self.pick(&[1, 2, 3, 7, 50]);
        match self.below(9) {
            0 => {
                let keys: Vec<Key> = (0..8).map(|_| self.key(shard)).collect();
                let naive = self.naive.shard(shard);
                let rows = keys.iter().map(|key| naive.row(key)).collect();
                assert_eq!(self.page(shard, Read::Rows(keys)), Page::Rows(rows));
            }
            1 | 2 => self.read_due(shard, limit),
            3 => {
                let flow = self.flow();
                let after =
                    if self.one_in(2) { Some((self.time(), self.run_id(shard))) } else { None };
                let expected = self.naive.shard(shard).flow(&flow, after, limit);
                assert_eq!(runs(self.page(shard, Read::Flow { flow, after, limit })), expected);
            }
            4 => {
                let after = if self.one_in(2) { Some(self.flow()) } else { None };
                let expected = self.naive.shard(shard).flows(after.as_ref(), limit);
                assert_eq!(self.page(shard, Read::Flows { after, limit }), Page::Flows(expected));
            }
            5 => {
                let after = if self.one_in(2) { Some(self.run_id(shard)) } else { None };
                let expected = self.naive.shard(shard).leases(after, limit);
                assert_eq!(self.page(shard, Read::Leases { after, limit }), Page::Leases(expected));
                let Page::Holds(mut holds) = self.page(shard, Read::Holds) else {
                    panic!("not holds")
                };
                holds.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(holds, self.naive.shard(shard).holds());
                let Page::Queues(mut queues) = self.page(shard, Read::Queues) else {
                    panic!("not queues")
                };
                queues.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(queues, self.naive.shard(shard).queues());
            }
            6 => {
                let job = self.job(shard);
                let after = if self.one_in(2) { Some(self.run_id(shard)) } else { None };
                let after = after.filter(|after| after.job == job);
                let expected = self.naive.shard(shard).runs_of(job, after, limit);
                assert_eq!(runs(self.page(shard, Read::RunsOf { job, after, limit })), expected);
            }
            7 => {
                let (job, after, until) = (self.job(shard), self.nominal(), self.nominal());
                let expected = self.naive.shard(shard).outcomes(job, after, until, limit);
                let page = self.page(shard, Read::Outcomes { job, after, until, limit });
                assert_eq!(page, Page::Outcomes(expected));
            }
            _ => {
                let wanted = (self.run_id(shard), self.below(3) as u32 + 3);
                let expected = self.naive.shard(shard).spec(wanted.0, wanted.1);
                assert_eq!(self.store.specs(&[wanted]), Ok(vec![expected]));
            }
        }
    }

    fn read_due(&mut self, shard: ShardId, limit: usize) {
        let (from, before) = (self.time(), self.time());
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let read = Read::Due { from, before, after, limit };
            let Page::Due { rows, next } = self.page(shard, read) else { panic!("not the wheel") };
            assert!(rows.len() <= limit && (next.is_none() || next > after));
            found.extend(rows);
            after = next;
            if next.is_none() {
                break;
            }
        }
        let key_of = |row: &Row| match row {
            Row::Run(row) => Key::Run(row.id),
            Row::Job(row) => Key::Job(row.id),
            Row::Backlog(row) => Key::Backlog(row.id),
            row => panic!("{row:?} cannot be on the wheel"),
        };
        let mut found: Vec<(Key, Row)> = found.into_iter().map(|row| (key_of(&row), row)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found, self.naive.shard(shard).due(from, before));
    }

    fn page(&self, shard: ShardId, read: Read) -> Page {
        let store: &dyn Store = self.store;
        store.read(&[(shard, read)]).expect("the store answers").remove(0)
    }
}

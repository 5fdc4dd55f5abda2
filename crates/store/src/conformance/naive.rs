//! The slowest store: a list of rows, searched from end to end. Written to be seen to be right, and
//! apart from every other store, so that the two can be compared.
//!
//! It knows no buckets and no pages: it says which rows a scan of the wheel returns, not in which
//! pages. It keeps keys for ever; the random test ends before any may be forgotten.

use crate::Outcome as Committed;
use model::cluster::{Give, NodeLease, Renew, Take, Taken};
use model::id::{NodeId, ShardId};
use model::job::Spec;
use model::read::Outcome;
use model::row::{
    Change, Commit, Expect, HistoryRow, HoldRow, Key, LeaseRow, Row, RunRow, Scope, Starts,
};
use model::{
    Cause, Epoch, FlowKey, JobId, Namespace, QueueRow, RunId, RunState, Status, Text, Time, Token,
};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Naive {
    /// The store's clock as it was last heard.
    pub now: Time,
    pub nodes: Vec<NodeLease>,
    pub shards: Vec<NaiveShard>,
}

#[derive(Clone, Debug)]
pub struct NaiveShard {
    pub id: ShardId,
    pub owner: Option<NodeId>,
    pub epoch: Epoch,
    pub seq: u64,
    pub floor: Time,
    pub rows: Vec<(Key, Row)>,
}

impl Naive {
    pub fn new(shards: &[ShardId]) -> Naive {
        let shard = |id: &ShardId| NaiveShard {
            id: *id,
            owner: None,
            epoch: Epoch(0),
            seq: 0,
            floor: Time::MIN,
            rows: Vec::new(),
        };
        Naive { shards: shards.iter().map(shard).collect(), ..Naive::default() }
    }

    pub fn shard(&mut self, id: ShardId) -> &mut NaiveShard {
        self.shards.iter_mut().find(|shard| shard.id == id).expect("a shard of this test")
    }

    pub fn renew(&mut self, renew: Renew, now: Time) {
        self.nodes.retain(|lease| lease.node != renew.node);
        self.nodes.push(NodeLease::new(renew.node, now.plus(renew.ttl)));
    }

    pub fn take(&mut self, take: Take) -> Option<Taken> {
        let now = self.now;
        let alive: Vec<NodeId> =
            self.nodes.iter().filter(|lease| lease.expires > now).map(|lease| lease.node).collect();
        let shard = self.shard(take.shard);
        let held = shard.owner.is_some_and(|owner| owner != take.node && alive.contains(&owner));
        if held || shard.epoch != take.epoch || take.by == 0 {
            return None;
        }
        shard.owner = Some(take.node);
        shard.epoch = Epoch(shard.epoch.0 + take.by);
        let (seq, floor, starts) = (shard.seq, shard.floor, Starts::default());
        Some(Taken { shard: shard.id, epoch: shard.epoch, seq, floor, starts })
    }

    pub fn give(&mut self, give: Give) -> bool {
        let shard = self.shard(give.shard);
        let may = shard.owner == Some(give.node) && shard.epoch == give.epoch;
        if may {
            shard.owner = Some(give.to);
            shard.epoch = Epoch(shard.epoch.0 + 1);
        }
        may
    }
}

impl NaiveShard {
    pub fn commit(&mut self, commit: &Commit) -> Committed {
        if commit.epoch != self.epoch {
            return Committed::Fenced;
        }
        if commit.seq != self.seq + 1 {
            return Committed::Gap { last: self.seq };
        }
        let mut after = self.clone();
        for (index, change) in commit.changes.iter().enumerate() {
            if !after.change(change) {
                return Committed::Row { index };
            }
        }
        after.seq = commit.seq;
        if let Some(floor) = commit.floor {
            after.floor = floor;
        }
        *self = after;
        Committed::Durable
    }

    /// Makes one change, if what it expects is there.
    pub fn change(&mut self, change: &Change) -> bool {
        let found = self.rows.iter().position(|(key, _)| *key == change.key);
        let met = match (change.expect, found) {
            (Expect::Absent, None) => true,
            (Expect::Rev(rev), Some(at)) => self.rows[at].1.rev() == rev,
            _ => false,
        };
        if !met || !crate::fits(change) {
            return false;
        }
        let old = found.map(|at| self.rows.remove(at).1);
        let Some(mut row) = change.row.clone() else { return true };
        if let (Row::Run(new), Some(Row::Run(old))) = (&mut row, old)
            && new.body.is_none()
        {
            new.body = old.body;
        }
        self.rows.push((change.key.clone(), row));
        true
    }

    fn stored(&self, key: &Key) -> Option<&Row> {
        self.rows.iter().find(|(other, _)| other == key).map(|(_, row)| row)
    }

    pub fn row(&self, key: &Key) -> Option<Row> {
        self.stored(key).cloned().map(without_body)
    }

    pub fn spec(&self, run: RunId, version: u32) -> Option<Arc<Spec>> {
        if let Some(Row::Run(RunRow { body: Some(body), .. })) = self.stored(&Key::Run(run)) {
            return Some(body.clone());
        }
        match self.stored(&Key::Spec(run.job, version)) {
            Some(Row::Spec(spec)) => Some(spec.clone()),
            _ => None,
        }
    }

    /// By key.
    pub fn due(&self, from: Time, before: Time) -> Vec<(Key, Row)> {
        let mut rows: Vec<(Key, Row)> = self
            .rows
            .iter()
            .filter(|(_, row)| row.due().is_some_and(|due| due >= from && due < before))
            .map(|(key, row)| (key.clone(), without_body(row.clone())))
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }

    fn runs(&self) -> impl Iterator<Item = RunRow> {
        self.rows.iter().filter_map(|(_, row)| match row {
            Row::Run(run) => Some(RunRow { body: None, ..run.clone() }),
            _ => None,
        })
    }

    pub fn flow(&self, flow: &FlowKey, after: Option<(Time, RunId)>, limit: usize) -> Vec<RunRow> {
        let mut runs: Vec<RunRow> = self
            .runs()
            .filter(|run| run.state == RunState::Ready && run.flow == *flow)
            .filter(|run| after.is_none_or(|after| (run.due, run.id) > after))
            .collect();
        runs.sort_by_key(|run| (run.due, run.id));
        runs.truncate(limit);
        runs
    }

    pub fn flows(&self, after: Option<&FlowKey>, limit: usize) -> Vec<FlowKey> {
        let ready = self.runs().filter(|run| run.state == RunState::Ready);
        let mut flows: Vec<FlowKey> = ready.map(|run| run.flow).collect();
        flows.sort();
        flows.dedup();
        flows.retain(|flow| after.is_none_or(|after| flow > after));
        flows.truncate(limit);
        flows
    }

    pub fn leases(&self, after: Option<RunId>, limit: usize) -> Vec<(LeaseRow, RunRow)> {
        let mut runs: Vec<RunRow> =
            self.runs().filter(|run| after.is_none_or(|after| run.id > after)).collect();
        runs.sort_by_key(|run| run.id);
        let leases = runs.into_iter().filter_map(|run| match self.stored(&Key::Lease(run.id)) {
            Some(Row::Lease(lease)) => Some((lease.clone(), run)),
            _ => None,
        });
        leases.take(limit).collect()
    }

    pub fn queues(&self) -> Vec<((Namespace, Text), QueueRow)> {
        let queues = self.rows.iter().filter_map(|(key, row)| match (key, row) {
            (Key::Queue(namespace, queue), Row::Queue(row)) => {
                Some(((*namespace, queue.clone()), row.clone()))
            }
            _ => None,
        });
        let mut queues: Vec<_> = queues.collect();
        queues.sort_by(|a, b| a.0.cmp(&b.0));
        queues
    }

    pub fn holds(&self) -> Vec<(Scope, HoldRow)> {
        let holds = self.rows.iter().filter_map(|(key, row)| match (key, row) {
            (Key::Hold(scope), Row::Hold(hold)) => Some((scope.clone(), hold.clone())),
            _ => None,
        });
        let mut holds: Vec<_> = holds.collect();
        holds.sort_by(|a, b| a.0.cmp(&b.0));
        holds
    }

    pub fn runs_of(&self, job: JobId, after: Option<RunId>, limit: usize) -> Vec<RunRow> {
        let mut runs: Vec<RunRow> = self
            .runs()
            .filter(|run| run.id.job == job && after.is_none_or(|after| run.id > after))
            .collect();
        runs.sort_by_key(|run| run.id);
        runs.truncate(limit);
        runs
    }

    pub fn outcomes(&self, job: JobId, after: Time, until: Time, limit: usize) -> Vec<Outcome> {
        let of_schedule =
            |id: RunId| id.job == job && !matches!(id.cause(), Cause::OneOff | Cause::Trigger(_));
        let live: Vec<RunRow> = self.runs().filter(|run| of_schedule(run.id)).collect();
        let past: Vec<&HistoryRow> = self
            .rows
            .iter()
            .filter_map(|(_, row)| if let Row::History(row) = row { Some(&**row) } else { None })
            .filter(|row| of_schedule(row.run))
            .collect();
        let end = |row: &HistoryRow| row.until.unwrap_or(row.nominal).max(row.nominal);
        let mut places: Vec<(Time, Time)> =
            past.iter().map(|row| (row.nominal, end(row))).collect();
        places.extend(live.iter().map(|run| (run.nominal, run.nominal)));
        places.sort();
        places.dedup();
        // Overlaps `(after, until]`.
        places.retain(|(first, last)| *last > after && *first <= until && after < until);
        places.truncate(limit);
        let outcome = |(nominal, until)| {
            // A note that a fire was put off says nothing about what became of the instant.
            let told = past.iter().filter(|row| row.token != Token::DELAYED);
            let here: Vec<&&HistoryRow> =
                told.filter(|row| (row.nominal, end(row)) == (nominal, until)).collect();
            let alive = live.iter().any(|run| (run.nominal, run.nominal) == (nominal, until));
            let last = here.iter().max_by_key(|row| (row.finished, row.token, row.run));
            Outcome {
                nominal,
                until,
                ran: alive || here.iter().any(|row| !row.status.is_verdict_only()),
                succeeded: last.is_some_and(|row| row.status == Status::Succeeded),
                live: alive,
            }
        };
        places.into_iter().map(outcome).collect()
    }
}

fn without_body(row: Row) -> Row {
    match row {
        Row::Run(run) => Row::Run(RunRow { body: None, ..run }),
        row => row,
    }
}

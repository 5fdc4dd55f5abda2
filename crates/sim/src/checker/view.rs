//! The log and the dump, indexed once for all checks, and what a lost tail forgives.

use super::CheckSettings;
use crate::log::{Log, Op, SettleSeen, Start};
use model::row::{
    BacklogId, BacklogRow, CheckpointRow, HistoryRow, JobRow, Key, LeaseRow, Row, RunRow, Scope,
};
use model::{Cause, Epoch, JobId, Policy, RunId, ShardId, Spec, Status, Time, Token};
use shard::command::{Answer, Command, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::memory::Dump;

/// A spec that a client sent, and the version it got where that is known.
type SentSpec<'a> = (Option<u32>, &'a Arc<Spec>);

#[derive(Debug)]
pub(crate) struct View<'a> {
    pub log: &'a Log,
    pub dump: &'a Dump,
    pub settings: &'a CheckSettings,
    pub runs: BTreeMap<RunId, &'a RunRow>,
    pub leases: BTreeMap<RunId, &'a LeaseRow>,
    pub jobs: BTreeMap<JobId, &'a JobRow>,
    pub specs: BTreeMap<(JobId, u32), &'a Arc<Spec>>,
    pub backlogs: BTreeMap<BacklogId, &'a BacklogRow>,
    pub checkpoints: BTreeMap<RunId, &'a CheckpointRow>,
    /// Scopes held in a shard.
    pub holds: BTreeSet<(ShardId, Scope)>,
    /// What became of runs, by token; the row of one that ended without an attempt is first.
    pub history: BTreeMap<RunId, Vec<&'a HistoryRow>>,
    /// Verdicts over ranges of instants.
    pub ranges: BTreeMap<JobId, Vec<&'a HistoryRow>>,
    /// By token.
    pub starts: BTreeMap<RunId, Vec<&'a Start>>,
    pub settles: BTreeMap<(RunId, Token), Vec<&'a SettleSeen>>,
    /// Every spec that was sent for a job.
    pub sent_specs: BTreeMap<JobId, Vec<SentSpec<'a>>>,
    pub deleted: BTreeSet<JobId>,
    pub loss: Loss,
}

impl<'a> View<'a> {
    pub fn new(log: &'a Log, dump: &'a Dump, settings: &'a CheckSettings) -> View<'a> {
        let mut view = View {
            log,
            dump,
            settings,
            runs: BTreeMap::new(),
            leases: BTreeMap::new(),
            jobs: BTreeMap::new(),
            specs: BTreeMap::new(),
            backlogs: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            holds: BTreeSet::new(),
            history: BTreeMap::new(),
            ranges: BTreeMap::new(),
            starts: BTreeMap::new(),
            settles: BTreeMap::new(),
            sent_specs: BTreeMap::new(),
            deleted: BTreeSet::new(),
            loss: Loss::default(),
        };
        view.index_dump();
        view.index_log();
        view.loss = Loss::new(&view);
        view
    }

    fn index_dump(&mut self) {
        for shard in &self.dump.shards {
            for (key, row) in &shard.rows {
                match (key, row) {
                    (Key::Run(id), Row::Run(row)) => drop(self.runs.insert(*id, row)),
                    (Key::Lease(id), Row::Lease(row)) => drop(self.leases.insert(*id, row)),
                    (Key::Job(id), Row::Job(row)) => drop(self.jobs.insert(*id, row)),
                    (Key::Spec(id, version), Row::Spec(spec)) => {
                        self.specs.insert((*id, *version), spec);
                    }
                    (Key::Backlog(id), Row::Backlog(row)) => drop(self.backlogs.insert(*id, row)),
                    (Key::Checkpoint(id), Row::Checkpoint(row)) => {
                        self.checkpoints.insert(*id, row);
                    }
                    (Key::Hold(scope), _) => {
                        self.holds.insert((shard.row.shard, scope.clone()));
                    }
                    _ => {}
                }
            }
            // That a run came late is a note beside it, and no attempt.
            let rows = shard.history.iter().filter(|row| row.status != Status::Delayed);
            for row in rows {
                match row.until {
                    Some(_) => self.ranges.entry(row.run.job).or_default().push(row),
                    None => self.history.entry(row.run).or_default().push(row),
                }
            }
        }
        self.history.values_mut().for_each(|rows| rows.sort_by_key(|row| row.token));
    }

    fn index_log(&mut self) {
        for start in &self.log.starts {
            self.starts.entry(start.run).or_default().push(start);
        }
        self.starts.values_mut().for_each(|starts| starts.sort_by_key(|start| start.token));
        for settle in &self.log.settles {
            self.settles.entry((settle.run, settle.token)).or_default().push(settle);
        }
        for op in &self.log.ops {
            match &op.command {
                Command::Submit(jobs) => {
                    for job in jobs {
                        self.sent_specs.entry(job.id).or_default().push((Some(1), &job.spec));
                    }
                }
                Command::Update { job, spec, .. } => {
                    let version = match heard(op) {
                        Some(Answer::Job(_, version)) => Some(*version),
                        _ => None,
                    };
                    self.sent_specs.entry(*job).or_default().push((version, spec));
                }
                Command::DeleteJob(job) => drop(self.deleted.insert(*job)),
                _ => {}
            }
        }
    }

    /// Attempts of a run that ended, oldest first.
    pub fn attempts(&self, run: RunId) -> impl Iterator<Item = &'a HistoryRow> + '_ {
        let rows = self.history.get(&run).map(Vec::as_slice).unwrap_or_default();
        rows.iter().copied().filter(|row| row.token != Token::NONE)
    }

    /// The row of one ended attempt.
    pub fn attempt(&self, run: RunId, token: Token) -> Option<&'a HistoryRow> {
        self.attempts(run).find(|row| row.token == token)
    }

    /// Is there any trace of this run?
    pub fn has_run(&self, run: RunId) -> bool {
        self.runs.contains_key(&run) || self.history.contains_key(&run)
    }

    /// Is there any trace of this job or of its one-off run?
    pub fn has_job(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job) || self.has_run(RunId::new(job, Cause::OneOff))
    }

    /// The spec of a version, if the store or a client still knows it. After a lost tail two
    /// updates may have been told the same version, so then only the store is asked.
    pub fn spec(&self, run: RunId, version: u32) -> Option<&'a Spec> {
        if let Some(spec) = self.specs.get(&(run.job, version)) {
            return Some(spec);
        }
        if let Some(row) = self.runs.get(&run).filter(|row| row.version == version)
            && let Some(spec) = &row.body
        {
            return Some(spec);
        }
        if self.loss.happened() {
            return None;
        }
        let sent = self.sent_specs.get(&run.job)?;
        sent.iter().find(|(known, _)| *known == Some(version)).map(|(_, spec)| &***spec)
    }

    pub fn policy(&self, run: RunId, version: u32) -> Option<&'a Policy> {
        match self.runs.get(&run) {
            Some(row) if row.version == version => Some(&row.policy),
            _ => self.spec(run, version).map(|spec| &spec.policy),
        }
    }

    /// Every spec that the job may have had.
    pub fn specs_of(&self, job: JobId) -> impl Iterator<Item = &'a Spec> + '_ {
        let sent = self.sent_specs.get(&job).map(Vec::as_slice).unwrap_or_default();
        let stored = self.specs.range((job, 0)..=(job, u32::MAX)).map(|(_, spec)| &***spec);
        sent.iter().map(|(_, spec)| &***spec).chain(stored)
    }
}

/// The answer a client heard.
pub(crate) fn heard(op: &Op) -> Option<&Answer> {
    op.heard.as_ref().map(|(_, answer)| answer)
}

/// May this command have been done? False only after a definite refusal.
pub(crate) fn may_be_done(op: &Op) -> bool {
    match heard(op) {
        Some(Answer::Refused(refused)) => *refused == Refused::Unknown,
        _ => true,
    }
}

/// What the store forgot. When an asynchronous replica is promoted, commits that were acknowledged
/// are gone, and with them the truth of what was answered. No scheduler can keep promises that its
/// store breaks; it can notice, and never give a token twice. So what clients were told before the
/// last loss is not held against the store, nor what was done under tokens of epochs before the
/// jump that follows it. Everything the store says about itself, token reuse, early starts and
/// liveness are judged as strictly as ever.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// When answers can be trusted again.
    over: Option<Time>,
    times: Vec<Time>,
    /// The first epoch of each shard that is certainly later than the last loss.
    safe: BTreeMap<ShardId, Epoch>,
}

impl Loss {
    fn new(view: &View<'_>) -> Loss {
        let Some(last) = view.log.tail_lost.iter().max() else { return Loss::default() };
        let over = Some(last.plus(view.settings.loss_grace));
        let times = view.log.tail_lost.clone();
        if !view.log.lost_epochs.is_empty() {
            // Who took a shard after the loss did so in a later epoch. (An owner that died of the
            // same trouble found no gap, and then nobody jumps.)
            let after = |(shard, epoch): (&ShardId, &Epoch)| (*shard, Epoch(epoch.0 + 1));
            return Loss { over, times, safe: view.log.lost_epochs.iter().map(after).collect() };
        }
        let mut epochs: BTreeMap<ShardId, BTreeSet<Epoch>> = BTreeMap::new();
        for shard in &view.dump.shards {
            epochs.entry(shard.row.shard).or_default().extend([Epoch(0), shard.row.epoch]);
        }
        let tokens = view.history.iter().flat_map(|(run, rows)| {
            rows.iter().filter(|row| row.token != Token::NONE).map(|row| (*run, row.token))
        });
        let leased = view.leases.iter().map(|(run, lease)| (*run, lease.token));
        let started = view.log.starts.iter().map(|start| (start.run, start.token));
        let settled = view.settles.keys().copied();
        for (run, token) in tokens.chain(leased).chain(started).chain(settled) {
            epochs.entry(run.job.shard()).or_default().insert(token.epoch());
        }
        let safe = epochs
            .into_iter()
            .filter_map(|(shard, epochs)| {
                let epochs: Vec<Epoch> = epochs.into_iter().collect();
                // Owners change by ones; only a jump leaves half its length between two epochs.
                let jump = epochs.windows(2).rfind(|two| two[1].0 - two[0].0 >= Epoch::JUMP / 2)?;
                Some((shard, jump[1]))
            })
            .collect();
        Loss { over, times, safe }
    }

    pub fn happened(&self) -> bool {
        self.over.is_some()
    }

    /// May what was asked at this time have been forgotten?
    pub fn forgives(&self, sent: Time) -> bool {
        self.over.is_some_and(|over| sent <= over)
    }

    /// May an attempt with this token have been forgotten?
    pub fn forgives_token(&self, run: RunId, token: Token) -> bool {
        let safe = self.safe.get(&run.job.shard());
        self.happened() && safe.is_none_or(|safe| token.epoch() < *safe)
    }

    /// The first loss after this time.
    pub fn after(&self, time: Time) -> Option<Time> {
        self.times.iter().copied().filter(|at| *at >= time).min()
    }
}

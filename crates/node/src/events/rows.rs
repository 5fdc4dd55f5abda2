//! From the rows that a commit changed to what happened. A change does not carry the row it
//! replaces, so a little is remembered of each job that passed: where it belongs and how it stood.
//! Whatever the core decides about, it has read or written before, and both pass the driver.

use crate::limits::JOBS_KNOWN_MAX;
use model::read::Page;
use model::row::{BacklogId, Change, Commit, Expect, HistoryRow, Holder, JobRow, JobState};
use model::row::{Key, Row, RunRow, Scope};
use model::{Cause, JobId, Namespace, RunId, RunState, Status, Text, Time, Token};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
pub struct Happened {
    pub seq: u64,
    /// When it was decided, by the store's clock.
    pub at: Time,
    pub what: What,
    /// None only where the job is so old that nothing is remembered of it.
    pub namespace: Option<Namespace>,
    pub queue: Option<Text>,
    pub job: Option<JobId>,
    pub run: Option<RunId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    JobCreated,
    JobUpdated {
        version: u32,
    },
    JobPaused {
        reason: Text,
        until: Option<Time>,
    },
    JobResumed,
    JobEnded,
    JobCancelled,
    JobRemoved,
    RunScheduled {
        due: Time,
    },
    RunBlocked,
    RunReady,
    RunStarted {
        attempt: u16,
        token: Token,
        worker: Option<Text>,
    },
    RunStopping,
    AttemptEnded(Ended),
    /// Instants that made no run.
    Skipped {
        status: Status,
        from: Time,
        until: Time,
        count: u64,
    },
    Held {
        scope: Scope,
        reason: Text,
        until: Option<Time>,
    },
    Released {
        scope: Scope,
    },
    Operation {
        id: BacklogId,
        done: u64,
        total: u64,
    },
    OperationOver {
        id: BacklogId,
    },
    /// An operation over many runs.
    Bulk {
        id: Text,
        done: u64,
        total: Option<u64>,
        over: bool,
    },
    /// Something may have happened here that nobody can tell.
    Gap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Status,
    pub after: RunState,
    pub attempt: u16,
    pub code: Option<u16>,
    pub error: Option<Text>,
    pub next: Option<Time>,
}

impl What {
    /// The event's type in the public contract.
    pub fn name(&self) -> &'static str {
        match self {
            What::JobCreated => "job.created",
            What::JobUpdated { .. } => "job.updated",
            What::JobPaused { .. } => "job.paused",
            What::JobResumed => "job.resumed",
            What::JobEnded => "job.ended",
            What::JobCancelled => "job.cancelled",
            What::JobRemoved => "job.removed",
            What::RunScheduled { .. } => "run.scheduled",
            What::RunBlocked => "run.blocked",
            What::RunReady => "run.ready",
            What::RunStarted { .. } => "run.started",
            What::RunStopping => "run.stopping",
            What::AttemptEnded(ended) => match ended.after {
                RunState::Succeeded => "run.succeeded",
                RunState::Failed => "run.failed",
                RunState::Cancelled => "run.cancelled",
                RunState::Expired => "run.expired",
                RunState::Dead => "run.dead",
                RunState::Retrying => "run.retrying",
                _ => "run.handed_back",
            },
            What::Skipped { .. } => "occurrence.skipped",
            What::Held { .. } => "hold.set",
            What::Released { .. } => "hold.released",
            What::Operation { .. } => "operation.progress",
            What::OperationOver { .. } => "operation.over",
            What::Bulk { over: false, .. } => "operation.progress",
            What::Bulk { .. } => "operation.over",
            What::Gap => "gap",
        }
    }
}

impl Happened {
    pub fn gap(at: Time) -> Happened {
        Happened { seq: 0, at, what: What::Gap, namespace: None, queue: None, job: None, run: None }
    }

    /// The run has ended, or waits for a person.
    pub fn is_end(&self) -> bool {
        match &self.what {
            What::AttemptEnded(ended) => ended.after.is_final() || ended.after == RunState::Dead,
            _ => false,
        }
    }
}

/// What is remembered of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    place: Option<u32>,
    state: Option<JobState>,
    version: u32,
}

#[derive(Debug, Default)]
pub struct Known {
    jobs: BTreeMap<JobId, Job>,
    order: VecDeque<JobId>,
    /// Namespaces and queues, each once.
    places: Vec<(Namespace, Text)>,
    place_ids: BTreeMap<(Namespace, Text), u32>,
}

impl Known {
    pub fn pages(&mut self, pages: &[Page]) {
        for page in pages {
            match page {
                Page::Rows(rows) => rows.iter().flatten().for_each(|row| self.row(row)),
                Page::Due { rows, .. } => rows.iter().for_each(|row| self.row(row)),
                Page::Runs(runs) => runs.iter().for_each(|run| self.run(run)),
                Page::Leases(leases) => leases.iter().for_each(|(_, run)| self.run(run)),
                Page::Flows(_) | Page::Holds(_) | Page::Spec(_) | Page::Outcomes(_) => {}
            }
        }
    }

    fn row(&mut self, row: &Row) {
        match row {
            Row::Run(run) => self.run(run),
            Row::Job(job) => {
                let known = self.entry(job.id);
                (known.state, known.version) = (Some(job.state), job.version);
            }
            _ => {}
        }
    }

    fn run(&mut self, run: &RunRow) {
        self.place(run.id.job, run.flow.namespace, &run.flow.queue);
    }

    fn entry(&mut self, id: JobId) -> &mut Job {
        if !self.jobs.contains_key(&id) {
            if self.order.len() >= JOBS_KNOWN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.jobs.remove(&oldest);
            }
            self.order.push_back(id);
        }
        self.jobs.entry(id).or_default()
    }

    fn place(&mut self, job: JobId, namespace: Namespace, queue: &Text) {
        let key = (namespace, queue.clone());
        let id = match self.place_ids.get(&key) {
            Some(id) => *id,
            // Queues are few; past the bound the place of a job is looked up by who needs it.
            None if self.places.len() >= JOBS_KNOWN_MAX => return,
            None => {
                let id = self.places.len() as u32;
                self.places.push(key.clone());
                self.place_ids.insert(key, id);
                id
            }
        };
        self.entry(job).place = Some(id);
    }

    /// What a durable commit means.
    pub fn commit(&mut self, commit: &Commit) -> Vec<Happened> {
        // A new job's spec says where it belongs, whatever the order of the changes.
        for change in commit.changes.iter() {
            match (&change.key, &change.row) {
                (Key::Spec(job, _), Some(Row::Spec(spec))) => {
                    self.place(*job, spec.namespace, &spec.queue);
                }
                (_, Some(Row::Run(run))) => self.run(run),
                _ => {}
            }
        }
        let mut told = Vec::new();
        for change in commit.changes.iter() {
            self.change(change, commit, &mut told);
        }
        told
    }

    fn change(&mut self, change: &Change, commit: &Commit, told: &mut Vec<Happened>) {
        let new = change.expect == Expect::Absent;
        let at = commit.decided;
        match (&change.key, &change.row) {
            (Key::Job(_), Some(Row::Job(row))) => {
                for what in self.job(row, new) {
                    told.push(self.of_job(at, row.id, what));
                }
            }
            (Key::Job(id), None) => told.push(self.of_job(at, *id, What::JobRemoved)),
            (Key::Run(run), Some(Row::Run(row))) => {
                if new && run.cause() == Cause::OneOff {
                    told.push(self.of_job(at, run.job, What::JobCreated));
                }
                let what = match row.state {
                    RunState::Scheduled => What::RunScheduled { due: row.due },
                    RunState::Blocked => What::RunBlocked,
                    RunState::Ready => What::RunReady,
                    // The attempt that led here says it.
                    _ => return,
                };
                told.push(self.of_run(at, *run, what));
            }
            (Key::Lease(run), Some(Row::Lease(row))) if new => {
                let worker = match &row.holder {
                    Holder::Worker(name) => Some(name.clone()),
                    Holder::Node(_) => None,
                };
                let what = What::RunStarted { attempt: row.attempt, token: row.token, worker };
                told.push(self.of_run(at, *run, what));
            }
            (Key::Lease(run), Some(Row::Lease(row))) if row.cancel => {
                told.push(self.of_run(at, *run, What::RunStopping));
            }
            (Key::History(run, _), Some(Row::History(row))) => {
                told.push(self.of_history(at, *run, row));
            }
            (Key::Hold(scope), row) => {
                // Wider scopes are held in every shard; one of them tells it.
                if commit.shard.0 != 0 && !matches!(scope, Scope::Queue(..)) {
                    return;
                }
                let (namespace, queue) = match scope {
                    Scope::All => (Namespace(0), None),
                    Scope::Namespace(namespace) => (*namespace, None),
                    Scope::Queue(namespace, queue) => (*namespace, Some(queue.clone())),
                };
                let scope = scope.clone();
                let what = match row {
                    Some(Row::Hold(row)) => {
                        What::Held { scope, reason: row.reason.clone(), until: row.until }
                    }
                    _ => What::Released { scope },
                };
                let namespace = Some(namespace);
                told.push(Happened { seq: 0, at, what, namespace, queue, job: None, run: None });
            }
            (Key::Backlog(id), Some(Row::Backlog(row))) => {
                let what = What::Operation { id: *id, done: row.done, total: row.total };
                told.push(self.of_job(at, id.job, what));
            }
            (Key::Backlog(id), None) => {
                told.push(self.of_job(at, id.job, What::OperationOver { id: *id }));
            }
            _ => {}
        }
    }

    /// How the job stands now, against how it stood.
    fn job(&mut self, row: &JobRow, new: bool) -> Vec<What> {
        let known = self.entry(row.id);
        let (was, version) = (known.state, known.version);
        (known.state, known.version) = (Some(row.state), row.version);
        let mut told = Vec::new();
        if new {
            told.push(What::JobCreated);
        } else if version != 0 && version != row.version {
            told.push(What::JobUpdated { version: row.version });
        }
        if was != Some(row.state) {
            match row.state {
                JobState::Paused => {
                    let pause = row.pause.as_ref();
                    told.push(What::JobPaused {
                        reason: pause.map_or_else(|| Text::from(""), |p| p.reason.clone()),
                        until: pause.and_then(|pause| pause.until),
                    });
                }
                JobState::Active if was == Some(JobState::Paused) => told.push(What::JobResumed),
                JobState::Active => {}
                JobState::Ended => told.push(What::JobEnded),
                JobState::Cancelled => told.push(What::JobCancelled),
            }
        }
        told
    }

    fn of_job(&self, at: Time, job: JobId, what: What) -> Happened {
        let place = self.jobs.get(&job).and_then(|known| known.place);
        let place = place.and_then(|place| self.places.get(place as usize));
        let (namespace, queue) = place.cloned().unzip();
        Happened { seq: 0, at, what, namespace, queue, job: Some(job), run: None }
    }

    fn of_run(&self, at: Time, run: RunId, what: What) -> Happened {
        Happened { run: Some(run), ..self.of_job(at, run.job, what) }
    }

    fn of_history(&self, at: Time, run: RunId, row: &HistoryRow) -> Happened {
        let what = if row.status.is_verdict_only() {
            What::Skipped {
                status: row.status,
                from: row.nominal,
                until: row.until.unwrap_or(row.nominal),
                count: row.count.max(1),
            }
        } else {
            What::AttemptEnded(Ended {
                status: row.status,
                after: row.after,
                attempt: row.attempt,
                code: row.code,
                error: row.error.clone(),
                next: row.next,
            })
        };
        let mut told = self.of_run(at, run, what);
        told.namespace = Some(row.namespace);
        told.queue = row.flow.as_ref().map(|flow| flow.queue.clone()).or(told.queue);
        told
    }
}

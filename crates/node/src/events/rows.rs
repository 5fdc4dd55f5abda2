//! From the rows that a commit changed to what happened. A change does not carry the row it
//! replaces, so a little is remembered of each job that passed: where it belongs and how it stood.
//! Whatever the core decides about, it has read or written before, and both pass the driver.

use super::what::{Ended, Happened, What};
use crate::limits::JOBS_KNOWN_MAX;
use model::read::Page;
use model::row::{Change, Commit, Expect, HistoryRow, Holder, JobRow, JobState};
use model::row::{Key, Row, RunRow, Scope};
use model::{Cause, JobId, Namespace, RunId, RunState, Status, Text, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
                Page::Flows(_)
                | Page::Holds(_)
                | Page::Queues(_)
                | Page::Spec(_)
                | Page::Outcomes(_) => {}
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
        let stored = commit.changes.iter().filter_map(|change| match &change.key {
            Key::Checkpoint(run) if change.row.is_some() => Some(*run),
            _ => None,
        });
        // A running attempt stores a checkpoint: its run's row is written too, and still says what it said when it
        // was claimed. Nothing became ready by that.
        let mut stored: BTreeSet<RunId> = stored.collect();
        if !stored.is_empty() {
            // Unless the attempt ended in the same commit: then the row says where the run is now.
            for change in commit.changes.iter().filter(|change| change.row.is_none()) {
                if let Key::Lease(run) = &change.key {
                    stored.remove(run);
                }
            }
        }
        for change in commit.changes.iter() {
            if !matches!(&change.key, Key::Run(run) if stored.contains(run)) {
                self.change(change, commit, &mut told);
            }
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
                } else if run.cause() == Cause::OneOff && row.body.is_some() {
                    // A definition is written again only when it changes.
                    let version = row.version;
                    told.push(self.of_job(at, run.job, What::JobUpdated { version }));
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
        let what = if row.status == Status::Delayed {
            let reason = row.error.clone().unwrap_or_else(|| Text::from(""));
            What::FiredLate { due: row.due, reason }
        } else if row.status.is_verdict_only() {
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
                due: row.due,
                started: row.started,
            })
        };
        let mut told = self.of_run(at, run, what);
        told.namespace = Some(row.namespace);
        told.queue = row.flow.as_ref().map(|flow| flow.queue.clone()).or(told.queue);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::row::{CheckpointRow, LeaseRow, Pause};
    use model::{Epoch, FlowKey, Lane, Policy, ShardId, Slot, Span, Token};
    use std::sync::Arc;

    fn job() -> JobId {
        JobId::mint(Time::from_secs(1_806_000_000), Slot::from_bits(7), 99)
    }

    fn run_row(run: RunId, state: RunState) -> Row {
        Row::Run(RunRow {
            id: run,
            rev: 1,
            state,
            due: Time::from_secs(9),
            nominal: Time::from_secs(9),
            flow: FlowKey {
                namespace: Namespace(3),
                queue: Text::from("q"),
                kind: Text::from("http"),
                priority: 5,
                lane: Lane::Fresh,
                group: None,
            },
            version: 1,
            attempts: 0,
            retries: 0,
            lost: 0,
            replays: 0,
            policy: Policy::default(),
            checkpoint: 0,
            fresh: false,
            start_by: None,
            finish_by: None,
            body: None,
        })
    }

    fn job_row(state: JobState, version: u32) -> Row {
        let since = Time::from_secs(1);
        let pause = Pause { since, until: None, reason: Text::from("tea") };
        Row::Job(JobRow {
            id: job(),
            rev: 1,
            namespace: Namespace(3),
            state,
            version,
            created: since,
            versioned: since,
            mark: since,
            next: None,
            due: None,
            fired: 0,
            live: Vec::new(),
            active: None,
            waiting: None,
            pause: (state == JobState::Paused).then_some(pause),
            reruns: 0,
            backfills: 0,
            sweep: false,
            delete: false,
        })
    }

    fn told(known: &mut Known, changes: Vec<(Key, Expect, Option<Row>)>) -> Vec<&'static str> {
        let changes = changes.into_iter().map(|(key, expect, row)| Change { key, expect, row });
        let commit = Commit {
            shard: ShardId(0),
            epoch: Epoch(1),
            seq: 1,
            decided: Time::from_secs(10),
            changes: Arc::new(changes.collect()),
            floor: None,
            starts: model::row::Starts::default(),
        };
        let told = known.commit(&commit);
        assert!(told.iter().all(|one| one.namespace == Some(Namespace(3))), "{told:?}");
        told.iter().map(|one| one.what.name()).collect()
    }

    #[test]
    fn a_lease_says_whose_it_is_by_the_run_that_was_seen_before() {
        let mut known = Known::default();
        let run = RunId::new(job(), Cause::OneOff);
        // Read at load, in another life's commit.
        known.pages(&[Page::Rows(vec![Some(run_row(run, RunState::Ready))])]);
        let lease = Row::Lease(LeaseRow {
            run,
            rev: 1,
            attempt: 1,
            token: Token(7),
            holder: Holder::Worker(Text::from("w")),
            length: Span::from_secs(30),
            started: Time::from_secs(10),
            deadline: Time::from_secs(99),
            request: 1,
            cancel: false,
        });
        assert_eq!(
            told(&mut known, vec![(Key::Lease(run), Expect::Absent, Some(lease))]),
            ["run.started"]
        );
    }

    #[test]
    fn a_checkpoint_makes_nothing_ready_unless_its_attempt_ended() {
        let mut known = Known::default();
        let run = RunId::new(job(), Cause::Trigger(1));
        let bytes = model::Bytes::from(&b"{}"[..]);
        let checkpoint = || Some(Row::Checkpoint(CheckpointRow { rev: 1, bytes: bytes.clone() }));
        let stored = || {
            vec![
                (Key::Checkpoint(run), Expect::Absent, checkpoint()),
                (Key::Run(run), Expect::Rev(1), Some(run_row(run, RunState::Ready))),
            ]
        };
        assert_eq!(told(&mut known, stored()), [""; 0]);
        let mut handed_back = stored();
        handed_back.push((Key::Lease(run), Expect::Rev(1), None));
        assert_eq!(told(&mut known, handed_back), ["run.ready"]);
    }

    #[test]
    fn a_job_is_told_to_have_changed_only_when_it_has() {
        let mut known = Known::default();
        let run = RunId::new(job(), Cause::Trigger(1));
        known.pages(&[Page::Rows(vec![
            Some(run_row(run, RunState::Ready)),
            Some(job_row(JobState::Active, 1)),
        ])]);
        let mut put = |state, version| {
            let change = (Key::Job(job()), Expect::Rev(1), Some(job_row(state, version)));
            told(&mut known, vec![change])
        };
        assert_eq!(put(JobState::Active, 1), [""; 0], "it only fired");
        assert_eq!(put(JobState::Paused, 1), ["job.paused"]);
        assert_eq!(put(JobState::Paused, 1), [""; 0]);
        assert_eq!(put(JobState::Paused, 2), ["job.updated"]);
        assert_eq!(put(JobState::Active, 2), ["job.resumed"]);
        assert_eq!(put(JobState::Cancelled, 2), ["job.cancelled"]);
    }
}

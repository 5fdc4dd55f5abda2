//! Lists by looking at everything: the plainest answer, which the other stores are compared with.

use super::{Data, MemoryStore};
use crate::search::filter::{is_end, is_failure};
use crate::search::{
    FindJobs, FindRuns, Found, JobFound, Prune, Pruned, QueueCounts, QuotaCounts, RunFound,
    SCAN_MAX, Search,
};
use crate::{StoreAbout, StoreError};
use model::row::{HistoryRow, JobState};
use model::{Cause, JobId, KeyId, Namespace, RunId, RunState, Span, Text, Time, Token};
use std::cmp::Reverse;

impl Data {
    fn history(&self) -> impl Iterator<Item = &HistoryRow> {
        self.shards.iter().flat_map(|shard| shard.tables.history.iter())
    }

    fn live_runs(&self) -> impl Iterator<Item = RunFound> {
        self.shards.iter().flat_map(|shard| {
            let tables = &shard.tables;
            tables.runs.values().map(|run| RunFound::Live {
                row: run.row.clone(),
                lease: tables.leases.get(&run.row.id).map(|lease| (**lease).clone()),
                last: tables.history.of_run(run.row.id).last().cloned().map(Box::new),
            })
        })
    }

    fn jobs(&self) -> Vec<JobFound> {
        let recurring = self.shards.iter().flat_map(|shard| {
            shard.tables.jobs.values().filter_map(|job| {
                let spec = shard.tables.specs.get(&(job.row.id, job.row.version))?.clone();
                Some(JobFound::Recurring { row: job.row.clone(), spec })
            })
        });
        let one_offs = self.live_runs().filter(|run| run.id().cause() == Cause::OneOff);
        let one_offs = one_offs.filter_map(|run| {
            let RunFound::Live { row, .. } = &run else { return None };
            let shard = self.shards.get(usize::from(row.id.job.shard().0))?;
            let spec = shard.tables.spec(row.id, row.version)?;
            Some(JobFound::OneOff { run, spec })
        });
        let finished = self
            .history()
            .filter(|row| row.run.cause() == Cause::OneOff && is_end(row))
            .map(|row| JobFound::Finished(row.clone()));
        recurring.chain(one_offs).chain(finished).collect()
    }
}

/// Cuts a sorted list to one page. The cursor is the place of the last item in the order.
fn page<T: Clone>(
    sorted: Vec<T>,
    after: Option<&Text>,
    limit: usize,
    place: impl Fn(&T) -> String,
) -> Found<T> {
    let start = match after {
        Some(after) => match sorted.iter().position(|item| place(item) == **after) {
            Some(at) => at + 1,
            // The item is gone; a store that pages by order would go on behind its place.
            None => sorted.len(),
        },
        None => 0,
    };
    let items: Vec<T> = sorted.iter().skip(start).take(limit).cloned().collect();
    let more = start + items.len() < sorted.len();
    let next = items.last().filter(|_| more).map(|item| Text::from(place(item)));
    Found { items, next }
}

impl Search for MemoryStore {
    fn find_jobs(&self, find: &FindJobs) -> Result<Found<JobFound>, StoreError> {
        let mut jobs = self.state().data.jobs();
        jobs.retain(|job| find.matches(job));
        jobs.sort_by_key(|job| Reverse(job.id()));
        Ok(page(jobs, find.after.as_ref(), find.limit, |job| job.id().to_string()))
    }

    fn find_runs(&self, find: &FindRuns) -> Result<Found<RunFound>, StoreError> {
        let state = self.state();
        let ended = state.data.history().map(|row| RunFound::Ended(row.clone()));
        let mut runs: Vec<RunFound> = state.data.live_runs().chain(ended).collect();
        runs.retain(|run| find.matches(run) && find.job.is_none_or(|job| run.id().job == job));
        if find.job.is_some() {
            runs.sort_by_key(|run| Reverse((nominal(run), run.id())));
        } else {
            // Unfinished ones first.
            runs.sort_by_key(|run| match run {
                RunFound::Live { row, .. } => (0, Reverse((Time::MIN, row.id))),
                RunFound::Ended(row) => (1, Reverse((row.finished, row.run))),
            });
        }
        Ok(page(runs, find.after.as_ref(), find.limit, |run| run.id().to_string()))
    }

    fn attempts(&self, run: RunId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        let state = self.state();
        let Some(shard) = state.data.shards.get(usize::from(run.job.shard().0)) else {
            return Ok(Vec::new());
        };
        let mut rows: Vec<HistoryRow> =
            shard.tables.history.of_run(run).take(limit).cloned().collect();
        rows.sort_by_key(|row| (row.finished, row.token == Token::NONE, row.token));
        Ok(rows)
    }

    fn verdicts(
        &self,
        job: JobId,
        from: Time,
        until: Time,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let state = self.state();
        let wanted = |row: &&HistoryRow| {
            let last = row.until.unwrap_or(row.nominal);
            let cause = row.run.cause();
            row.run.job == job
                && !matches!(cause, Cause::OneOff | Cause::Trigger(_))
                && row.nominal <= until
                && last >= from
                && (row.status.is_verdict_only() || is_end(row))
        };
        let mut rows: Vec<HistoryRow> = state.data.history().filter(wanted).cloned().collect();
        rows.sort_by_key(|row| (row.nominal, row.run, row.token));
        rows.truncate(limit);
        Ok(rows)
    }

    fn queue_counts(
        &self,
        namespace: Namespace,
        queue: &str,
        soon: Span,
    ) -> Result<QueueCounts, StoreError> {
        let state = self.state();
        let until = state.now.plus(soon);
        let mut counts = QueueCounts::default();
        for run in state.data.live_runs() {
            let RunFound::Live { row, lease, .. } = run else { continue };
            if row.flow.namespace != namespace || *row.flow.queue != *queue {
                continue;
            }
            let count = match (lease.is_some(), row.state) {
                (true, _) => &mut counts.running,
                (_, RunState::Ready) => {
                    let oldest = counts.oldest_ready.unwrap_or(row.due).min(row.due);
                    counts.oldest_ready = Some(oldest);
                    &mut counts.ready
                }
                (_, RunState::Retrying) => &mut counts.retrying,
                (_, RunState::Dead) => &mut counts.dead,
                _ => &mut 0,
            };
            *count = (*count + 1).min(SCAN_MAX);
            let waits = matches!(row.state, RunState::Scheduled | RunState::Retrying);
            if waits && lease.is_none() && row.due < until {
                counts.due_soon = (counts.due_soon + 1).min(SCAN_MAX);
            }
        }
        Ok(counts)
    }

    fn namespace_counts(
        &self,
        namespace: Namespace,
        limit: usize,
    ) -> Result<QuotaCounts, StoreError> {
        let state = self.state();
        let waits = |run: &RunFound| match run {
            RunFound::Live { row, lease: None, .. } => {
                row.flow.namespace == namespace
                    && matches!(row.state, RunState::Ready | RunState::Retrying)
            }
            _ => false,
        };
        let jobs = state.data.shards.iter().flat_map(|shard| shard.tables.jobs.values());
        let lives = |state| matches!(state, JobState::Active | JobState::Paused);
        let jobs = jobs.filter(|job| job.row.namespace == namespace && lives(job.row.state));
        Ok(QuotaCounts {
            waiting: state.data.live_runs().filter(waits).take(limit).count(),
            jobs: jobs.take(limit).count(),
        })
    }

    fn key_counts(&self, key: KeyId, limit: usize) -> Result<QuotaCounts, StoreError> {
        let state = self.state();
        let shards = || state.data.shards.iter().map(|shard| &shard.tables);
        let runs = shards().flat_map(|tables| tables.runs.values().map(move |run| (tables, run)));
        let waiting = runs.filter(|(tables, run)| {
            let spec = tables.spec(run.row.id, run.row.version);
            matches!(run.row.state, RunState::Ready | RunState::Retrying)
                && !tables.leases.contains_key(&run.row.id)
                && spec.is_some_and(|spec| spec.api_key == Some(key))
        });
        let jobs = shards().flat_map(|tables| tables.jobs.values().map(move |job| (tables, job)));
        let jobs = jobs.filter(|(tables, job)| {
            let spec = tables.specs.get(&(job.row.id, job.row.version));
            matches!(job.row.state, JobState::Active | JobState::Paused)
                && spec.is_some_and(|spec| spec.api_key == Some(key))
        });
        Ok(QuotaCounts { waiting: waiting.take(limit).count(), jobs: jobs.take(limit).count() })
    }

    fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        let mut state = self.state();
        let old: Vec<_> = state
            .data
            .history()
            .filter(|row| {
                let failed = is_failure(row.status);
                row.finished < if failed { prune.failures_before } else { prune.before }
            })
            .map(|row| (row.run, row.token))
            .take(prune.limit)
            .collect();
        for (run, token) in &old {
            if let Some(shard) = state.data.shard(run.job.shard()) {
                shard.tables.history.put(*run, *token, None);
            }
        }
        let next = (old.len() == prune.limit).then_some(0);
        Ok(Pruned { removed: old.len(), next })
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        // Good enough for something that nobody keeps: rows, not bytes on a disk.
        const ROW: u64 = 256;
        let state = self.state();
        let rows = state.data.history().count() + state.data.live_runs().count();
        Ok(rows as u64 * ROW)
    }

    fn about(&self) -> StoreAbout {
        StoreAbout::embedded("memory", "NOTHING IS KEPT over a restart")
    }
}

fn nominal(run: &RunFound) -> Time {
    match run {
        RunFound::Live { row, .. } => row.nominal,
        RunFound::Ended(row) => row.nominal,
    }
}

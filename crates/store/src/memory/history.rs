//! The history of a shard, found by run and token, and by a job's nominal instants.

use model::read::Outcome;
use model::row::{HistoryRow, RunRow};
use model::{Cause, JobId, RunId, Status, Time, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    rows: BTreeMap<(RunId, Token), Box<HistoryRow>>,
    /// By nominal instant, for jobs that have several; one-offs pay nothing for it.
    instants: BTreeSet<(JobId, Time, RunId, Token)>,
    /// Range verdicts by their last instant: few, and what overlaps must be found from its end.
    ranges: BTreeSet<(JobId, Time, RunId, Token)>,
}

/// The largest run id there can be.
const LAST: RunId =
    RunId { job: JobId::from_bits(u64::MAX, u64::MAX), part: model::id::Part::from_bits(u64::MAX) };

impl History {
    pub fn get(&self, run: RunId, token: Token) -> Option<&HistoryRow> {
        self.rows.get(&(run, token)).map(|row| &**row)
    }

    pub fn iter(&self) -> impl Iterator<Item = &HistoryRow> {
        self.rows.values().map(|row| &**row)
    }

    /// What is known of one run, in the order of tokens.
    pub fn of_run(&self, run: RunId) -> impl DoubleEndedIterator<Item = &HistoryRow> {
        self.rows.range((run, Token::NONE)..=(run, Token(u64::MAX))).map(|(_, row)| &**row)
    }

    pub fn put(
        &mut self,
        run: RunId,
        token: Token,
        new: Option<Box<HistoryRow>>,
    ) -> Option<Box<HistoryRow>> {
        let indexed = stands_for_an_instant(run);
        let new_at = new.as_ref().filter(|_| indexed).map(|row| (row.nominal, row.until));
        let old = match new {
            Some(new) => self.rows.insert((run, token), new),
            None => self.rows.remove(&(run, token)),
        };
        if let Some(old) = old.as_ref().filter(|_| indexed) {
            match range_end(old.nominal, old.until) {
                Some(until) => self.ranges.remove(&(run.job, until, run, token)),
                None => self.instants.remove(&(run.job, old.nominal, run, token)),
            };
        }
        if let Some((nominal, until)) = new_at {
            match range_end(nominal, until) {
                Some(until) => self.ranges.insert((run.job, until, run, token)),
                None => self.instants.insert((run.job, nominal, run, token)),
            };
        }
        old
    }

    /// One outcome for each instant, and one for each range that overlaps `(after, until]`, whole.
    /// `live` are the unfinished runs of the job.
    pub fn outcomes<'a>(
        &self,
        job: JobId,
        (after, until): (Time, Time),
        limit: usize,
        live: impl Iterator<Item = &'a RunRow>,
    ) -> Vec<Outcome> {
        if after >= until {
            return Vec::new();
        }
        let mut seen: BTreeMap<(Time, Time), Seen> = BTreeMap::new();
        let wanted = |run: &&RunRow| {
            stands_for_an_instant(run.id) && run.nominal > after && run.nominal <= until
        };
        for run in live.filter(wanted) {
            let seen = seen.entry((run.nominal, run.nominal)).or_default();
            seen.ran = true;
            seen.live = true;
        }
        let ends =
            (Excluded(end_of(job, after)), Included(end_of(job, Time::from_micros(i64::MAX))));
        for (_, end, run, token) in self.ranges.range(ends) {
            if let Some(row) = self.get(*run, *token).filter(|row| row.nominal <= until) {
                seen.entry((row.nominal, *end)).or_default().add(row);
            }
        }
        let instants = (Excluded(end_of(job, after)), Included(end_of(job, until)));
        let (mut counted, mut last) = (0, None);
        for (_, nominal, run, token) in self.instants.range(instants) {
            if last != Some(*nominal) {
                last = Some(*nominal);
                counted += 1;
                if counted > limit {
                    break;
                }
            }
            if let Some(row) = self.get(*run, *token) {
                seen.entry((*nominal, *nominal)).or_default().add(row);
            }
        }
        let outcomes = seen.into_iter().map(|((nominal, until), seen)| Outcome {
            nominal,
            until,
            ran: seen.ran,
            succeeded: seen.succeeded,
            live: seen.live,
        });
        outcomes.take(limit).collect()
    }
}

/// Behind every index entry of this job and instant.
fn end_of(job: JobId, at: Time) -> (JobId, Time, RunId, Token) {
    (job, at, LAST, Token(u64::MAX))
}

/// What is known of one instant, or of one range, so far.
#[derive(Default)]
struct Seen {
    ran: bool,
    live: bool,
    succeeded: bool,
    /// The last row so far; the token decides between two that finished together.
    last: Option<(Time, Token, RunId)>,
}

impl Seen {
    fn add(&mut self, row: &HistoryRow) {
        if row.token == Token::DELAYED {
            return; // The run beside it says what became of the instant.
        }
        self.ran |= !row.status.is_verdict_only();
        let place = Some((row.finished, row.token, row.run));
        if place > self.last {
            self.last = place;
            self.succeeded = row.status == Status::Succeeded;
        }
    }
}

/// A trigger's nominal instant is when somebody asked; it says nothing about the schedule.
fn stands_for_an_instant(run: RunId) -> bool {
    matches!(run.cause(), Cause::Occurrence(_) | Cause::Backfill { .. } | Cause::Rerun(_))
}

fn range_end(nominal: Time, until: Option<Time>) -> Option<Time> {
    until.filter(|until| *until > nominal)
}

//! Attempts: each one that started is recorded, once, as it was.

use super::Report;
use super::view::View;
use model::{RunState, Token};

/// **Rule.** Every attempt that a holder began is a lease or one row of the history, with the same
/// number, version and instants.
///
/// **Why.** Persist, then act: a dispatch leaves after the commit of its claim.
/// **Without it** an endpoint is called and no record says so, and the call is made again.
///
/// Tokens from before a lost tail are forgiven if they are gone.
pub(super) fn every_start_is_recorded(view: &View<'_>, report: &mut Report) {
    for start in &view.log.starts {
        let seen = (start.attempt, start.version, start.nominal, start.due);
        if let Some(row) = view.attempt(start.run, start.token) {
            let kept = (row.attempt, row.version, row.nominal, row.due);
            if kept != seen {
                report.add(format!("{} started as {seen:?}, recorded as {kept:?}", start.run));
            }
            continue;
        }
        let lease = view.leases.get(&start.run).filter(|lease| lease.token == start.token);
        match (lease, view.runs.get(&start.run)) {
            (Some(lease), Some(row)) => {
                let kept = (lease.attempt, row.version, row.nominal, row.due);
                if kept != seen {
                    report.add(format!("{} started as {seen:?}, leased as {kept:?}", start.run));
                }
            }
            _ if view.loss.forgives_token(start.run, start.token) => {}
            _ => report.add(format!("started and not recorded: {start:?}")),
        }
    }
}

/// **Rule.** The row of an attempt has a number, a token, a claim and a flow; the row of a run that
/// ended without one has no number, token or claim. No key is there twice.
///
/// **Why.** Everything that reads history relies on it: search, replays, repeated settles.
/// **Without it** a settle is answered from the row of another attempt.
pub(super) fn history_rows_are_whole(view: &View<'_>, report: &mut Report) {
    for (run, rows) in &view.history {
        for pair in rows.windows(2).filter(|pair| pair[0].token == pair[1].token) {
            report.add(format!("{run} {:?} is recorded twice", pair[0].token));
        }
        for row in rows {
            let attempt = row.token != Token::NONE;
            let whole = (row.attempt > 0) == attempt
                && row.started.is_some() == attempt
                && row.flow.is_some()
                && row.count == 1
                && !row.status.is_verdict_only()
                && (attempt || row.after.is_final())
                && (row.after == RunState::Retrying) == row.next.is_some();
            if !whole {
                report.add(format!("{row:?}"));
            }
        }
    }
    for row in view.ranges.values().flatten() {
        let sound = row.token == Token::NONE
            && row.attempt == 0
            && row.status.is_verdict_only()
            && row.count > 0
            && row.until.is_some_and(|until| until >= row.nominal);
        if !sound {
            report.add(format!("{row:?}"));
        }
    }
}

/// **Rule.** The attempts of a run in the history are 1, 2, 3 …; a lease has the next number, and
/// the run's row has counted those that ended.
///
/// **Why.** A gap is an attempt that nobody recorded.
/// **Without it** attempts vanish from history, and with them the reason a job failed.
pub(super) fn attempts_have_no_gaps(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys().chain(view.runs.keys()) {
        let numbers: Vec<u16> = view.attempts(*run).map(|row| row.attempt).collect();
        let ended = numbers.len();
        if !numbers.iter().enumerate().all(|(at, number)| usize::from(*number) == at + 1) {
            report.add(format!("{run} has attempts {numbers:?}"));
        }
        let Some(row) = view.runs.get(run) else { continue };
        if usize::from(row.attempts) != ended {
            report.add(format!("{run} counts {} attempts, {ended} ended", row.attempts));
        }
        if let Some(lease) = view.leases.get(run)
            && usize::from(lease.attempt) != ended + 1
        {
            report.add(format!("{run}: attempt {} after {ended}", lease.attempt));
        }
    }
}

/// **Rule.** All attempts of a run have one version.
///
/// **Why.** A run keeps the version in force at its nominal instant, its retries included.
/// **Without it** a retry does something else than the attempt it repeats.
///
/// A one-off may be updated until its first attempt, never after. A start that a lost tail
/// swallowed does not count: the run it belonged to began anew.
pub(super) fn version_stays(view: &View<'_>, report: &mut Report) {
    for run in view.history.keys().chain(view.starts.keys()) {
        let ended = view.attempts(*run).map(|row| row.version);
        let starts = view.starts.get(run).map(Vec::as_slice).unwrap_or_default();
        let started = starts
            .iter()
            .filter(|start| !view.loss.forgives_token(*run, start.token))
            .map(|start| start.version);
        let mut versions: Vec<u32> = ended.chain(started).collect();
        if let Some(row) = view.runs.get(run).filter(|_| !versions.is_empty()) {
            versions.push(row.version);
        }
        versions.dedup();
        if versions.len() > 1 {
            report.add(format!("{run} ran as versions {versions:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::RunRow;
    use model::{Cause, RunId, RunState, Status, Token};

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    #[test]
    fn a_start_without_a_record_is_found() {
        let mut world = World::new();
        world.start(run(), 1, |_| {});
        assert!(world.broken("every_start_is_recorded"));
        world.attempt(run(), 1, |_| {});
        assert!(!world.broken("every_start_is_recorded"));
        world.shard().history[0].version = 2;
        assert!(world.broken("every_start_is_recorded"));
        world.shard().history.clear();
        world.log.tail_lost.push(at(1_000));
        assert!(!world.broken("every_start_is_recorded"), "the store forgot it");
    }

    #[test]
    fn a_lease_is_a_record_too() {
        let mut world = World::new();
        world.start(run(), 1, |_| {});
        world.lease(run(), 1, |_| {});
        assert!(!world.broken("every_start_is_recorded"));
        world.log.starts[0].attempt = 2;
        assert!(world.broken("every_start_is_recorded"));
    }

    #[test]
    fn half_a_row_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |_| {});
        assert!(!world.broken("history_rows_are_whole"));
        world.shard().history[0].token = Token::NONE;
        assert!(world.broken("history_rows_are_whole"));
        world.shard().history.clear();
        world.ended_waiting(run(), Status::Cancelled);
        assert!(!world.broken("history_rows_are_whole"));
        world.ended_waiting(run(), Status::Cancelled);
        assert!(world.broken("history_rows_are_whole"), "recorded twice");
    }

    #[test]
    fn a_range_that_is_none_is_found() {
        let mut world = World::new();
        let first = RunId::new(job_id(1), Cause::Occurrence(at(10)));
        world.range(first, at(20), 2, Status::Missed);
        assert!(!world.broken("history_rows_are_whole"));
        world.shard().history[0].until = Some(at(5));
        assert!(world.broken("history_rows_are_whole"));
    }

    #[test]
    fn a_gap_in_the_attempts_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |row| failed(row, at(200)));
        world.run(RunRow { attempts: 1, ..run_row(run()) });
        world.lease(run(), 2, |_| {});
        assert!(!world.broken("attempts_have_no_gaps"));
        world.lease(run(), 3, |_| {});
        assert!(world.broken("attempts_have_no_gaps"));
        world.lease(run(), 2, |_| {});
        world.shard().history[0].attempt = 2;
        assert!(world.broken("attempts_have_no_gaps"));
        world.shard().history.clear();
        assert!(world.broken("attempts_have_no_gaps"));
    }

    #[test]
    fn a_version_that_changes_between_attempts_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |row| row.after = RunState::Ready);
        world.start(run(), 2, |_| {});
        assert!(!world.broken("version_stays"));
        world.log.starts[0].version = 2;
        assert!(world.broken("version_stays"));
    }
}

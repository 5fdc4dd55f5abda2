//! Overlap: fresh runs of one job take turns.

use super::Report;
use super::settles::ended_by_owner;
use super::view::View;
use model::{Cause, JobId, Lane, Overlap, RunId, RunState, Time};
use std::collections::BTreeMap;

/// **Rule.** Unless its job allows overlap, a fresh run starts only after the one before it has
/// ended or died.
///
/// **Why.** Overlap policies exist because two runs of one job at a time do damage.
/// **Without it** a slow nightly export runs beside the next one and they overwrite each other.
///
/// A run holds its turn from its first claim to its end, backoffs included; after death it holds
/// nothing. Catch-ups, backfills, triggers and replays take no turn. A turn begins no later than
/// its holder began and ends no earlier than it is recorded, nor before its holder reported.
pub(super) fn fresh_runs_do_not_overlap(view: &View<'_>, report: &mut Report) {
    let mut turns: BTreeMap<JobId, Vec<(Time, Time, RunId)>> = BTreeMap::new();
    for run in view.starts.keys() {
        if let (Cause::Occurrence(_), Some((from, to))) = (run.cause(), turn(view, *run)) {
            turns.entry(run.job).or_default().push((from, to, *run));
        }
    }
    for turns in turns.values_mut() {
        turns.sort_unstable();
        let mut last: Option<(Time, RunId)> = None;
        for (from, to, run) in turns {
            if let Some((end, before)) = last.filter(|(end, _)| *from < *end) {
                report.add(format!("{run} began {from:?}, {before} went on until {end:?}"));
            }
            if last.is_none_or(|(end, _)| end < *to) {
                last = Some((*to, *run));
            }
        }
    }
}

/// From the first start of a fresh run to its end; none for a run that takes no turn, or whose
/// first claim nobody saw.
fn turn(view: &View<'_>, run: RunId) -> Option<(Time, Time)> {
    let first = view.attempts(run).next();
    let (token, version, lane) = match (first, view.leases.get(&run), view.runs.get(&run)) {
        (Some(row), ..) => (row.token, row.version, row.flow.as_ref()?.lane),
        (None, Some(lease), Some(row)) => (lease.token, row.version, row.flow.lane),
        _ => return None,
    };
    if lane != Lane::Fresh || view.spec(run, version)?.overlap == Overlap::Allow {
        return None;
    }
    let from = view.starts.get(&run)?.iter().find(|start| start.token == token)?.at;
    let rows = view.history.get(&run).map(Vec::as_slice).unwrap_or_default();
    let ends = rows.iter().filter(|row| row.after.is_final() || row.after == RunState::Dead);
    let Some(end) = ends.min_by_key(|row| row.finished) else { return Some((from, Time::MAX)) };
    let reports = view.settles.get(&(run, end.token)).map(Vec::as_slice).unwrap_or_default();
    let reported = reports.iter().filter(|_| !ended_by_owner(end)).map(|settle| settle.sent).min();
    let to = end.finished.max(reported.unwrap_or(Time::MIN));
    // A claim's answer may reach its holder after the turn is over: that is a zombie's start.
    (from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, Overlap, RunId, RunState, Spec};

    const NAME: &str = "fresh_runs_do_not_overlap";

    fn occurrence(secs: i64) -> RunId {
        RunId::new(job_id(1), Cause::Occurrence(at(secs)))
    }

    /// One fresh run from 110 to 125, and one that starts at 125.
    fn world(overlap: Overlap) -> World {
        let mut world = World::new();
        world.job(1, Spec { overlap, ..every(10) }, |_| {});
        world.attempt(occurrence(110), 1, |row| row.finished = at(125));
        world.start(occurrence(110), 1, |start| start.at = at(110));
        world.attempt(occurrence(120), 2, |_| {});
        world.start(occurrence(120), 2, |start| start.at = at(125));
        world
    }

    #[test]
    fn two_fresh_runs_at_a_time_are_found_unless_allowed() {
        for (overlap, broken) in [(Overlap::QueueOne, true), (Overlap::Allow, false)] {
            let mut world = world(overlap);
            assert!(!world.broken(NAME));
            world.log.starts[1].at = at(120);
            assert_eq!(world.broken(NAME), broken);
        }
    }

    #[test]
    fn a_run_that_has_not_reported_yet_holds_its_turn() {
        let mut world = world(Overlap::Skip);
        world.settle(occurrence(110), 1, succeeded(), None);
        assert!(world.broken(NAME), "it reported at 200");
        world.log.settles[0].sent = at(124);
        assert!(!world.broken(NAME));
    }

    #[test]
    fn a_run_between_two_attempts_still_holds_its_turn() {
        let mut world = world(Overlap::Skip);
        world.shard().history[0].after = RunState::Retrying;
        assert!(world.broken(NAME));
        world.shard().history[0].after = RunState::Dead;
        assert!(!world.broken(NAME), "a dead run holds up nothing");
        world.ended_waiting(occurrence(110), model::Status::Cancelled);
        world.shard().history[2].finished = at(300);
        assert!(!world.broken(NAME), "not even if it is cancelled later");
    }

    #[test]
    fn a_start_after_its_own_end_takes_no_turn() {
        let mut world = world(Overlap::Skip);
        world.log.starts[0].at = at(126);
        assert!(!world.broken(NAME));
    }

    #[test]
    fn a_catch_up_takes_no_turn() {
        let mut world = world(Overlap::Skip);
        world.log.starts[1].at = at(120);
        if let Some(flow) = &mut world.shard().history[1].flow {
            flow.lane = model::Lane::Backfill;
        }
        assert!(!world.broken(NAME));
    }
}

//! Overlap: fresh runs of one job take turns.

use super::Report;
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
/// nothing. Catch-ups, backfills, triggers and replays take no turn.
pub(super) fn fresh_runs_do_not_overlap(view: &View<'_>, report: &mut Report) {
    let mut turns: BTreeMap<JobId, Vec<(Time, Time, RunId)>> = BTreeMap::new();
    for run in view.history.keys().chain(view.leases.keys()) {
        if let (Cause::Occurrence(_), Some((from, to))) = (run.cause(), turn(view, *run)) {
            turns.entry(run.job).or_default().push((from, to, *run));
        }
    }
    let lag = view.settings.clock_lag;
    for turns in turns.values_mut() {
        turns.sort_unstable();
        turns.dedup();
        let mut last: Option<(Time, RunId)> = None;
        for (from, to, run) in turns {
            if let Some((end, before)) = last.filter(|(end, _)| from.plus(lag) < *end) {
                report.add(format!("{run} began {from:?}, {before} went on until {end:?}"));
            }
            if last.is_none_or(|(end, _)| end < *to) {
                last = Some((*to, *run));
            }
        }
    }
}

/// From the first claim of a fresh run to its end; none for a run that takes no turn.
fn turn(view: &View<'_>, run: RunId) -> Option<(Time, Time)> {
    let first = view.attempts(run).next();
    let (from, version, lane) = match (first, view.leases.get(&run), view.runs.get(&run)) {
        (Some(row), ..) => (row.started?, row.version, row.flow.as_ref()?.lane),
        (None, Some(lease), Some(row)) => (lease.started, row.version, row.flow.lane),
        _ => return None,
    };
    if lane != Lane::Fresh || view.spec(run, version)?.overlap == Overlap::Allow {
        return None;
    }
    let rows = view.history.get(&run).map(Vec::as_slice).unwrap_or_default();
    let ends = rows.iter().filter(|row| row.after.is_final() || row.after == RunState::Dead);
    let end = ends.map(|row| row.finished).min();
    Some((from, end.unwrap_or(Time::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, Overlap, RunId, RunState, Spec};

    const NAME: &str = "fresh_runs_do_not_overlap";

    fn occurrence(secs: i64) -> RunId {
        RunId::new(job_id(1), Cause::Occurrence(at(secs)))
    }

    fn world(overlap: Overlap) -> World {
        let mut world = World::new();
        world.job(1, Spec { overlap, ..every(10) }, |_| {});
        world.attempt(occurrence(110), 1, |row| {
            (row.started, row.finished) = (Some(at(110)), at(125));
        });
        world
    }

    #[test]
    fn two_fresh_runs_at_a_time_are_found_unless_allowed() {
        for (overlap, broken) in [(Overlap::QueueOne, true), (Overlap::Allow, false)] {
            let mut world = world(overlap);
            world.attempt(occurrence(120), 2, |row| row.started = Some(at(125)));
            assert!(!world.broken(NAME));
            world.shard().history[1].started = Some(at(120));
            assert_eq!(world.broken(NAME), broken);
        }
    }

    #[test]
    fn a_run_between_two_attempts_still_holds_its_turn() {
        let mut world = world(Overlap::Skip);
        world.shard().history[0].after = RunState::Retrying;
        world.lease(occurrence(130), 5, |lease| lease.started = at(130));
        assert!(world.broken(NAME));
        world.shard().history[0].after = RunState::Dead;
        assert!(!world.broken(NAME), "a dead run holds up nothing");
    }

    #[test]
    fn a_catch_up_takes_no_turn() {
        let mut world = world(Overlap::Skip);
        world.attempt(occurrence(120), 2, |row| {
            row.started = Some(at(120));
            if let Some(flow) = &mut row.flow {
                flow.lane = model::Lane::Backfill;
            }
        });
        assert!(!world.broken(NAME));
    }
}

//! Verdicts: what became of each instant of a schedule.

use super::Report;
use super::view::View;
use calendar::Schedule;
use model::row::{BacklogKind, JobRow};
use model::{Cause, JobId, RunId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

const TICK: Span = Span::from_micros(1);

/// Instants from `first` to `last`, and what covers them.
#[derive(Debug)]
struct Cover {
    first: Time,
    last: Time,
    /// How many instants the row says it stands for.
    count: Option<u64>,
    what: String,
}

/// All that covers instants of each job, in order. A catch-up's backlog covers from just after
/// its cursor, which need not be an instant.
fn covers(view: &View<'_>) -> BTreeMap<JobId, Vec<Cover>> {
    let mut all: BTreeMap<JobId, Vec<Cover>> = BTreeMap::new();
    let runs: BTreeSet<RunId> = view.runs.keys().chain(view.history.keys()).copied().collect();
    for run in runs {
        if let Cause::Occurrence(nominal) = run.cause() {
            let what = run.to_string();
            let cover = Cover { first: nominal, last: nominal, count: Some(1), what };
            all.entry(run.job).or_default().push(cover);
        }
    }
    for (job, rows) in &view.ranges {
        for row in rows {
            let (last, what) = (row.until.unwrap_or(row.nominal), format!("{:?}", row.status));
            let cover = Cover { first: row.nominal, last, count: Some(row.count), what };
            all.entry(*job).or_default().push(cover);
        }
    }
    for (id, row) in &view.backlogs {
        if matches!(id.kind, BacklogKind::CatchUp { .. }) {
            let what = format!("{:?}", id.kind);
            let cover = Cover { first: row.cursor.plus(TICK), last: row.until, count: None, what };
            all.entry(id.job).or_default().push(cover);
        }
    }
    all.values_mut().for_each(|covers| covers.sort_by_key(|cover| (cover.first, cover.last)));
    all
}

/// **Rule.** Every instant of a schedule from its creation to its mark has a run, lies in one range
/// verdict or in one catch-up's backlog; a range says how many instants it holds.
///
/// **Why.** "Did last night's run happen?" has an answer for every night.
/// **Without it** a failover swallows a tick, and nobody finds out.
///
/// Only jobs in their first version: what older specs said is gone with them. Ranges are compared
/// by counting, so a pause of ten years costs no more than one of ten seconds.
pub(super) fn every_instant_has_one_verdict(view: &View<'_>, report: &mut Report) {
    let all = covers(view);
    for (id, job) in view.jobs.iter().filter(|(_, job)| job.version == 1) {
        let Some(spec) = view.specs.get(&(*id, 1)) else { continue };
        let Ok(schedule) = Schedule::new(&spec.schedule, &id.to_bytes(), job.versioned) else {
            report.add(format!("{id}: its stored schedule is not one"));
            continue;
        };
        let covers = all.get(id).map(Vec::as_slice).unwrap_or_default();
        walk(job, &schedule, covers, report);
    }
}

fn walk(job: &JobRow, schedule: &Schedule, covers: &[Cover], report: &mut Report) {
    let id = job.id;
    let mut decided = job.created;
    for cover in covers {
        let Cover { first, last, count, what } = cover;
        // A backlog begins just after its cursor: its first instant is the next one there.
        let first =
            if count.is_some() { *first } else { first.max(&decided.plus(TICK)).to_owned() };
        let missing = schedule.count(decided.plus(TICK), first);
        if missing > 0 {
            let at = schedule.next(decided);
            report.add(format!("{id}: {missing} instants from {at:?} before {what} have none"));
        }
        let held = schedule.count(first, last.plus(TICK));
        if count.is_some_and(|count| count != held) {
            report.add(format!("{id}: {what} of {first:?}..{last:?} says {count:?}, holds {held}"));
        }
        decided = decided.max(*last);
    }
    let missing = schedule.count(decided.plus(TICK), job.mark.plus(TICK));
    if missing > 0 {
        let at = schedule.next(decided);
        report.add(format!("{id}: {missing} instants from {at:?} to the mark have none"));
    }
}

/// **Rule.** No instant of a job is covered twice, in any version.
///
/// **Why.** The mark only grows, and it is the guard against a second firing.
/// **Without it** a nightly charge is made twice.
pub(super) fn no_instant_is_decided_twice(view: &View<'_>, report: &mut Report) {
    for (job, covers) in covers(view) {
        let mut last: Option<&Cover> = None;
        for cover in &covers {
            if let Some(before) = last.filter(|before| before.last >= cover.first) {
                report.add(format!("{job}: {before:?} and {cover:?}"));
            }
            if last.is_none_or(|before| before.last < cover.last) {
                last = Some(cover);
            }
        }
    }
}

/// **Rule.** No instant after the mark has a run or a verdict.
///
/// **Why.** Firing is one commit: the run and the move of the mark.
/// **Without it** the next owner fires the instant again.
pub(super) fn nothing_beyond_the_mark(view: &View<'_>, report: &mut Report) {
    for (id, covers) in covers(view) {
        let Some(job) = view.jobs.get(&id) else { continue };
        for cover in covers.iter().filter(|cover| cover.last > job.mark) {
            report.add(format!("{id}: {cover:?} with the mark at {:?}", job.mark));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::{BacklogId, BacklogKind, BacklogRow, Key, Only, Row};
    use model::{Cause, JobId, RunId, Status};

    /// A job of every ten seconds, made at 100, marked at 160: instants 110, 120 … 160.
    fn world() -> (World, JobId) {
        let mut world = World::new();
        let job = world.job(1, every(10), |row| row.mark = at(160));
        (world, job)
    }

    fn occurrence(job: JobId, secs: i64) -> RunId {
        RunId::new(job, Cause::Occurrence(at(secs)))
    }

    #[test]
    fn every_kind_of_cover_counts_and_a_hole_is_found() {
        let (mut world, job) = world();
        world.attempt(occurrence(job, 110), 1, |_| {});
        world.run(run_row(occurrence(job, 120)));
        world.range(occurrence(job, 130), at(140), 2, Status::SkippedPaused);
        assert!(world.broken("every_instant_has_one_verdict"), "150 and 160 are open");
        let id = BacklogId { job, kind: BacklogKind::CatchUp { from: at(140) } };
        let backlog = BacklogRow {
            id,
            rev: 1,
            cursor: at(140),
            until: at(160),
            per_second: 1,
            due: at(1_000),
            only: Only::All,
            version: 1,
            versioned: at(100),
            done: 0,
            total: 2,
        };
        world.put(Key::Backlog(id), Row::Backlog(backlog));
        assert!(!world.broken("every_instant_has_one_verdict"));
        assert!(!world.broken("no_instant_is_decided_twice"));
        world.remove(&Key::Run(occurrence(job, 120)));
        assert!(world.broken("every_instant_has_one_verdict"), "120 is open");
    }

    #[test]
    fn a_range_must_say_how_many_it_holds() {
        let (mut world, job) = world();
        world.range(occurrence(job, 110), at(160), 6, Status::Missed);
        assert!(!world.broken("every_instant_has_one_verdict"));
        world.shard().history[0].count = 5;
        assert!(world.broken("every_instant_has_one_verdict"));
    }

    #[test]
    fn a_run_of_no_instant_is_found() {
        let (mut world, job) = world();
        world.range(occurrence(job, 110), at(160), 6, Status::Missed);
        world.run(run_row(occurrence(job, 115)));
        assert!(world.broken("every_instant_has_one_verdict"));
    }

    #[test]
    fn twice_is_found_in_every_version() {
        let (mut world, job) = world();
        world.change_job(job, |row| row.version = 2);
        world.range(occurrence(job, 110), at(140), 4, Status::Missed);
        world.run(run_row(occurrence(job, 150)));
        assert!(!world.broken("no_instant_is_decided_twice"));
        world.run(run_row(occurrence(job, 130)));
        assert!(world.broken("no_instant_is_decided_twice"));
    }

    #[test]
    fn nothing_lies_beyond_the_mark() {
        let (mut world, job) = world();
        world.run(run_row(occurrence(job, 160)));
        assert!(!world.broken("nothing_beyond_the_mark"));
        world.run(run_row(occurrence(job, 170)));
        assert!(world.broken("nothing_beyond_the_mark"));
    }
}

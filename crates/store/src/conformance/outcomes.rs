//! What became of a job's nominal instants.

use super::TestStore;
use super::desk::{Desk, insert, insert_run};
use super::sample::{history, job_id, run};
use model::read::{Outcome, Page, Read};
use model::row::{Change, HistoryRow, Key, Row};
use model::{Cause, JobId, RunId, RunState, Span, Status, Time};

fn at(secs: i64) -> Time {
    Time::from_secs(1_700_000_000 + secs)
}

fn add(row: HistoryRow) -> Change {
    insert(Key::History(row.run, row.token), Row::History(Box::new(row)))
}

/// An attempt, or a verdict if `counter` is 0, of the occurrence at `secs`.
fn attempt(job: JobId, secs: i64, counter: u32, status: Status) -> HistoryRow {
    history(RunId::new(job, Cause::Occurrence(at(secs))), counter, at(secs), status)
}

fn outcomes(desk: &Desk<'_>, job: JobId, after: i64, until: i64, limit: usize) -> Vec<Outcome> {
    match desk.read(Read::Outcomes { job, after: at(after), until: at(until), limit }) {
        Page::Outcomes(outcomes) => outcomes,
        page => panic!("not outcomes: {page:?}"),
    }
}

/// `secs` to `until`, and some of the letters r(an), s(ucceeded), l(ive).
fn outcome(secs: i64, until: i64, what: &str) -> Outcome {
    Outcome {
        nominal: at(secs),
        until: at(until),
        ran: what.contains('r'),
        succeeded: what.contains('s'),
        live: what.contains('l'),
    }
}

pub fn last_attempt_decides(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    desk.commit(vec![
        add(attempt(job, 10, 1, Status::Failed)),
        add(attempt(job, 10, 2, Status::Succeeded)),
        add(attempt(job, 20, 3, Status::Succeeded)),
        add(attempt(job, 20, 4, Status::Failed)),
    ]);
    // A backfill of a third instant that had failed, finished later and found by its nominal.
    let second = at(30).secs();
    let backfill = RunId::new(job, Cause::Backfill { operation: 0, second });
    let mut rerun = history(RunId::new(job, Cause::Rerun(1)), 9, at(40), Status::Succeeded);
    rerun.finished = at(39);
    desk.commit(vec![
        add(attempt(job, 30, 5, Status::TimedOut)),
        add(history(backfill, 6, at(30), Status::Succeeded)),
        // One that finished earlier does not count, whatever its token.
        add(rerun),
        add(attempt(job, 40, 7, Status::Failed)),
    ]);
    let expected =
        [outcome(10, 10, "rs"), outcome(20, 20, "r"), outcome(30, 30, "rs"), outcome(40, 40, "r")];
    assert_eq!(outcomes(&desk, job, 0, 100, 99), expected);
}

pub fn verdicts_are_not_runs(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    desk.commit(vec![
        add(attempt(job, 10, 0, Status::SkippedOverlap)),
        add(attempt(job, 20, 0, Status::Missed)),
        // Cancelled before it started: there was a run.
        add(attempt(job, 30, 0, Status::Cancelled)),
        add(attempt(job, 40, 0, Status::SkippedPaused)),
    ]);
    let second = at(40).secs();
    let backfill = RunId::new(job, Cause::Backfill { operation: 5, second });
    desk.commit(vec![add(history(backfill, 3, at(40), Status::Succeeded))]);
    let expected =
        [outcome(10, 10, ""), outcome(20, 20, ""), outcome(30, 30, "r"), outcome(40, 40, "rs")];
    assert_eq!(outcomes(&desk, job, 0, 100, 99), expected);
}

pub fn live_runs_count(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    let second = at(30).secs();
    let causes = [
        (10, Cause::Occurrence(at(10))),
        (20, Cause::Occurrence(at(20))),
        (30, Cause::Backfill { operation: 1, second }),
        (40, Cause::Rerun(3)),
    ];
    for (secs, cause) in causes {
        let mut row = run(RunId::new(job, cause), RunState::Dead, desk.now());
        row.nominal = at(secs);
        desk.commit(vec![insert_run(&row)]);
    }
    desk.commit(vec![
        add(attempt(job, 20, 1, Status::Failed)),
        add(attempt(job, 40, 2, Status::Succeeded)),
    ]);
    let expected = [
        outcome(10, 10, "rl"),
        outcome(20, 20, "rl"),
        outcome(30, 30, "rl"),
        outcome(40, 40, "rsl"),
    ];
    assert_eq!(outcomes(&desk, job, 0, 100, 99), expected);
}

pub fn bounds_of_outcomes(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    for secs in [10, 20, 30] {
        desk.commit(vec![add(attempt(job, secs, 1, Status::Succeeded))]);
        let id = RunId::new(job, Cause::Occurrence(at(secs + 5)));
        let mut row = run(id, RunState::Ready, desk.now());
        row.nominal = at(secs + 5);
        desk.commit(vec![insert_run(&row)]);
    }
    let seen = |after, until| -> Vec<i64> {
        let outcomes = outcomes(&desk, job, after, until, 99);
        outcomes.iter().map(|outcome| outcome.nominal.since(at(0)).micros() / 1_000_000).collect()
    };
    assert_eq!(seen(9, 35), [10, 15, 20, 25, 30, 35]);
    assert_eq!(seen(10, 30), [15, 20, 25, 30]);
    assert_eq!(seen(15, 25), [20, 25]);
    assert_eq!(seen(20, 20), []);
    assert_eq!(seen(30, 10), []);
    assert_eq!(seen(35, 99), []);
}

pub fn ranges_that_overlap_are_whole(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    for (from, until) in [(10, 20), (30, 40), (50, 60)] {
        let mut row = attempt(job, from, 0, Status::Missed);
        (row.until, row.count) = (Some(at(until)), 11);
        desk.commit(vec![add(row)]);
    }
    desk.commit(vec![add(attempt(job, 25, 1, Status::Succeeded))]);
    let all =
        [outcome(10, 20, ""), outcome(25, 25, "rs"), outcome(30, 40, ""), outcome(50, 60, "")];
    assert_eq!(outcomes(&desk, job, 0, 100, 99), all);
    assert_eq!(outcomes(&desk, job, 15, 35, 99), all[..3]);
    assert_eq!(outcomes(&desk, job, 19, 30, 99), all[..3]);
    assert_eq!(outcomes(&desk, job, 20, 29, 99), all[1..2]);
    assert_eq!(outcomes(&desk, job, 52, 54, 99), all[3..]);
}

pub fn triggers_do_not_count(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    let id = RunId::new(job, Cause::Trigger(9));
    let mut live = run(RunId::new(job, Cause::Trigger(8)), RunState::Ready, desk.now());
    live.nominal = at(10);
    desk.commit(vec![insert_run(&live), add(history(id, 1, at(10), Status::Succeeded))]);
    assert_eq!(outcomes(&desk, job, 0, 100, 99), []);
}

pub fn other_jobs_do_not_count(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let (hi, lo) = job_id(desk.shard, 1).bits();
    let jobs = [lo - 1, lo, lo + 1].map(|lo| JobId::from_bits(hi, lo));
    for job in [jobs[0], jobs[2]] {
        let id = RunId::new(job, Cause::Occurrence(at(20)));
        let mut row = run(id, RunState::Ready, desk.now());
        row.nominal = at(20);
        let mut range = attempt(job, 5, 0, Status::Missed);
        range.until = Some(at(50));
        desk.commit(vec![
            insert_run(&row),
            add(attempt(job, 10, 1, Status::Succeeded)),
            add(range),
        ]);
    }
    assert_eq!(outcomes(&desk, jobs[1], 0, 100, 99), []);
    assert_eq!(outcomes(&desk, jobs[2], 0, 100, 99).len(), 3);
}

pub fn outcomes_are_limited(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    for secs in 1..20 {
        // Several rows for each: the limit counts instants.
        desk.commit(vec![
            add(attempt(job, secs, 1, Status::Failed)),
            add(attempt(job, secs, 2, Status::Lost)),
            add(attempt(job, secs, 3, Status::Succeeded)),
        ]);
    }
    let mut live = run(RunId::new(job, Cause::Rerun(1)), RunState::Ready, desk.now());
    live.nominal = at(0).plus(Span::from_millis(5_500));
    desk.commit(vec![insert_run(&live)]);
    let all = outcomes(&desk, job, 0, 100, 99);
    assert_eq!(all.len(), 20);
    for limit in [1, 2, 5, 6, 7, 19, 20] {
        assert_eq!(outcomes(&desk, job, 0, 100, limit), all[..limit]);
    }
}

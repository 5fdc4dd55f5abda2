//! Recurring jobs: marks, overlap, catch-up, pause.

use crate::support::*;
use model::row::{BacklogKind, JobState, Key};
use model::{CatchUp, Cause, JobId, Lane, Overlap, RunState, Span, Spec, Status, Time};
use shard::Event;
use shard::command::{Answer, Command, Leased};

fn nominals(leased: &[Leased]) -> Vec<i64> {
    leased.iter().map(|l| l.nominal.since(START).micros() / 1_000_000).collect()
}

fn backlogs(world: &World) -> Vec<model::row::BacklogId> {
    let id = |key| match key {
        Key::Backlog(id) => Some(id),
        _ => None,
    };
    world.hot().into_iter().filter_map(id).collect()
}

/// Every instant up to the mark has exactly one verdict: a run, or a row of its own or a range.
fn assert_each_instant_has_one_verdict(world: &World, job: JobId, every: i64, until: Time) {
    let row = world.job_row(job);
    let mut seen = std::collections::BTreeMap::<i64, u32>::new();
    let mut add = |from: Time, to: Time| {
        let mut at = from;
        while at <= to {
            *seen.entry(at.since(START).micros() / 1_000_000).or_default() += 1;
            at = at.plus(Span::from_secs(every));
        }
    };
    for (_, first, last, count) in world.verdicts(job) {
        assert_eq!((last.since(first).micros() / 1_000_000 / every + 1) as u64, count);
        add(first, last);
    }
    let made = |run: model::RunId| match run.cause() {
        Cause::Occurrence(at) if run.job == job => Some(at),
        _ => None,
    };
    let mut runs: std::collections::BTreeSet<model::RunId> = world
        .history()
        .iter()
        .filter(|row| !row.status.is_verdict_only())
        .map(|row| row.run)
        .collect();
    runs.extend(world.hot().into_iter().filter_map(|key| match key {
        Key::Run(run) => Some(run),
        _ => None,
    }));
    runs.into_iter().filter_map(made).for_each(|at| add(at, at));
    for id in backlogs(world) {
        if let Some(model::row::Row::Backlog(backlog)) = world.row(Key::Backlog(id)) {
            let rest = backlog.cursor.since(START).micros().div_euclid(every * 1_000_000) + 1;
            add(start_plus(rest * every), backlog.until);
        }
    }
    let mut at = every;
    while start_plus(at) <= until {
        let expected = u32::from(start_plus(at) <= row.mark);
        assert_eq!(seen.get(&at).copied().unwrap_or(0), expected, "instant {at}");
        at += every;
    }
}

#[test]
fn every_instant_fires_once_and_moves_the_mark() {
    let mut world = World::new();
    let job = world.submit(every(10));
    for n in 1..=20 {
        world.secs(10);
        let leased = world.claim_one();
        assert_eq!(leased.run, occurrence(job, start_plus(10 * n)));
        assert_eq!(leased.due, start_plus(10 * n));
        world.succeed(&leased);
        assert_eq!(world.job_row(job).mark, start_plus(10 * n));
        if n % 7 == 0 {
            world.restart();
        }
    }
    assert_eq!(world.job_row(job).fired, 20);
    assert_eq!(world.history().len(), 20);
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn a_schedule_ends_after_its_last_run() {
    let mut world = World::new();
    let mut spec = every(10);
    spec.schedule.max_runs = Some(2);
    let job = world.submit(spec);
    world.secs(100);
    for _ in 0..2 {
        let leased = world.claim(10);
        for l in &leased {
            world.succeed(l);
        }
    }
    assert_eq!(world.job_row(job).state, JobState::Ended);
    assert_eq!(world.history().len(), 2);
}

#[test]
fn queue_one_lets_one_wait_and_skips_the_others() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::QueueOne));
    world.secs(10);
    let first = world.claim_one();
    world.secs(25);
    assert_eq!(world.claim(10), [], "the second waits for the first");
    let blocked = world.run_row(occurrence(job, start_plus(20))).unwrap();
    assert_eq!(blocked.state, RunState::Blocked);
    let skipped = (Status::SkippedOverlap, start_plus(30), start_plus(30), 1);
    assert_eq!(world.verdicts(job), [skipped]);
    world.restart();
    // The lease was counted as renewed at load.
    world.succeed(&first);
    let second = world.claim_one();
    assert_eq!(second.run, occurrence(job, start_plus(20)));
    world.succeed(&second);
    world.secs(5);
    assert_eq!(world.claim_one().run, occurrence(job, start_plus(40)));
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn skip_skips_while_one_is_unfinished_its_retries_included() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::Skip));
    world.secs(10);
    let first = world.claim_one();
    world.fail(&first);
    world.secs(25);
    assert_eq!(world.verdicts(job).len(), 2);
    let retry = world.claim_one();
    assert_eq!((retry.run, retry.attempt), (first.run, 2));
    world.succeed(&retry);
    world.secs(5);
    assert_eq!(world.claim_one().nominal, start_plus(40));
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn allow_runs_all_of_them_side_by_side() {
    let mut world = World::new();
    world.submit(with_overlap(10, Overlap::Allow));
    world.secs(30);
    assert_eq!(nominals(&world.claim(10)), [10, 20, 30]);
}

#[test]
fn cancel_running_stops_the_old_one_and_the_new_one_waits_for_it() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::CancelRunning));
    world.secs(10);
    let first = world.claim_one();
    world.secs(10);
    assert_eq!(world.stops, [first.run]);
    assert_eq!(world.claim(10), []);
    world.secs(10);
    assert_eq!(world.claim(10), []);
    world.fail(&first);
    assert_eq!(world.statuses(first.run), [Status::Cancelled]);
    assert_eq!(world.claim_one().nominal, start_plus(30), "20 was replaced while it waited");
    assert_eq!(world.statuses(occurrence(job, start_plus(20))), [Status::Cancelled]);
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn cancel_running_replaces_one_that_has_not_started() {
    let mut world = World::new();
    let job = world.submit(with_overlap(10, Overlap::CancelRunning));
    world.secs(30);
    assert_eq!(nominals(&world.claim(10)), [30]);
    assert_eq!(world.statuses(occurrence(job, start_plus(10))), [Status::Cancelled]);
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn a_dead_run_does_not_hold_up_its_schedule() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.secs(10);
    let first = world.claim_one();
    world.secs(10);
    world.settle(&first, failed(false, None));
    assert_eq!(world.claim_one().nominal, start_plus(20));
    assert_eq!(world.job_row(job).live, [(1, 2)]);
}

#[test]
fn after_downtime_once_runs_the_last_missed_instant_for_all() {
    let mut world = World::new();
    let job = world.submit(every(100));
    world.down_for(Span::from_secs(990));
    world.pass(Span::from_millis(1));
    let leased = world.claim_one();
    assert_eq!(nominals(&[leased]), [900]);
    assert_eq!(world.run_row(leased.run).unwrap().flow.lane, Lane::Backfill);
    let coalesced = (Status::Coalesced, start_plus(100), start_plus(800), 8);
    assert_eq!(world.verdicts(job), [coalesced]);
    world.secs(10);
    assert_eq!(nominals(&[world.claim_one()]), [1000], "fresh ones go on beside it");
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
}

#[test]
fn once_leaves_it_to_a_fresh_instant_that_is_due_as_well() {
    let mut world = World::new();
    let job = world.submit(every(100));
    world.down_for(Span::from_secs(1_030));
    world.pass(Span::from_millis(1));
    assert_eq!(nominals(&[world.claim_one()]), [1000]);
    let coalesced = (Status::Coalesced, start_plus(100), start_plus(900), 9);
    assert_eq!(world.verdicts(job), [coalesced]);
}

#[test]
fn after_downtime_skip_records_one_range_however_many_were_missed() {
    let mut world = World::new();
    let job = world.submit(with_catch_up(1, CatchUp::Skip));
    world.down_for(Span::from_secs(30 * 86_400));
    world.pass(Span::from_millis(1));
    let verdicts = world.verdicts(job);
    assert_eq!(verdicts[0].0, Status::Missed);
    assert_eq!(verdicts[0].3, 30 * 86_400 - 61, "a minute back is not missed");
}

#[test]
fn catch_up_all_keeps_to_window_count_and_rate_while_fresh_ones_go_on() {
    let mut world = World::new();
    let catch_up = CatchUp::All { window: Span::from_secs(5_000), max: 20, per_second: 2 };
    let job = world.submit(with_catch_up(100, catch_up));
    world.down_for(Span::from_secs(9_950));
    world.pass(Span::from_millis(1));
    // 99 instants were missed, 49 lie in the window, 20 are kept: 8,000 to 9,900 less the last
    // minute, which is not missed but fresh.
    let verdicts = world.verdicts(job);
    assert_eq!(verdicts.len(), 1);
    assert_eq!((verdicts[0].0, verdicts[0].3), (Status::Missed, 78));
    assert_eq!(nominals(&world.claim(100)), [9_900, 7_900, 8_000], "two a second beside the fresh");
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
    world.pass(Span::from_millis(3_000));
    assert_eq!(world.claim(100).len(), 6);
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
    world.restart();
    world.secs(60);
    assert_eq!(backlogs(&world), []);
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
    assert_eq!(world.job_row(job).fired, 22);
}

#[test]
fn a_catch_up_all_by_window_only() {
    let mut world = World::new();
    let catch_up = CatchUp::All { window: Span::from_secs(500), max: 100, per_second: 100 };
    let job = world.submit(with_catch_up(100, catch_up));
    world.down_for(Span::from_secs(1_990));
    world.secs(5);
    assert_eq!(world.verdicts(job), [(Status::Missed, start_plus(100), start_plus(1_400), 14)]);
    assert_eq!(world.claim(100).len(), 5);
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
}

#[test]
fn an_update_does_not_touch_a_catch_up_under_way() {
    let mut world = World::new();
    let catch_up = CatchUp::All { window: Span::from_secs(5_000), max: 20, per_second: 2 };
    let job = world.submit(with_catch_up(100, catch_up));
    world.down_for(Span::from_secs(9_950));
    world.secs(1);
    let spec = std::sync::Arc::new(Spec { catch_up, ..every(70) });
    let answer = world.call(Command::Update { job, spec, if_version: Some(1) });
    assert_eq!(answer, Answer::Job(job, 2));
    world.secs(15);
    let leased = world.claim(100);
    let old: Vec<_> = leased.iter().filter(|l| l.version == 1).collect();
    assert_eq!(old.len(), 21, "20 caught up and one fresh, all of the old version");
    for l in &leased {
        world.succeed(l);
    }
    assert!(world.row(Key::Spec(job, 1)).is_some(), "one can go back to it");
}

#[test]
fn a_pause_is_one_range_verdict_and_fires_nothing() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.secs(15);
    let pause = Command::Pause { job, reason: "holidays".into(), until: None };
    assert_eq!(world.call(pause), Answer::Job(job, 1));
    let leased = world.claim_one();
    world.succeed(&leased);
    world.secs(1_000);
    assert_eq!(world.claim(10), []);
    world.restart();
    assert_eq!(world.call(Command::Resume(job)), Answer::Job(job, 1));
    let paused = (Status::SkippedPaused, start_plus(20), start_plus(1_010), 100);
    assert_eq!(world.verdicts(job), [paused]);
    world.secs(5);
    assert_eq!(world.claim_one().nominal, start_plus(1_020));
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn a_pause_with_an_end_resumes_by_itself() {
    let mut world = World::new();
    let job = world.submit(every(10));
    let until = Some(start_plus(95));
    world.call(Command::Pause { job, reason: "".into(), until });
    world.secs(94);
    assert_eq!(world.claim(10), []);
    world.restart();
    world.secs(6);
    assert_eq!(world.claim_one().nominal, start_plus(100));
    assert_each_instant_has_one_verdict(&world, job, 10, world.now);
}

#[test]
fn an_update_of_a_paused_job_gives_the_pause_so_far_its_verdict() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.call(Command::Pause { job, reason: "".into(), until: None });
    world.secs(55);
    let spec = std::sync::Arc::new(every(20));
    world.call(Command::Update { job, spec, if_version: None });
    world.secs(45);
    world.call(Command::Resume(job));
    let paused =
        |first, last, count| (Status::SkippedPaused, start_plus(first), start_plus(last), count);
    // The new interval is counted from the update: 75, 95.
    assert_eq!(world.verdicts(job), [paused(10, 50, 5), paused(75, 95, 2)]);
}

#[test]
fn an_update_keeps_an_instant_whose_jitter_is_not_over() {
    let mut world = World::new();
    let mut old = every(100);
    old.schedule.jitter = Some(Span::from_secs(90));
    let job = world.submit(old);
    let due = world.job_row(job).due.unwrap();
    assert!(due > start_plus(101), "this job's jitter is {due:?}: take another id");
    world.run_to(start_plus(101));
    let spec = std::sync::Arc::new(every(1_000));
    world.call(Command::Update { job, spec, if_version: None });
    assert_eq!(world.job_row(job).active, Some(occurrence(job, start_plus(100))), "it counts");
    world.run_to(due.minus(Span::from_millis(1)));
    assert_eq!(world.claim(1), []);
    world.run_to(due.ceil_millis());
    let leased = world.claim_one();
    assert_eq!((leased.nominal, leased.version), (start_plus(100), 1));
    assert!(!world.saw(Event::Divergence));
}

#[test]
fn a_catch_up_row_is_named_after_where_it_begins() {
    let mut world = World::new();
    let catch_up = CatchUp::All { window: Span::from_secs(86_400), max: 1_000, per_second: 1 };
    let job = world.submit(with_catch_up(100, catch_up));
    for _ in 0..3 {
        world.down_for(Span::from_secs(2_000));
        world.secs(2);
    }
    assert_eq!(backlogs(&world).len(), 3);
    assert!(backlogs(&world).iter().all(|id| matches!(id.kind, BacklogKind::CatchUp { .. })));
    assert_each_instant_has_one_verdict(&world, job, 100, world.now);
}

/// The anchor of an interval is the instant of the decision. If the batch with that decision is
/// dropped and the job is made again later, what was compiled for the first one must go too.
#[test]
fn a_schedule_compiled_in_a_batch_that_was_dropped_is_compiled_again() {
    let mut world = World::new();
    world.hold_commits = true;
    let id = world.job_id();
    let job = shard::command::NewJob {
        id,
        spec: std::sync::Arc::new(every(100)),
        key: None,
        paused: false,
    };
    let submit = world.send(Command::Submit(vec![job]));
    // Used at once, while the batch is under way: the schedule is compiled and kept.
    let pause = world.send(Command::Pause { job: id, reason: "".into(), until: None });
    let resume = world.send(Command::Resume(id));
    world.fates.push_back(Fate::Lost);
    world.set_now(start_plus(7));
    world.commit_held();
    for id in [submit, pause, resume] {
        world.answer(id);
    }
    world.secs(300);
    assert_eq!(nominals(&world.claim(10)), [107]);
    let mark = world.job_row(id).mark;
    assert_eq!(mark.since(start_plus(7)).micros() % 100_000_000, 0, "{mark:?}");
}

#[test]
fn a_catch_up_window_shorter_than_a_minute_writes_no_verdict_over_what_fires() {
    for window in [1, 15, 59] {
        let catch_up = CatchUp::All { window: Span::from_secs(window), max: 100, per_second: 10 };
        let mut world = World::new();
        let job = world.submit(Spec { overlap: Overlap::Allow, ..with_catch_up(10, catch_up) });
        world.down_for(Span::from_secs(205));
        world.secs(30);
        let until = world.job_row(job).mark;
        assert_each_instant_has_one_verdict(&world, job, 10, until);
    }
}

//! Fires that would be too much happen later: the same run, late and not missed, with a note that says why.

use crate::support::*;
use model::row::{HistoryRow, Key, Row};
use model::{CatchUp, JobId, Namespace, Overlap, Rate, Span, Spec, Status, Time, Token};
use shard::command::{Answer, Command};
use shard::{Allowed, Event, Quotas};

const OURS: Namespace = Namespace(1);

fn fires(starts: u32, burst: u32) -> Allowed {
    let fires = Some(Rate { starts, per: Span::from_secs(60), burst });
    Allowed { fires, crowded: false }
}

const CROWDED: Allowed = Allowed { fires: None, crowded: true };

fn allow(world: &mut World, allowed: Allowed) -> Quotas {
    let quotas = Quotas::default();
    quotas.set(&[(OURS, allowed)], Allowed::default());
    world.shard.set_quotas(quotas.clone());
    quotas
}

/// Nothing of it may be lost: what is missed is skipped, and runs do not stand in each other's way.
fn strict(secs: i64) -> Spec {
    Spec { overlap: Overlap::Allow, ..with_catch_up(secs, CatchUp::Skip) }
}

fn note(world: &World, job: JobId, at: Time) -> Option<HistoryRow> {
    match world.row(Key::History(occurrence(job, at), Token::DELAYED)) {
        Some(Row::History(row)) => Some(*row),
        _ => None,
    }
}

fn fired(world: &World, job: JobId, at: Time) -> bool {
    world.run_row(occurrence(job, at)).is_some()
}

#[test]
fn beyond_the_rate_a_fire_comes_later_and_is_the_run_of_its_instant() {
    let mut world = World::new();
    allow(&mut world, fires(6, 2));
    let jobs: Vec<JobId> = (0..5).map(|_| world.submit(strict(100))).collect();
    let at = start_plus(100);
    let count = |world: &World| jobs.iter().filter(|job| fired(world, **job, at)).count();
    world.run_to(at);
    assert_eq!(count(&world), 2, "the burst");
    let waits = jobs.iter().find(|job| !fired(&world, **job, at)).unwrap();
    let row = world.job_row(*waits);
    let pause = row.pause.clone().unwrap();
    assert_eq!((row.next, pause.since, &*pause.reason), (Some(at), at, "fires_quota"));
    assert!(row.mark < at && row.due == pause.until && row.due > Some(at), "{row:?}");
    for (later, expected) in [(109, 2), (110, 3), (120, 4), (131, 5)] {
        world.run_to(start_plus(later));
        assert_eq!(count(&world), expected, "at {later}");
    }
    let notes: Vec<HistoryRow> = jobs.iter().filter_map(|job| note(&world, *job, at)).collect();
    assert_eq!(notes.len(), 3);
    for row in notes {
        assert_eq!((row.status, row.due, row.nominal), (Status::Delayed, at, at));
        assert_eq!(row.error.as_deref(), Some("fires_quota"));
        let run = world.run_row(row.run).unwrap();
        assert!(run.due >= start_plus(110) && run.due == row.finished, "its time is when it came");
    }
    for job in &jobs {
        assert_eq!(world.verdicts(*job), []);
        assert_eq!(world.job_row(*job).pause, None);
    }
    assert!(world.saw(Event::FirePutOff) && world.saw(Event::FiredLate));
}

#[test]
fn however_long_it_waited_it_is_late_and_not_missed_for_the_next_owner_too() {
    let mut world = World::new();
    let quotas = allow(&mut world, CROWDED);
    let job = world.submit(strict(100));
    world.run_to(start_plus(390));
    assert_eq!(world.hot().iter().filter(|key| matches!(key, Key::Run(_))).count(), 0);
    world.restart();
    world.shard.set_quotas(quotas.clone());
    world.secs(200);
    assert_eq!(&*world.job_row(job).pause.unwrap().reason, "waiting_quota");
    quotas.set(&[(OURS, Allowed::default())], Allowed::default());
    world.secs(130);
    assert_eq!(world.verdicts(job), [], "nothing was missed");
    for instant in 1..=7 {
        let at = start_plus(instant * 100);
        assert!(fired(&world, job, at), "{instant}");
        assert_eq!(note(&world, job, at).is_some(), instant < 7, "the last was on time");
    }
    assert_eq!(world.job_row(job).pause, None);
}

#[test]
fn whoever_changes_the_job_decides_what_waits() {
    let mut world = World::new();
    allow(&mut world, CROWDED);
    let job = world.submit(strict(100));
    world.run_to(start_plus(250));
    let pause = Command::Pause { job, reason: "stop".into(), until: None };
    assert!(matches!(world.call(pause), Answer::Job(..)));
    // The catch-up policy leaves out what is older than a minute; the other is made at once.
    let missed = (Status::Missed, start_plus(100), start_plus(100), 1);
    assert_eq!(world.verdicts(job), [missed]);
    assert!(fired(&world, job, start_plus(200)));
    assert_eq!(&*world.job_row(job).pause.unwrap().reason, "stop");
}

#[test]
fn a_late_fire_has_all_of_its_time_to_start() {
    let mut world = World::new();
    let quotas = allow(&mut world, CROWDED);
    let within = model::Within { start: Some(Span::from_secs(10)), finish: None };
    let job = world.submit(Spec { within, ..strict(1_000) });
    world.run_to(start_plus(1_100));
    quotas.set(&[(OURS, Allowed::default())], Allowed::default());
    while !fired(&world, job, start_plus(1_000)) {
        world.secs(1);
        assert!(world.now < start_plus(1_300), "it never fires");
    }
    assert_eq!(world.claim_one().nominal, start_plus(1_000), "it did not expire while it waited");
}

/// Jobs of any pace under quotas that come and go, owners that die: every instant gets its own run, and in
/// no stretch of time more fire than may.
#[test]
fn nothing_is_dropped_and_nothing_fires_twice_whatever_quotas_do() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below) as i64
    };
    for story in 0..12 {
        let mut world = World::new();
        let rate = fires(20 + random(60) as u32, 1 + random(6) as u32);
        let quotas = allow(&mut world, rate);
        let paces: Vec<i64> = (0..6).map(|_| 20 + random(80)).collect();
        let jobs: Vec<JobId> = paces.iter().map(|pace| world.submit(strict(*pace))).collect();
        for _ in 0..40 {
            let crowded = random(3) == 0;
            quotas.set(&[(OURS, Allowed { crowded, ..rate })], Allowed::default());
            world.secs(1 + random(25));
            if random(8) == 0 {
                world.restart();
                world.shard.set_quotas(quotas.clone());
            }
        }
        let end = world.now;
        quotas.set(&[(OURS, Allowed::default())], Allowed::default());
        world.secs(130);
        for (job, pace) in jobs.iter().zip(&paces) {
            assert_eq!(world.verdicts(*job), [], "story {story}");
            let mut at = start_plus(*pace);
            while at <= end {
                assert!(fired(&world, *job, at), "story {story}: {at:?} of {pace}");
                at = at.plus(Span::from_secs(*pace));
            }
        }
        let made = world.hot().iter().filter(|key| matches!(key, Key::Run(_))).count();
        let since = |pace: &i64| world.now.since(START).micros() / 1_000_000 / pace;
        assert_eq!(made as i64, paces.iter().map(since).sum::<i64>(), "story {story}");
        assert!(world.saw(Event::FiredLate), "story {story} delayed nothing");
    }
}

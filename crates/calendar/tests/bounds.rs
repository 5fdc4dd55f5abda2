//! Bounds, intervals, single instants, numbers of runs, jitter, and arguments at the ends of time.

// Helpers of tests may panic; clippy knows only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use calendar::Schedule;
use model::{Dst, Gap, Repeat, ScheduleSpec, Span, Time, When};
use support::rng::Rng;
use support::{at, cron};

const CREATED: Time = Time::from_secs(1_800_000_000);

fn new(spec: &ScheduleSpec) -> Schedule {
    Schedule::new(spec, b"job", CREATED).unwrap()
}

fn all(schedule: &Schedule) -> Vec<i64> {
    schedule.instants(Time::MIN, Time::MAX).take(100).map(|t| t.micros()).collect()
}

fn every(secs: i64) -> ScheduleSpec {
    ScheduleSpec::new(When::Every(Span::from_secs(secs)))
}

#[test]
fn an_interval_starts_at_its_start_else_one_interval_after_creation() {
    let start = Time::from_micros(1_700_000_000_000_123);
    let bounded = ScheduleSpec { start_at: Some(start), max_runs: Some(3), ..every(10) };
    let s = start.micros();
    assert_eq!(all(&new(&bounded)), [s, s + 10_000_000, s + 20_000_000]);
    let free = ScheduleSpec { max_runs: Some(2), ..every(10) };
    let c = CREATED.micros();
    assert_eq!(all(&new(&free)), [c + 10_000_000, c + 20_000_000]);
    let schedule = new(&every(7));
    assert_eq!(schedule.count(CREATED, CREATED.plus(Span::from_secs(7))), 0);
    assert_eq!(schedule.count(CREATED, CREATED.plus(Span::from_micros(7_000_001))), 1);
    assert_eq!(
        schedule.count(Time::MIN, Time::MAX),
        ((Time::MAX.micros() - c - 1) / 7_000_000) as u64
    );
    assert_eq!(schedule.previous(CREATED.plus(Span::from_secs(7))), None);
}

#[test]
fn single_instants() {
    let t = at("2027-05-05T05:05:05.000005Z");
    let once = new(&ScheduleSpec::new(When::At(t)));
    assert_eq!(all(&once), [t.micros()]);
    assert_eq!((once.next(t), once.previous(t)), (None, None));
    assert_eq!(once.count(t, t), 0);
    assert_eq!(once.count(t, t.plus(Span::from_micros(1))), 1);
    assert_eq!(all(&new(&ScheduleSpec::new(When::Now))), [CREATED.micros()]);
    let delayed = new(&ScheduleSpec::new(When::Delay(Span::from_micros(9))));
    assert_eq!(all(&delayed), [CREATED.micros() + 9]);
    let late = ScheduleSpec {
        start_at: Some(t.plus(Span::from_micros(1))),
        ..ScheduleSpec::new(When::At(t))
    };
    assert!(all(&new(&late)).is_empty());
}

#[test]
fn bounds_are_inclusive() {
    let (start, end) = (at("2027-01-02T03:00:00Z"), at("2027-01-04T03:00:00Z"));
    let spec =
        ScheduleSpec { start_at: Some(start), end_at: Some(end), ..cron("0 3 * * *", "UTC") };
    let schedule = new(&spec);
    assert_eq!(schedule.count(Time::MIN, Time::MAX), 3);
    assert_eq!(schedule.next(Time::MIN), Some(start));
    assert_eq!(schedule.previous(Time::MAX), Some(end));
    let tighter = ScheduleSpec {
        start_at: Some(start.plus(Span::from_micros(1))),
        end_at: Some(end.minus(Span::from_micros(1))),
        ..spec
    };
    assert_eq!(all(&new(&tighter)), [at("2027-01-03T03:00:00Z").micros()]);
}

#[test]
fn the_nth_instant_is_the_last() {
    let mut rng = Rng::from_env("the_nth_instant_is_the_last");
    for expression in ["*/7 * * * *", "30 2 * * *", "0 0 29 2 1", "* * * * * *", "0 0 30 2 *"] {
        for zone in ["UTC", "Europe/Zurich", "Australia/Lord_Howe"] {
            let start = Time::from_micros(rng.range(0, 4_000_000_000_000_000));
            let runs = rng.range(1, 50) as u64;
            let spec = ScheduleSpec {
                start_at: Some(start),
                max_runs: Some(runs),
                dst: Dst::default(),
                ..cron(expression, zone)
            };
            let free = new(&ScheduleSpec { max_runs: None, ..spec.clone() });
            let expected: Vec<Time> = free.instants(start, Time::MAX).take(runs as usize).collect();
            let schedule = new(&spec);
            let got: Vec<Time> = schedule.instants(Time::MIN, Time::MAX).collect();
            assert_eq!(got, expected, "{expression} {zone} {runs} runs from {start:?}");
            assert_eq!(schedule.count(Time::MIN, Time::MAX), expected.len() as u64);
        }
    }
    let endless = ScheduleSpec { max_runs: Some(u64::MAX), ..cron("* * * * * *", "Europe/Zurich") };
    assert!(new(&endless).next(CREATED).is_some());
    // Without a start they are counted from creation; what came before stays for backfills.
    let free = new(&ScheduleSpec { max_runs: Some(2), ..cron("0 * * * *", "UTC") });
    assert_eq!(free.count(CREATED, Time::MAX), 2 + u64::from(CREATED.secs() % 3_600 == 0));
}

#[test]
fn jitter_keeps_the_order() {
    for (window, period) in [(600, 3_600), (7_200, 3_600)] {
        for seed in 0..50_u8 {
            let spec =
                ScheduleSpec { jitter: Some(Span::from_secs(window)), ..cron("0 * * * *", "UTC") };
            let schedule = Schedule::new(&spec, &[seed], CREATED).unwrap();
            let nominal = schedule.next(CREATED).unwrap();
            let next = schedule.next(nominal).unwrap();
            let first = schedule.occurrence(nominal);
            assert_eq!(first, schedule.occurrence(nominal));
            assert!(first.effective >= nominal && first.effective < next);
            assert!(first.effective < schedule.occurrence(next).effective);
            assert!(first.effective.since(nominal) < Span::from_secs(window.min(period)));
        }
    }
    // A promise: the offset of a job is for life.
    let spec = ScheduleSpec { jitter: Some(Span::from_secs(600)), ..cron("0 * * * *", "UTC") };
    let schedule = new(&spec);
    let nominal = schedule.next(CREATED).unwrap();
    assert_eq!(schedule.occurrence(nominal).effective.since(nominal).micros(), 202_421_786);
}

#[test]
fn wrong_bounds_are_refused() {
    let field =
        |spec: ScheduleSpec| Schedule::new(&spec, b"", CREATED).map(drop).unwrap_err().field;
    let far = Time::from_micros(i64::MAX);
    let base = || every(60);
    assert_eq!(field(every(0)), "every");
    assert_eq!(field(every(-1)), "every");
    assert_eq!(field(cron("@every 1ms", "UTC")), "cron");
    assert_eq!(field(ScheduleSpec::new(When::At(far))), "at");
    assert_eq!(field(ScheduleSpec::new(When::At(Time::from_secs(-1)))), "at");
    assert_eq!(field(ScheduleSpec::new(When::Delay(Span::from_micros(-1)))), "delay");
    assert_eq!(field(ScheduleSpec::new(When::Delay(Span::from_micros(i64::MAX)))), "delay");
    assert_eq!(field(ScheduleSpec { start_at: Some(far), ..base() }), "start_at");
    assert_eq!(field(ScheduleSpec { end_at: Some(far), ..base() }), "end_at");
    let (start, end) = (Some(Time::from_secs(2)), Some(Time::from_secs(1)));
    assert_eq!(field(ScheduleSpec { start_at: start, end_at: end, ..base() }), "end_at");
    assert_eq!(field(ScheduleSpec { max_runs: Some(0), ..base() }), "max_runs");
    assert_eq!(field(ScheduleSpec { jitter: Some(Span::from_micros(-1)), ..base() }), "jitter");
    assert_eq!(field(ScheduleSpec { timezone: Some("Mars".into()), ..base() }), "timezone");
}

/// Counts over centuries are multiplied out: they must be sums of counts over years.
#[test]
fn counts_over_centuries_are_sums() {
    let mut rng = Rng::from_env("counts_over_centuries_are_sums");
    let years = Span::from_secs(3_652_425 * 86_400 / 1_000);
    for spec in [
        cron("30 2 * * *", "Europe/Berlin"),
        cron("*/30 1-3 */5 * 0,3", "America/New_York"),
        cron("15 2 * * 5L", "Australia/Lord_Howe"),
        cron("0 0 29 2 *", "Africa/Casablanca"),
        cron("0 0 29 2 *", "UTC"),
    ] {
        for repeat in [Repeat::First, Repeat::Second, Repeat::Both] {
            let dst = Dst { gap: Gap::Run, repeat };
            let schedule = new(&ScheduleSpec { dst, ..spec.clone() });
            let from = Time::from_secs(rng.range(0, 8_000_000_000));
            let mut sum = 0;
            let mut at = from;
            while at < Time::MAX {
                sum += schedule.count(at, at.plus(years));
                at = at.plus(years);
            }
            assert_eq!(schedule.count(from, at), sum, "{spec:?} from {from:?}");
        }
    }
}

#[test]
fn any_instant_may_be_asked() {
    let specs = [
        cron("* * * * * *", "Pacific/Kiritimati"),
        cron("0 0 29 2 1", "America/New_York"),
        cron("30 2 * * *", "Europe/Berlin"),
        cron("0 0 31 12 *", "Pacific/Pago_Pago"),
        every(1),
        ScheduleSpec::new(When::Every(Span::from_micros(i64::MAX))),
        ScheduleSpec::new(When::At(Time::MAX)),
    ];
    let edges = [
        i64::MIN,
        i64::MIN + 1,
        -1,
        0,
        1,
        Time::MAX.micros() - 1,
        Time::MAX.micros(),
        i64::MAX - 1,
        i64::MAX,
    ];
    for spec in &specs {
        let schedule = new(spec);
        for a in edges.map(Time::from_micros) {
            let range = Time::MIN..=Time::MAX;
            assert!(schedule.next(a).is_none_or(|t| t > a && range.contains(&t)));
            assert!(schedule.previous(a).is_none_or(|t| t < a && range.contains(&t)));
            let _ = schedule.occurrence(a);
            for b in edges.map(Time::from_micros) {
                let count = schedule.count(a, b);
                let few = schedule.instants(a, b).take(3).count() as u64;
                assert_eq!(count.min(3), few, "{spec:?} {a:?} {b:?}");
            }
        }
        assert!(
            schedule.dst_dates(Time::from_micros(i64::MIN), Time::from_micros(i64::MAX)).len()
                < 20_000
        );
    }
}

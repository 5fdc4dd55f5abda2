//! Arbitrary zone, instant, policy and expression: `next`, `previous` and `count` agree and end.
#![no_main]

use calendar::{Schedule, zone_names};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use model::{Dialect, Dst, Gap, Repeat, ScheduleSpec, Span, Time, When};
use std::sync::LazyLock;

static ZONES: LazyLock<Vec<&'static str>> = LazyLock::new(|| zone_names().collect());

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    expression: &'a str,
    /// Numbers for a well-formed expression; free text alone would mostly be refused.
    fields: [u8; 8],
    free: bool,
    quartz: bool,
    zone: u16,
    gap: bool,
    repeat: u8,
    at: i64,
    /// Small instants are likelier to be in use: any i64 would mostly be past the year 9999.
    near: bool,
    max_runs: Option<u64>,
    jitter: Option<i64>,
}

fn expression(f: &[u8; 8]) -> String {
    let time = |n: u8, size: u8| match n % 5 {
        0 => "*".to_owned(),
        1 => format!("*/{}", n / 5 + 1),
        2 => format!("{},{}", n % size, (n / 5) % size),
        _ => (n % size).to_string(),
    };
    let day = match f[3] % 7 {
        0 => "*".to_owned(),
        1 => format!("L-{}", f[3] % 31),
        2 => "LW".to_owned(),
        3 => format!("{}W", f[3] % 31 + 1),
        4 => format!("*/{}", f[3] % 31 + 1),
        _ => (f[3] % 31 + 1).to_string(),
    };
    let month = if f[4] % 3 == 0 { (f[4] % 12 + 1).to_string() } else { "*".to_owned() };
    let weekday = match f[5] % 5 {
        0 => format!("{}#{}", f[5] % 7 + 1, f[6] % 5 + 1),
        1 => format!("{}L", f[5] % 7 + 1),
        2 => (f[5] % 7 + 1).to_string(),
        _ => "*".to_owned(),
    };
    let second = if f[7] % 4 == 0 { time(f[0], 60) + " " } else { String::new() };
    format!("{second}{} {} {day} {month} {weekday}", time(f[1], 60), time(f[2], 24))
}

fuzz_target!(|input: Input| {
    let text = if input.free { input.expression.to_owned() } else { expression(&input.fields) };
    let dialect = if input.quartz { Dialect::Quartz } else { Dialect::Cron };
    let mut spec = ScheduleSpec::new(When::Cron { expression: text, dialect });
    spec.timezone = Some(ZONES[usize::from(input.zone) % ZONES.len()].to_owned());
    spec.dst = Dst {
        gap: if input.gap { Gap::Run } else { Gap::Skip },
        repeat: [Repeat::First, Repeat::Second, Repeat::Both][usize::from(input.repeat % 3)],
    };
    spec.max_runs = input.max_runs;
    spec.jitter = input.jitter.map(Span::from_micros);
    let at = if input.near { input.at % (Time::MAX.micros() / 40) } else { input.at };
    let at = Time::from_micros(at);
    let Ok(schedule) = Schedule::new(&spec, b"seed", Time::MIN) else { return };

    let (next, previous) = (schedule.next(at), schedule.previous(at));
    if let Some(next) = next {
        assert!(next > at && next <= Time::MAX);
        let after = at.plus(Span::from_micros(1));
        assert_eq!(schedule.count(after, next), 0);
        assert_eq!(schedule.count(after, next.plus(Span::from_micros(1))), 1);
        assert_eq!(schedule.previous(next.plus(Span::from_micros(1))), Some(next));
        let occurrence = schedule.occurrence(next);
        assert!(occurrence.effective >= next);
        assert!(schedule.next(next).is_none_or(|later| occurrence.effective < later));
    }
    if let Some(previous) = previous {
        assert!(previous < at && previous >= Time::MIN);
        assert_eq!(schedule.next(previous.minus(Span::from_micros(1))), Some(previous));
        assert_eq!(schedule.count(previous, at), 1);
    }
    let week = at.plus(Span::from_secs(7 * 86_400));
    let few: Vec<Time> = schedule.instants(at, week).take(200).collect();
    let count = schedule.count(at, week);
    assert!(if few.len() < 200 { count == few.len() as u64 } else { count >= 200 });
    assert!(schedule.dst_dates(at, at.plus(Span::from_secs(800 * 86_400))).len() < 10);
});

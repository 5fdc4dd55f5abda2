//! `duly schedule preview`: when will this run, and what do clock changes do to it? Works on the
//! command line alone; no server, no store.

use calendar::{DstEffect, Occurrence, Schedule, ScheduleError};
use clap::{Args as ClapArgs, ValueEnum};
use model::{Dialect, Dst, Gap, Repeat, ScheduleSpec, Span, Time, When};
use wire::{DstDate, DstKind, Instant, Preview, duration, timestamp};

use crate::fault::Fault;
use crate::limits::{DST_DATES_AHEAD, PREVIEW_COUNT_DEFAULT, PREVIEW_COUNT_MAX};
use crate::{clock, output};

const HELP: &str = "duly schedule preview --help shows every form";

/// Flags carry the JSON names of a job's schedule.
#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["cron", "every", "at", "delay"]))]
pub struct Args {
    /// A cron expression: 5 fields as Debian's cron reads them, or 6 with seconds in front
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// A fixed interval such as 15m, counted from --start-at (else from --after)
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// One instant, such as 2027-03-28T01:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Once, this long after --after
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,

    /// The IANA zone in which --cron is read [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with_all = ["every", "at", "delay"])]
    timezone: Option<String>,
    /// How --cron counts weekdays: cron has 0 and 7 = Sunday, quartz has 1 = Sunday [default: cron]
    #[arg(long, conflicts_with_all = ["every", "at", "delay"])]
    dialect: Option<DialectArg>,
    /// A local time that the clocks jump over: run at the jump, or skip [default: run]
    #[arg(long, conflicts_with_all = ["every", "at", "delay"])]
    dst_gap: Option<GapArg>,
    /// A local time that happens twice: which of them [default: first]
    #[arg(long, conflicts_with_all = ["every", "at", "delay"])]
    dst_repeat: Option<RepeatArg>,

    /// Spread jobs over this window; each job has its own fixed place in it
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// The job id that decides the place in the jitter window, and H in --cron
    #[arg(long, value_name = "ID", default_value = "preview")]
    seed: String,
    /// Nothing before this time
    #[arg(long, value_name = "TIME")]
    start_at: Option<String>,
    /// Nothing after this time
    #[arg(long, value_name = "TIME")]
    end_at: Option<String>,
    /// At most so many runs, counted from --start-at (else from --after)
    #[arg(long, value_name = "N")]
    max_runs: Option<String>,

    /// Show instants strictly after this time [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// How many instants to show, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PREVIEW_COUNT_DEFAULT.to_string())]
    count: String,
    /// Print JSON for programs instead of a table for people
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectArg {
    Cron,
    Quartz,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GapArg {
    Run,
    Skip,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RepeatArg {
    First,
    Second,
    Both,
}

/// The text to print.
pub fn run(args: &Args) -> Result<String, Fault> {
    let count = read_count(&args.count)?;
    let after = match &args.after {
        Some(text) => read_time("--after", text)?,
        None => clock::now(),
    };
    let spec = read_spec(args)?;
    // Creation anchors delays and intervals; a preview imagines the job made at `after`.
    let schedule = Schedule::new(&spec, args.seed.as_bytes(), after)
        .map_err(|error| schedule_fault(args, error))?;

    let mut occurrences = Vec::new();
    let mut from = after;
    while occurrences.len() < count {
        let Some(nominal) = schedule.next(from) else { break };
        occurrences.push(schedule.occurrence(nominal));
        from = nominal;
    }
    let preview = Preview {
        description: schedule.describe(),
        timezone: zone_name(spec.timezone.as_deref()),
        tzdb: calendar::tzdb_version().to_string(),
        instants: occurrences.iter().map(to_wire).collect(),
        dst_dates: schedule
            .dst_dates(after, after.plus(DST_DATES_AHEAD))
            .into_iter()
            .map(|date| DstDate {
                date: date.date,
                transition: timestamp::format(date.transition.micros()),
                effect: to_kind(date.effect),
                what: date.what,
            })
            .collect(),
    };
    if args.json {
        return output::json(&preview);
    }
    let complete = occurrences.len() == count;
    Ok(output::table(&preview, &occurrences, after, complete))
}

/// As the database spells it; a program should not have to compare names without case.
fn zone_name(written: Option<&str>) -> String {
    let written = written.unwrap_or("UTC");
    timestamp::zone_name(written).unwrap_or_else(|| written.to_string())
}

fn to_wire(occurrence: &Occurrence) -> Instant {
    Instant {
        nominal: timestamp::format(occurrence.nominal.micros()),
        effective: timestamp::format(occurrence.effective.micros()),
        dst: occurrence.dst.map(to_kind),
    }
}

fn to_kind(effect: DstEffect) -> DstKind {
    match effect {
        DstEffect::Gap => DstKind::Gap,
        DstEffect::Repeat => DstKind::Repeat,
    }
}

fn read_spec(args: &Args) -> Result<ScheduleSpec, Fault> {
    let mut spec = ScheduleSpec::new(read_when(args)?);
    spec.timezone = args.timezone.clone();
    spec.dst = Dst {
        gap: match args.dst_gap {
            Some(GapArg::Skip) => Gap::Skip,
            Some(GapArg::Run) | None => Gap::Run,
        },
        repeat: match args.dst_repeat {
            Some(RepeatArg::Second) => Repeat::Second,
            Some(RepeatArg::Both) => Repeat::Both,
            Some(RepeatArg::First) | None => Repeat::First,
        },
    };
    spec.start_at = read_optional(&args.start_at, |text| read_time("--start-at", text))?;
    spec.end_at = read_optional(&args.end_at, |text| read_time("--end-at", text))?;
    spec.max_runs = read_optional(&args.max_runs, read_max_runs)?;
    spec.jitter = read_optional(&args.jitter, |text| read_span("--jitter", text))?;
    Ok(spec)
}

fn read_when(args: &Args) -> Result<When, Fault> {
    if let Some(expression) = &args.cron {
        let dialect = match args.dialect {
            Some(DialectArg::Quartz) => Dialect::Quartz,
            Some(DialectArg::Cron) | None => Dialect::Cron,
        };
        return Ok(When::Cron { expression: expression.clone(), dialect });
    }
    if let Some(text) = &args.every {
        return Ok(When::Every(read_span("--every", text)?));
    }
    if let Some(text) = &args.at {
        return Ok(When::At(read_time("--at", text)?));
    }
    // One of the four is there: the command line is refused before this without it.
    read_span("--delay", args.delay.as_deref().unwrap_or_default()).map(When::Delay)
}

fn read_optional<T>(
    text: &Option<String>,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    text.as_deref().map(read).transpose()
}

fn read_span(flag: &str, text: &str) -> Result<Span, Fault> {
    duration::parse(text).map(Span::from_micros).map_err(|error| Fault {
        flag: flag.to_string(),
        value: text.to_string(),
        column: Some(error.column),
        message: error.message,
        help: format!("for example {flag} 15m"),
    })
}

fn read_time(flag: &str, text: &str) -> Result<Time, Fault> {
    let fault = |column, message| Fault {
        flag: flag.to_string(),
        value: text.to_string(),
        column,
        message,
        help: format!("for example {flag} 2027-03-28T01:00:00Z"),
    };
    let micros =
        timestamp::parse(text).map_err(|error| fault(Some(error.column), error.message))?;
    let time = Time::from_micros(micros);
    if time < Time::MIN || time > Time::MAX {
        let (first, last) = (Time::MIN.micros(), Time::MAX.micros());
        let bounds = (timestamp::format_short(first), timestamp::format_short(last));
        return Err(fault(None, format!("times lie between {} and {}", bounds.0, bounds.1)));
    }
    Ok(time)
}

fn read_count(text: &str) -> Result<usize, Fault> {
    match text.parse::<u32>() {
        Ok(count) if (1..=PREVIEW_COUNT_MAX).contains(&count) => Ok(count as usize),
        _ => Err(Fault {
            flag: "--count".to_string(),
            value: text.to_string(),
            column: None,
            message: format!("a preview shows 1 to {PREVIEW_COUNT_MAX} instants"),
            help: "ask again with --after set to the last instant to see more".to_string(),
        }),
    }
}

fn read_max_runs(text: &str) -> Result<u64, Fault> {
    match text.parse::<u64>() {
        Ok(runs) if runs >= 1 => Ok(runs),
        _ => Err(Fault {
            flag: "--max-runs".to_string(),
            value: text.to_string(),
            column: None,
            message: "a whole number from 1 is expected".to_string(),
            help: "leave --max-runs out for a schedule without end".to_string(),
        }),
    }
}

/// The calendar names the JSON field at fault; the flag has the same name.
fn schedule_fault(args: &Args, error: ScheduleError) -> Fault {
    let value = match error.field {
        "cron" => &args.cron,
        "timezone" => &args.timezone,
        "every" => &args.every,
        "at" => &args.at,
        "delay" => &args.delay,
        "jitter" => &args.jitter,
        "start_at" => &args.start_at,
        "end_at" => &args.end_at,
        "max_runs" => &args.max_runs,
        _ => &None,
    };
    let flag = format!("--{}", error.field.replace('_', "-"));
    let help = match &error.did_you_mean {
        Some(text) => format!("did you mean {flag} {text:?}?"),
        None => HELP.to_string(),
    };
    Fault {
        flag,
        value: value.clone().unwrap_or_default(),
        column: error.column,
        message: error.message,
        help,
    }
}

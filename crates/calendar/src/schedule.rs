//! A checked schedule: a plan inside its bounds, with its spread.

use crate::cron::Cron;
use crate::days::Days;
use crate::dst::{DstDate, DstEffect};
use crate::error::ScheduleError;
use crate::interval::Interval;
use crate::limits::INTERVAL_MIN;
use crate::local::Local;
use crate::parse::{Fields, Parsed, parse};
use crate::plan::{Plan, ceil_secs};
use crate::spread;
use crate::words;
use crate::zone::Zone;
use model::{ScheduleSpec, Span, Time, When};
use std::sync::Arc;

const MICRO: Span = Span::from_micros(1);

/// A checked schedule, ready to be asked. Cheap to clone and share.
#[derive(Clone, Debug)]
pub struct Schedule {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    spec: ScheduleSpec,
    plan: Plan,
    /// What cron said, for words; none for other kinds.
    fields: Option<Box<Fields>>,
    /// Nothing before `first` and nothing from `end` on; empty if they meet.
    first: Time,
    end: Time,
    offset: Span,
}

/// One instant of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The instant the schedule names. Run ids are made of it.
    pub nominal: Time,
    /// When it fires: nominal plus the job's fixed offset, always before the next nominal instant.
    pub effective: Time,
    /// Did a change of the clocks move or double it? Also `Gap` if a moved time coincides with one
    /// that is due at the transition anyway.
    pub dst: Option<DstEffect>,
}

impl Schedule {
    /// `seed` (the job id) decides `H` and jitter; `created` anchors delay and interval.
    ///
    /// An interval's instants are `start_at`, `start_at + every`, …; without a start the first is
    /// one interval after creation. `max_runs` counts instants from `start_at` on, else those after
    /// creation; the last counted one ends the schedule.
    pub fn new(spec: &ScheduleSpec, seed: &[u8], created: Time) -> Result<Schedule, ScheduleError> {
        let created = created.clamp(Time::MIN, Time::MAX);
        check_bounds(spec)?;
        let zone = Zone::find(spec.timezone.as_deref().unwrap_or("UTC"))?;
        let every = |field, every: Span| {
            if every < INTERVAL_MIN {
                return Err(ScheduleError::new(
                    field,
                    "shorter than 1 second, the shortest interval",
                ));
            }
            let first = spec.start_at.unwrap_or_else(|| created.plus(every));
            Ok((Plan::Interval(Interval::new(first, every)), None))
        };
        let (plan, fields) = match &spec.when {
            When::Now => (Plan::Once(created), None),
            When::At(time) => (Plan::Once(checked("at", *time)?), None),
            When::Delay(delay) if *delay < Span::ZERO => {
                return Err(ScheduleError::new("delay", "negative; 0 or more is allowed"));
            }
            When::Delay(delay) => (Plan::Once(checked("delay", created.plus(*delay))?), None),
            When::Every(span) => every("every", *span)?,
            When::Cron { expression, dialect } => match parse(expression, *dialect, seed)? {
                Parsed::Every(span) => every("cron", span)?,
                Parsed::Fields(fields) => {
                    let local =
                        Local { days: Days::new(&fields.days), clock: fields.clock.clone() };
                    let cron = Cron { local, zone, wildcard: fields.wildcard, dst: spec.dst };
                    (Plan::Cron(Box::new(cron)), Some(fields))
                }
            },
            _ => {
                return Err(ScheduleError::new(
                    "schedule",
                    "this kind of schedule is not known here",
                ));
            }
        };
        let offset = match (&spec.when, spec.jitter) {
            (When::Now, _) | (_, None) => Span::ZERO,
            (_, Some(window)) => spread::offset(seed, window),
        };
        let first = spec.start_at.unwrap_or(Time::MIN);
        let mut end = spec.end_at.unwrap_or(Time::MAX).plus(MICRO);
        if let Some(runs) = spec.max_runs {
            let begin = spec.start_at.unwrap_or_else(|| match plan {
                Plan::Once(_) => Time::MIN,
                _ => created.plus(MICRO),
            });
            if let Some(last) = plan.nth(begin, runs) {
                end = end.min(last.plus(MICRO));
            }
        }
        let inner = Inner { spec: spec.clone(), plan, fields, first, end, offset };
        Ok(Schedule { inner: Arc::new(inner) })
    }

    /// The first nominal instant strictly after `after`.
    pub fn next(&self, after: Time) -> Option<Time> {
        let Inner { plan, first, end, .. } = &*self.inner;
        plan.next(after.max(first.minus(MICRO))).filter(|instant| instant < end)
    }

    /// The last nominal instant strictly before `before`.
    pub fn previous(&self, before: Time) -> Option<Time> {
        let Inner { plan, first, end, .. } = &*self.inner;
        plan.previous(before.min(*end)).filter(|instant| instant >= first)
    }

    /// Nominal instants in `[from, to)` in order.
    pub fn instants(&self, from: Time, to: Time) -> impl Iterator<Item = Time> + '_ {
        let mut at = Some(from.minus(MICRO));
        // At the very first representable instant there is none before it to start after; nothing
        // is due there, because every instant is at or after `Time::MIN`.
        std::iter::from_fn(move || {
            at = self.next(at?).filter(|instant| *instant < to);
            at
        })
    }

    /// How many nominal instants lie in `[from, to)`, without enumerating them.
    pub fn count(&self, from: Time, to: Time) -> u64 {
        let Inner { plan, first, end, .. } = &*self.inner;
        let (from, to) = (from.max(*first), to.min(*end));
        if from < to { plan.count(from, to) } else { 0 }
    }

    /// The nominal instant with its effective instant and what DST did to it.
    pub fn occurrence(&self, nominal: Time) -> Occurrence {
        let dst = match &self.inner.plan {
            Plan::Cron(cron) => cron.effect(nominal.secs()),
            _ => None,
        };
        let effective = match self.inner.offset {
            Span::ZERO => nominal,
            offset => spread::effective(nominal, offset, self.next(nominal)),
        };
        Occurrence { nominal, effective, dst }
    }

    /// The schedule in words: "At 03:00 on weekdays, Europe/Zurich".
    pub fn describe(&self) -> String {
        let Inner { spec, plan, fields, .. } = &*self.inner;
        let what = match (plan, fields) {
            (Plan::Cron(cron), Some(fields)) => {
                let never = cron.local.is_never();
                words::cron_words(fields, &cron.zone.name, spec.timezone.is_some(), never)
            }
            (Plan::Interval(interval), _) => words::every_words(interval.every()),
            (Plan::Once(at), _) => words::once_words(spec, *at),
            (Plan::Cron(_), None) => String::new(),
        };
        what + &words::bounds_words(spec)
    }

    /// Dates in `[from, to)` on which DST changes what happens.
    pub fn dst_dates(&self, from: Time, to: Time) -> Vec<DstDate> {
        let Inner { plan, first, end, .. } = &*self.inner;
        match plan {
            Plan::Cron(cron) => {
                let (from, to) = (from.max(*first), to.min(*end));
                cron.dst_dates(ceil_secs(from), ceil_secs(to))
            }
            _ => Vec::new(),
        }
    }

    /// The name of the zone the schedule is read in, as the database spells it.
    pub fn timezone(&self) -> &str {
        match &self.inner.plan {
            Plan::Cron(cron) => &cron.zone.name,
            _ => "UTC",
        }
    }
}

fn checked(field: &'static str, time: Time) -> Result<Time, ScheduleError> {
    if (Time::MIN..=Time::MAX).contains(&time) {
        return Ok(time);
    }
    let (low, high) = (words::instant_words(Time::MIN), words::instant_words(Time::MAX));
    Err(ScheduleError::new(field, format!("out of range, allowed {low} to {high}")))
}

fn check_bounds(spec: &ScheduleSpec) -> Result<(), ScheduleError> {
    if let Some(start) = spec.start_at {
        checked("start_at", start)?;
    }
    if let Some(end) = spec.end_at {
        checked("end_at", end)?;
        if spec.start_at.is_some_and(|start| start > end) {
            return Err(ScheduleError::new("end_at", "before start_at"));
        }
    }
    if spec.max_runs == Some(0) {
        return Err(ScheduleError::new("max_runs", "0 is out of range, 1 or more is allowed"));
    }
    if spec.jitter.is_some_and(|window| window < Span::ZERO) {
        return Err(ScheduleError::new("jitter", "negative; 0 or more is allowed"));
    }
    Ok(())
}

//! What will surprise: said when a job is made, because later nobody is there to hear it.

use crate::limits::{DST_WARNED_AHEAD, HERD, HERDS_KEPT};
use calendar::Schedule;
use model::{Namespace, Spec, Text, Time, When};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wire::answer::Warning;

/// How many jobs were made for which second, by namespace and queue: a hint, not a truth, so it is
/// counted here and forgotten with the process.
static HERDS: Mutex<BTreeMap<(i64, Namespace, Text), u32>> = Mutex::new(BTreeMap::new());

pub fn of(spec: &Spec, next: Option<Time>, now: Time) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let When::At(at) = spec.schedule.when
        && at < now
    {
        let message = "this instant has passed; the job runs now".to_string();
        warnings.push(Warning { code: "in_the_past", message });
    }
    warnings.extend(clock_changes(spec, now));
    if spec.schedule.is_recurring() && next.is_none() {
        let message = "the schedule has no instant left; the job will never run".to_string();
        warnings.push(Warning { code: "never", message });
    }
    if let Some(next) = next.filter(|next| *next > now && spec.schedule.jitter.is_none()) {
        warnings.extend(herd(spec, next));
    }
    warnings
}

fn clock_changes(spec: &Spec, now: Time) -> Option<Warning> {
    let schedule = Schedule::new(&spec.schedule, b"", now).ok()?;
    let dates = schedule.dst_dates(now, now.plus(DST_WARNED_AHEAD));
    if dates.is_empty() {
        return None;
    }
    let message = dates.into_iter().map(|date| date.what).collect::<Vec<_>>().join(" ");
    Some(Warning { code: "dst", message })
}

fn herd(spec: &Spec, next: Time) -> Option<Warning> {
    let mut herds = HERDS.lock().unwrap_or_else(PoisonError::into_inner);
    if herds.len() >= HERDS_KEPT {
        // The soonest instants leave first: they are the ones that pass.
        herds.pop_first();
    }
    let count = herds.entry((next.secs(), spec.namespace, spec.queue.clone())).or_default();
    *count = count.saturating_add(1);
    let n = *count;
    (n > HERD).then(|| {
        let queue = &spec.queue;
        let message = format!(
            "{n} jobs of queue {queue} were made for the same second; jitter such as \"5m\" spreads them"
        );
        Warning { code: "herd", message }
    })
}

//! What a schedule will do: the same document as `duly schedule preview --json`.

use crate::jobs::json_text;
use crate::limits::{DST_DATES_AHEAD, PREVIEW_COUNT, PREVIEW_COUNT_MAX};
use crate::refusal::{Answered, Refusal, unexpected};
use crate::run_read::time;
use crate::{Shared, spec};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use calendar::{DstEffect, Schedule};
use model::Time;
use wire::job::ScheduleRequest;
use wire::{DstDate, DstKind, Faults, Instant, Object, Preview, timestamp};

pub async fn preview(State(api): Shared, body: Bytes) -> Answered {
    let mut faults = Faults::default();
    let Some(mut object) = Object::read(json_text(&body)?, "", &mut faults) else {
        return Err(Refusal::faults(faults));
    };
    let count = object.number("count", 1..=PREVIEW_COUNT_MAX, &mut faults).unwrap_or(PREVIEW_COUNT);
    let after = object.time("after", &mut faults).map(Time::from_micros);
    let after = after.unwrap_or_else(|| api.node.now());
    let request = object.object("schedule", &mut faults);
    object.finish(&mut faults);
    let Some(request) = request else {
        if faults.is_empty() {
            faults.add("/schedule", "a schedule is missing");
        }
        return Err(Refusal::faults(faults));
    };
    let request = ScheduleRequest::read(request, &mut faults);
    let spec = spec::schedule(request, after, "/schedule", &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let schedule = Schedule::new(&spec, b"preview", after).map_err(|_| unexpected())?;
    let mut instants = Vec::new();
    let mut from = after;
    while (instants.len() as u64) < count {
        let Some(nominal) = schedule.next(from) else { break };
        let occurrence = schedule.occurrence(nominal);
        instants.push(Instant {
            nominal: time(occurrence.nominal),
            effective: time(occurrence.effective),
            dst: occurrence.dst.map(kind),
        });
        from = nominal;
    }
    let zone = spec.timezone.as_deref().unwrap_or("UTC");
    let dates = schedule.dst_dates(after, after.plus(DST_DATES_AHEAD));
    let preview = Preview {
        description: schedule.describe(),
        timezone: timestamp::zone_name(zone).unwrap_or_else(|| zone.to_string()),
        tzdb: calendar::tzdb_version().to_string(),
        instants,
        dst_dates: dates
            .into_iter()
            .map(|date| DstDate {
                date: date.date,
                transition: time(date.transition),
                effect: kind(date.effect),
                what: date.what,
            })
            .collect(),
    };
    Ok(Json(preview).into_response())
}

fn kind(effect: DstEffect) -> DstKind {
    match effect {
        DstEffect::Gap => DstKind::Gap,
        DstEffect::Repeat => DstKind::Repeat,
    }
}

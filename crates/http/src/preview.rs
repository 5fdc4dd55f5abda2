//! What a schedule will do: the same document as `duly schedule preview --json`.

use crate::jobs::json_text;
use crate::limits::{DST_DATES_AHEAD, PREVIEW_COUNT, PREVIEW_COUNT_MAX};
use crate::refusal::{Answered, Refusal};
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
    let answer = answer(json_text(&body)?, api.node.now()).map_err(Refusal::faults)?;
    Ok(Json(answer).into_response())
}

/// The whole answer; nothing but the text and the time decides it.
pub fn answer(text: &str, now: Time) -> Result<Preview, Faults> {
    let mut faults = Faults::default();
    let Some((count, after, request)) = read(text, &mut faults) else { return Err(faults) };
    let after = after.unwrap_or(now);
    let spec = spec::schedule(request, after, "/schedule", &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let schedule = match Schedule::new(&spec, b"preview", after) {
        Ok(schedule) => schedule,
        Err(error) => {
            faults.add(format!("/schedule/{}", error.field), error.message);
            return Err(faults);
        }
    };
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
    Ok(Preview {
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
    })
}

fn read(text: &str, faults: &mut Faults) -> Option<(u64, Option<Time>, ScheduleRequest)> {
    let mut object = Object::read(text, "", faults)?;
    let count = object.number("count", 1..=PREVIEW_COUNT_MAX, faults).unwrap_or(PREVIEW_COUNT);
    let after = object.time("after", faults).map(Time::from_micros);
    let schedule = object.object("schedule", faults);
    object.finish(faults);
    if schedule.is_none() && !faults.at("/schedule") {
        faults.add("/schedule", "a schedule is missing");
    }
    Some((count, after, ScheduleRequest::read(schedule?, faults)))
}

pub fn read_only(text: &str, faults: &mut Faults) {
    read(text, faults);
}

fn kind(effect: DstEffect) -> DstKind {
    match effect {
        DstEffect::Gap => DstKind::Gap,
        DstEffect::Repeat => DstKind::Repeat,
    }
}

//! What a queue allows, as a user says it: `{"max_running":100,"rate":"50/s","burst":100,"groups":{…}}`.
//! What is left out is not limited.

use crate::duration;
use crate::fields::{Faults, Object};
use crate::limits::{RUNNING_MAX, SHORT_MAX, STARTS_MAX, WEIGHT_MAX, WEIGHTS_MAX};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRequest {
    pub max_running: Option<u32>,
    pub rate: Option<RateRequest>,
    pub group_max_running: Option<u32>,
    pub group_rate: Option<RateRequest>,
    pub weights: BTreeMap<String, u32>,
    /// In microseconds.
    pub start_within: Option<i64>,
}

/// `per` in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRequest {
    pub starts: u32,
    pub per: i64,
    pub burst: u32,
}

/// The same in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueueLimits {
    /// Attempts at the same time; null: any number.
    pub max_running: Option<u32>,
    /// Starts in a time, such as 50/s; null: any number.
    pub rate: Option<String>,
    /// Starts at once after a pause.
    pub burst: Option<u32>,
    pub groups: GroupLimits,
    /// The service level: a run that is ready starts within this; null: there is none.
    pub start_within: Option<String>,
    pub partitions: u32,
}

/// What each group of the queue is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupLimits {
    pub max_running: Option<u32>,
    pub rate: Option<String>,
    pub burst: Option<u32>,
    /// Starts in a group's turn; groups that are not named have 1.
    pub weights: BTreeMap<String, u32>,
}

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;
/// The shortest service level, in microseconds: shorter ones are broken by any pause.
const LEVEL_MIN: i64 = 1_000_000;

impl QueueRequest {
    pub fn read(text: &str, faults: &mut Faults) -> QueueRequest {
        let mut request = QueueRequest::default();
        let Some(mut object) = Object::read(text, "", faults) else { return request };
        request.max_running = max_running(&mut object, faults);
        request.rate = rate(&mut object, faults);
        if let Some(mut groups) = object.object("groups", faults) {
            request.group_max_running = max_running(&mut groups, faults);
            request.group_rate = rate(&mut groups, faults);
            let weights = groups.numbers("weights", WEIGHTS_MAX, 1..=WEIGHT_MAX.into(), faults);
            for (group, weight) in weights {
                if group.is_empty() || group.chars().count() > SHORT_MAX {
                    let pointer = format!("{}/weights", groups.pointer());
                    faults.add(pointer, format!("a group has 1 to {SHORT_MAX} characters"));
                }
                request.weights.insert(group, u32::try_from(weight).unwrap_or(WEIGHT_MAX));
            }
            groups.finish(faults);
        }
        request.start_within = start_within(&mut object, faults);
        if object.number("partitions", 1..=256, faults).is_some_and(|partitions| partitions > 1) {
            let message = "this version keeps a queue in one partition; leave it out, or say 1";
            faults.add(object.at("partitions"), message);
        }
        object.finish(faults);
        request
    }
}

fn max_running(object: &mut Object<'_>, faults: &mut Faults) -> Option<u32> {
    let number = object.number("max_running", 1..=RUNNING_MAX.into(), faults)?;
    u32::try_from(number).ok()
}

fn start_within(object: &mut Object<'_>, faults: &mut Faults) -> Option<i64> {
    let span = object.span("start_within", faults)?;
    if !(LEVEL_MIN..=DAY).contains(&span) {
        faults.add(object.at("start_within"), "a service level is a time from 1s to 1d");
        return None;
    }
    Some(span)
}

/// `rate`, and `burst`, which is what the rate allows in a second, but at least one start.
fn rate(object: &mut Object<'_>, faults: &mut Faults) -> Option<RateRequest> {
    let text = object.short("rate", SHORT_MAX, faults);
    let burst = object.number("burst", 1..=STARTS_MAX.into(), faults);
    let Some(text) = text else {
        if burst.is_some() && !faults.at(&object.at("rate")) {
            faults.add(object.at("burst"), "a burst belongs to a rate: give \"rate\" as well");
        }
        return None;
    };
    let Some((starts, per)) = parse_rate(&text) else {
        let message = format!(
            "a rate such as \"50/s\", \"100/m\" or \"5/10s\" is expected: 1 to {STARTS_MAX} starts in 1ms to 1d"
        );
        faults.add(object.at("rate"), message);
        return None;
    };
    let second = i64::from(starts) * 1_000_000 / per;
    let usual = u32::try_from(second).unwrap_or(starts).clamp(1, starts);
    let burst = burst.and_then(|burst| u32::try_from(burst).ok()).unwrap_or(usual);
    Some(RateRequest { starts, per, burst })
}

fn parse_rate(text: &str) -> Option<(u32, i64)> {
    let (starts, per) = text.split_once('/')?;
    let starts: u32 = starts.trim().parse().ok().filter(|n| (1..=STARTS_MAX).contains(n))?;
    let per = match per.trim() {
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => HOUR,
        "d" => DAY,
        other => duration::parse(other).ok()?,
    };
    (1_000..=DAY).contains(&per).then_some((starts, per))
}

/// A rate as it was meant.
pub fn rate_text(starts: u32, per: i64) -> String {
    match per {
        1_000_000 => format!("{starts}/s"),
        60_000_000 => format!("{starts}/m"),
        HOUR => format!("{starts}/h"),
        DAY => format!("{starts}/d"),
        _ => format!("{starts}/{}", duration::format(per)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<QueueRequest, Vec<String>> {
        let mut faults = Faults::default();
        let request = QueueRequest::read(text, &mut faults);
        if faults.is_empty() {
            return Ok(request);
        }
        Err(faults.list.into_iter().map(|fault| fault.pointer).collect())
    }

    #[test]
    fn everything_that_a_queue_can_allow_is_read() {
        let text = r#"{"max_running":100,"rate":"50/s","burst":100,"partitions":1,"start_within":"30s",
            "groups":{"max_running":1,"rate":"6/m","weights":{"cust-42":3}}}"#;
        let expected = QueueRequest {
            max_running: Some(100),
            rate: Some(RateRequest { starts: 50, per: 1_000_000, burst: 100 }),
            group_max_running: Some(1),
            group_rate: Some(RateRequest { starts: 6, per: 60_000_000, burst: 1 }),
            weights: [("cust-42".to_string(), 3)].into(),
            start_within: Some(30_000_000),
        };
        assert_eq!(read(text), Ok(expected));
        assert_eq!(read("{}"), Ok(QueueRequest::default()));
        assert_eq!(read(r#"{"rate":null,"max_running":null}"#), Ok(QueueRequest::default()));
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        for (text, pointer) in [
            (r#"{"max_running":0}"#, "/max_running"),
            (r#"{"rate":"50"}"#, "/rate"),
            (r#"{"rate":"0/s"}"#, "/rate"),
            (r#"{"rate":"5/0s"}"#, "/rate"),
            (r#"{"rate":50}"#, "/rate"),
            (r#"{"burst":5}"#, "/burst"),
            (r#"{"groups":{"weights":{"a":0}}}"#, "/groups/weights/a"),
            (r#"{"groups":{"weights":{"":1}}}"#, "/groups/weights"),
            (r#"{"start_within":"10ms"}"#, "/start_within"),
            (r#"{"start_within":30}"#, "/start_within"),
            (r#"{"partitions":2}"#, "/partitions"),
            (r#"{"max_runing":2}"#, "/max_runing"),
        ] {
            assert_eq!(read(text), Err(vec![pointer.to_string()]), "{text}");
        }
    }

    #[test]
    fn a_rate_is_told_as_it_was_given() {
        for text in ["50/s", "7/m", "1/h", "1000/d", "5/10s", "3/1h30m"] {
            let (starts, per) = parse_rate(text).expect("a rate");
            assert_eq!(rate_text(starts, per), text);
        }
    }
}

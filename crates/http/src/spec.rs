//! From a request to the core's definition of a job. Form was checked by `wire`; this checks sense.

use crate::definition::JSON_TYPE;
use crate::limits::{
    FARTHEST, PAYLOAD_MAX, TIMEOUT_HTTP, TIMEOUT_MAX, TIMEOUT_MIN, TIMEOUT_WORKER, WITHIN_MAX,
    WITHIN_MIN,
};
use crate::spec_target;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use calendar::{Schedule, ScheduleError};
use hyper::header::HeaderValue;
use model::{
    Bytes, CatchUp, Dialect, Dst, Gap, Namespace, Overlap, Policy, Repeat, ScheduleSpec, Span,
    Spec, Text, Time, When, Within,
};
use wire::Faults;
use wire::job::{CatchUpRequest, JobRequest, ScheduleRequest, TargetRequest, WhenRequest};

/// None if something is wrong; `faults` then says what.
pub fn of(
    namespace: Namespace,
    job: JobRequest,
    now: Time,
    pointer: &str,
    faults: &mut Faults,
) -> Option<Spec> {
    let schedule = schedule(job.schedule, now, &format!("{pointer}/schedule"), faults);
    let default_timeout = match &job.target {
        Some(TargetRequest::Worker { .. } | TargetRequest::Command { .. }) => TIMEOUT_WORKER,
        _ => TIMEOUT_HTTP,
    };
    let timeout = job.timeout.map_or(default_timeout, Span::from_micros);
    if timeout < TIMEOUT_MIN || timeout > TIMEOUT_MAX {
        faults.add(format!("{pointer}/timeout"), "a timeout lies between 100ms and 24h");
    }
    let within = Within {
        start: within("start_within", job.start_within, pointer, faults),
        finish: within("finish_within", job.finish_within, pointer, faults),
    };
    let (payload, content_type) =
        payload(job.payload, job.payload_base64, job.content_type, pointer, faults);
    let target = spec_target::of(job.target?, pointer, faults)?;
    let usual = Policy::default();
    let policy = Policy {
        max_retries: job.max_retries.map_or(usual.max_retries, |n| n as u16),
        initial: job.initial.map_or(usual.initial, Span::from_micros),
        factor: job.factor.map_or(usual.factor, |n| n as u16),
        cap: job.cap.map_or(usual.cap, Span::from_micros),
        max_lost: usual.max_lost,
        timeout,
    };
    if !faults.is_empty() {
        return None;
    }
    Some(Spec {
        namespace,
        name: job.name.map(Text::from),
        owner: job.owner.map(Text::from),
        tags: job.tags.into_iter().map(|(k, v)| (Text::from(k), Text::from(v))).collect(),
        schedule,
        target,
        payload: Bytes::from(payload),
        content_type: Text::from(content_type),
        queue: Text::from(job.queue.unwrap_or_else(|| "default".to_string())),
        group: job.group.map(Text::from),
        priority: job.priority.unwrap_or(5) as u8,
        policy,
        overlap: match job.overlap {
            Some("skip") => Overlap::Skip,
            Some("allow") => Overlap::Allow,
            Some("cancel_running") => Overlap::CancelRunning,
            _ => Overlap::QueueOne,
        },
        catch_up: catch_up(job.catch_up),
        permanent: job.permanent.map(Into::into),
        within,
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
    })
}

fn within(name: &str, micros: Option<i64>, pointer: &str, faults: &mut Faults) -> Option<Span> {
    let span = Span::from_micros(micros?);
    if span < WITHIN_MIN || span > WITHIN_MAX {
        faults.add(format!("{pointer}/{name}"), "a time between 1s and 365d is expected here");
    }
    Some(span)
}

/// The bytes that will be sent, and what they are.
pub fn payload(
    json: Option<String>,
    base64: Option<String>,
    content_type: Option<String>,
    pointer: &str,
    faults: &mut Faults,
) -> (Vec<u8>, String) {
    let given = content_type.is_some();
    let content_type = content_type.unwrap_or_else(|| JSON_TYPE.to_string());
    let field = if base64.is_some() { "payload_base64" } else { "payload" };
    if content_type.parse::<HeaderValue>().is_err() || !content_type.contains('/') {
        let message = "a content type looks like application/octet-stream";
        faults.add(format!("{pointer}/content_type"), message);
    }
    let bytes = match (json, base64) {
        (Some(_), Some(_)) => {
            let message = "one of payload and payload_base64 is expected, not both";
            faults.add(format!("{pointer}/payload_base64"), message);
            Vec::new()
        }
        (None, Some(text)) => {
            if !given {
                let message = "say what payload_base64 holds, such as application/octet-stream";
                faults.add(format!("{pointer}/content_type"), message);
            }
            BASE64.decode(text.as_bytes()).unwrap_or_else(|_| {
                let message = "this is not base64 (the standard alphabet, with padding)";
                faults.add(format!("{pointer}/payload_base64"), message);
                Vec::new()
            })
        }
        (json, None) => {
            if given && content_type != JSON_TYPE {
                let message = "another content type than JSON needs payload_base64";
                faults.add(format!("{pointer}/content_type"), message);
            }
            json.unwrap_or_default().into_bytes()
        }
    };
    if bytes.len() > PAYLOAD_MAX {
        faults.add(format!("{pointer}/{field}"), "a payload has at most 256 KiB");
    }
    (bytes, content_type)
}

fn catch_up(request: Option<CatchUpRequest>) -> CatchUp {
    let Some(request) = request else { return CatchUp::default() };
    match (request.policy, CatchUp::ALL) {
        ("skip", _) => CatchUp::Skip,
        ("all", CatchUp::All { window, max, per_second }) => CatchUp::All {
            window: request.window.map_or(window, Span::from_micros),
            max: request.max.map_or(max, |n| n as u32),
            per_second: request.rate.map_or(per_second, |n| n as u32),
        },
        _ => CatchUp::Once,
    }
}

pub fn schedule(
    request: ScheduleRequest,
    now: Time,
    pointer: &str,
    faults: &mut Faults,
) -> ScheduleSpec {
    let when = match request.when {
        WhenRequest::Now => When::Now,
        WhenRequest::At(at) => When::At(Time::from_micros(at)),
        WhenRequest::Delay(delay) => When::Delay(Span::from_micros(delay)),
        WhenRequest::Every(every) => When::Every(Span::from_micros(every)),
        WhenRequest::Cron(expression) => When::Cron { expression, dialect: Dialect::Cron },
    };
    let mut spec = ScheduleSpec::new(when);
    spec.timezone = request.timezone;
    spec.dst = Dst {
        gap: if request.gap == Some("skip") { Gap::Skip } else { Gap::Run },
        repeat: match request.repeat {
            Some("second") => Repeat::Second,
            Some("both") => Repeat::Both,
            _ => Repeat::First,
        },
    };
    spec.start_at = request.start_at.map(Time::from_micros);
    spec.end_at = request.end_at.map(Time::from_micros);
    spec.max_runs = request.max_runs;
    spec.jitter = request.jitter.map(Span::from_micros);
    let far = match spec.when {
        When::At(at) if at < Time::MIN => Some("at"),
        When::At(at) if at.since(now) > FARTHEST => Some("at"),
        When::Delay(delay) if delay > FARTHEST => Some("delay"),
        _ => None,
    };
    if let Some(field) = far {
        faults.add(format!("{pointer}/{field}"), "a job lies between 1970 and 50 years from now");
    } else if spec.when != When::Now
        && let Err(error) = Schedule::new(&spec, b"check", now)
    {
        add(pointer, error, faults);
    }
    spec
}

fn add(pointer: &str, error: ScheduleError, faults: &mut Faults) {
    let column = error.column.map(|column| format!("column {column}: ")).unwrap_or_default();
    let message = format!("{column}{}", error.message);
    faults.push(format!("{pointer}/{}", error.field), message, error.did_you_mean);
}

//! A job's definition in the words it is written in: for GET, and as what PATCH and PUT start from.
//! Reading it back gives the same spec.

use crate::run_read::{json_or_text, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use model::{
    Broker, CatchUp, Gap, Overlap, Policy, Repeat, ScheduleSpec, Span, Spec, Target, When,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::answer::Job;
use wire::duration;

/// The fields of a job that a person wrote, by their names in the contract.
pub const FIELDS: [&str; 17] = [
    "name",
    "owner",
    "tags",
    "schedule",
    "target",
    "payload",
    "payload_base64",
    "content_type",
    "queue",
    "priority",
    "group",
    "retry",
    "timeout",
    "start_within",
    "finish_within",
    "overlap",
    "catch_up",
];

/// What the content of a payload is unless its sender says otherwise.
pub const JSON_TYPE: &str = "application/json";

pub fn write(job: &mut Job, spec: &Spec) {
    job.name = spec.name.as_ref().map(ToString::to_string);
    job.owner = spec.owner.as_ref().map(ToString::to_string);
    job.tags = spec.tags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    job.schedule = schedule(&spec.schedule);
    job.target = Some(target(&spec.target, wire::broker::masked));
    if spec.content_type.as_ref() == JSON_TYPE {
        job.payload = (!spec.payload.is_empty()).then(|| json_or_text(&spec.payload));
    } else {
        job.payload_base64 = Some(BASE64.encode(&spec.payload));
        job.content_type = Some(spec.content_type.to_string());
    }
    job.queue = Some(spec.queue.to_string());
    job.priority = Some(spec.priority);
    job.group = spec.group.as_ref().map(ToString::to_string);
    job.retry = Some(retry(&spec.policy, spec.permanent.as_deref()));
    job.timeout = Some(duration::format(spec.policy.timeout.micros()));
    let within = |span: Option<Span>| span.map(|span| duration::format(span.micros()));
    job.start_within = within(spec.within.start);
    job.finish_within = within(spec.within.finish);
    job.overlap = Some(match spec.overlap {
        Overlap::QueueOne => "queue_one",
        Overlap::Skip => "skip",
        Overlap::Allow => "allow",
        Overlap::CancelRunning => "cancel_running",
    });
    job.catch_up = Some(catch_up(&spec.catch_up));
}

/// The definition alone, as readers see it. A payload keeps every digit.
pub fn shown(spec: &Spec) -> BTreeMap<String, Box<RawValue>> {
    let mut job = Job::default();
    write(&mut job, spec);
    let whole = serde_json::to_string(&job).unwrap_or_default();
    let mut fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&whole).unwrap_or_default();
    fields.retain(|name, value| FIELDS.contains(&name.as_str()) && value.get() != "null");
    fields
}

/// The definition alone, as an object that a patch can be merged into.
pub fn object(spec: &Spec) -> Map<String, Value> {
    let mut job = Job::default();
    write(&mut job, spec);
    // A patch of something else must not store a covered password.
    job.target = Some(target(&spec.target, str::to_string));
    let whole = serde_json::to_value(&job).unwrap_or_default();
    let fields = whole.as_object().cloned().unwrap_or_default();
    let said =
        |(name, value): &(String, Value)| FIELDS.contains(&name.as_str()) && !value.is_null();
    fields.into_iter().filter(said).collect()
}

fn schedule(spec: &ScheduleSpec) -> Option<Value> {
    let mut out = Map::new();
    match &spec.when {
        When::At(at) => out.insert("at".into(), json!(time_exact(*at))),
        When::Delay(delay) => out.insert("delay".into(), json!(duration::format(delay.micros()))),
        When::Every(every) => out.insert("every".into(), json!(duration::format(every.micros()))),
        When::Cron { expression, .. } => out.insert("cron".into(), json!(expression)),
        _ => return None,
    };
    if let Some(zone) = &spec.timezone {
        out.insert("timezone".into(), json!(zone));
    }
    if matches!(spec.when, When::Cron { .. }) {
        let gap = if spec.dst.gap == Gap::Skip { "skip" } else { "run" };
        let repeat = match spec.dst.repeat {
            Repeat::First => "first",
            Repeat::Second => "second",
            Repeat::Both => "both",
        };
        out.insert("dst".into(), json!({"gap": gap, "repeat": repeat}));
    }
    let times = [("start_at", spec.start_at), ("end_at", spec.end_at)];
    for (name, at) in times.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        out.insert(name.into(), json!(time_exact(at)));
    }
    if let Some(most) = spec.max_runs {
        out.insert("max_runs".into(), json!(most));
    }
    if let Some(jitter) = spec.jitter {
        out.insert("jitter".into(), json!(duration::format(jitter.micros())));
    }
    Some(Value::Object(out))
}

/// Instants of a definition come back as they were: with microseconds where there are any.
fn time_exact(at: model::Time) -> String {
    let rest = at.micros().rem_euclid(1_000);
    let shown = time(at.minus(model::Span::from_micros(rest)));
    if rest == 0 { shown } else { format!("{}{rest:03}Z", shown.trim_end_matches('Z')) }
}

/// `shown`: what readers see of a broker's URL, or all of it.
fn target(target: &Target, shown: fn(&str) -> String) -> Value {
    match target {
        Target::Http { url, method, headers } => {
            let mut http = json!({"url": url.as_ref(), "method": method.as_ref()});
            if !headers.is_empty() {
                let headers: Map<String, Value> =
                    headers.iter().map(|(k, v)| (k.to_string(), json!(v.as_ref()))).collect();
                http["headers"] = Value::Object(headers);
            }
            json!({ "http": http })
        }
        Target::Worker { kind } => json!({"worker": {"kind": kind.as_ref()}}),
        Target::Command { argv, env } => {
            let argv: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
            let mut command = json!({ "argv": argv });
            if !env.is_empty() {
                let env: Map<String, Value> =
                    env.iter().map(|(k, v)| (k.to_string(), json!(v.as_ref()))).collect();
                command["env"] = Value::Object(env);
            }
            json!({ "command": command })
        }
        Target::Publish(Broker::Redis { url, stream, max_len }) => {
            let mut redis = json!({"url": shown(url), "stream": stream.as_ref()});
            if let Some(most) = max_len {
                redis["max_len"] = json!(most);
            }
            json!({"publish": {"redis": redis}})
        }
        Target::Publish(Broker::RabbitMq { url, exchange, routing_key }) => {
            let mut rabbit = json!({"url": shown(url), "routing_key": routing_key.as_ref()});
            if !exchange.is_empty() {
                rabbit["exchange"] = json!(exchange.as_ref());
            }
            json!({"publish": {"rabbitmq": rabbit}})
        }
        _ => Value::Null,
    }
}

fn retry(policy: &Policy, permanent: Option<&[u16]>) -> Value {
    let mut retry = json!({
        "max_retries": policy.max_retries,
        "initial": duration::format(policy.initial.micros()),
        "factor": policy.factor,
        "cap": duration::format(policy.cap.micros()),
    });
    if let Some(codes) = permanent {
        retry["permanent"] = json!(codes);
    }
    retry
}

fn catch_up(catch_up: &CatchUp) -> Value {
    match catch_up {
        CatchUp::Once => json!({"policy": "once"}),
        CatchUp::Skip => json!({"policy": "skip"}),
        CatchUp::All { window, max, per_second } => json!({
            "policy": "all", "window": duration::format(window.micros()),
            "max": max, "rate": per_second,
        }),
    }
}

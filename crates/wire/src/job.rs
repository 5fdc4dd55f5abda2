//! A job as a user writes it. Instants and lengths become microseconds; nothing is judged here but
//! form: whether a schedule makes sense is the calendar's to say.

use crate::fields::{Faults, Object};
use crate::limits::{
    ARGUMENTS_MAX, CODES_MAX, EXPRESSION_MAX, KEY_MAX, PAIRS_MAX, SHORT_MAX, STREAM_LEN_MAX,
    URL_MAX,
};

#[derive(Debug, Default)]
pub struct JobRequest {
    pub name: Option<String>,
    pub owner: Option<String>,
    pub tags: Vec<(String, String)>,
    pub schedule: ScheduleRequest,
    pub target: Option<TargetRequest>,
    /// JSON exactly as it was written.
    pub payload: Option<String>,
    /// Bytes of any kind, instead of `payload`, and what they are.
    pub payload_base64: Option<String>,
    pub content_type: Option<String>,
    pub queue: Option<String>,
    pub priority: Option<u64>,
    pub group: Option<String>,
    pub idempotency_key: Option<String>,
    pub max_retries: Option<u64>,
    pub initial: Option<i64>,
    pub factor: Option<u64>,
    pub cap: Option<i64>,
    /// Answers that are not retried.
    pub permanent: Option<Vec<u16>>,
    pub timeout: Option<i64>,
    pub start_within: Option<i64>,
    pub finish_within: Option<i64>,
    pub overlap: Option<&'static str>,
    pub catch_up: Option<CatchUpRequest>,
    pub paused: bool,
}

#[derive(Debug, Default)]
pub struct ScheduleRequest {
    pub when: WhenRequest,
    pub timezone: Option<String>,
    pub gap: Option<&'static str>,
    pub repeat: Option<&'static str>,
    pub jitter: Option<i64>,
    pub start_at: Option<i64>,
    pub end_at: Option<i64>,
    pub max_runs: Option<u64>,
}

#[derive(Debug, Default)]
pub enum WhenRequest {
    #[default]
    Now,
    At(i64),
    Delay(i64),
    Every(i64),
    Cron(String),
}

#[derive(Debug)]
pub enum TargetRequest {
    Http { url: String, method: Option<String>, headers: Vec<(String, String)> },
    Worker { kind: String },
    Command { argv: Vec<String>, env: Vec<(String, String)> },
    Publish(BrokerRequest),
}

#[derive(Debug)]
pub enum BrokerRequest {
    Redis { url: String, stream: String, max_len: Option<u64> },
    RabbitMq { url: String, exchange: Option<String>, routing_key: String },
}

#[derive(Debug)]
pub struct CatchUpRequest {
    pub policy: &'static str,
    pub window: Option<i64>,
    pub max: Option<u64>,
    pub rate: Option<u64>,
}

impl JobRequest {
    pub fn read(text: &str, pointer: &str, faults: &mut Faults) -> JobRequest {
        let mut job = JobRequest::default();
        let Some(mut object) = Object::read(text, pointer, faults) else { return job };
        job.name = read_name(&mut object, faults);
        job.owner = object.short("owner", KEY_MAX, faults);
        job.tags = object.pairs("tags", PAIRS_MAX, faults);
        if let Some(schedule) = object.object("schedule", faults) {
            job.schedule = ScheduleRequest::read(schedule, faults);
        }
        match object.object("target", faults) {
            Some(target) => job.target = read_target(target, faults),
            None if !faults.at(&object.at("target")) => {
                faults.add(object.at("target"), "a target is missing: {\"http\":{…}}, {\"worker\":{…}}, {\"command\":{…}} or {\"publish\":{…}}");
            }
            None => {}
        }
        job.payload = object.raw("payload").map(|raw| raw.get().to_string());
        job.payload_base64 = object.text("payload_base64", faults);
        job.content_type = object.short("content_type", KEY_MAX, faults);
        job.queue = object.short("queue", SHORT_MAX, faults);
        job.priority = object.number("priority", 0..=9, faults);
        job.group = object.short("group", SHORT_MAX, faults);
        job.idempotency_key = object.short("idempotency_key", KEY_MAX, faults);
        if let Some(mut retry) = object.object("retry", faults) {
            job.max_retries = retry.number("max_retries", 0..=1_000, faults);
            job.initial = retry.span("initial", faults);
            job.factor = retry.number("factor", 1..=100, faults);
            job.cap = retry.span("cap", faults);
            job.permanent = read_codes(&mut retry, faults);
            retry.finish(faults);
        }
        job.timeout = object.span("timeout", faults);
        job.start_within = object.span("start_within", faults);
        job.finish_within = object.span("finish_within", faults);
        let overlaps = ["queue_one", "skip", "allow", "cancel_running"];
        job.overlap = object.choice("overlap", &overlaps, faults);
        if let Some(mut catch_up) = object.object("catch_up", faults) {
            let policy = catch_up.choice("policy", &["once", "skip", "all"], faults);
            let request = CatchUpRequest {
                policy: policy.unwrap_or("once"),
                window: catch_up.span("window", faults),
                max: catch_up.number("max", 1..=1_000_000, faults),
                rate: catch_up.number("rate", 1..=1_000, faults),
            };
            job.catch_up = Some(request);
            catch_up.finish(faults);
        }
        job.paused = object.flag("paused", faults).unwrap_or(false);
        object.finish(faults);
        job
    }
}

/// A name stands in addresses beside ids, so it never looks like one.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.next().is_some_and(plain)
        && text.len() <= SHORT_MAX
        && !text.starts_with("job_")
        && bytes.all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

fn read_name(object: &mut Object<'_>, faults: &mut Faults) -> Option<String> {
    let name = object.short("name", SHORT_MAX, faults)?;
    if !is_name(&name) {
        let message = "a name has 1 to 128 of a-z, 0-9, dot, _ and -, begins with a letter or a \
                       digit, and not with job_";
        faults.add(object.at("name"), message);
        return None;
    }
    Some(name)
}

fn read_codes(retry: &mut Object<'_>, faults: &mut Faults) -> Option<Vec<u16>> {
    let at = retry.at("permanent");
    let list = retry.list("permanent", CODES_MAX, faults)?;
    let codes: Option<Vec<u16>> = list
        .iter()
        .map(|raw| serde_json::from_str(raw.get()).ok().filter(|code| (300..=599).contains(code)))
        .collect();
    if codes.is_none() {
        faults.add(at, "status codes from 300 to 599 are expected here, such as [400, 422]");
    }
    codes
}

impl ScheduleRequest {
    pub fn read(mut object: Object<'_>, faults: &mut Faults) -> ScheduleRequest {
        let when = match object.one_of(&["at", "delay", "every", "cron"], faults) {
            Some("at") => object.time("at", faults).map(WhenRequest::At),
            Some("delay") => object.span("delay", faults).map(WhenRequest::Delay),
            Some("every") => object.span("every", faults).map(WhenRequest::Every),
            Some(_) => object.short("cron", EXPRESSION_MAX, faults).map(WhenRequest::Cron),
            None => None,
        };
        let mut schedule = ScheduleRequest {
            when: when.unwrap_or_default(),
            timezone: object.short("timezone", SHORT_MAX, faults),
            jitter: object.span("jitter", faults),
            start_at: object.time("start_at", faults),
            end_at: object.time("end_at", faults),
            max_runs: object.number("max_runs", 1..=u64::MAX, faults),
            ..ScheduleRequest::default()
        };
        if let Some(mut dst) = object.object("dst", faults) {
            schedule.gap = dst.choice("gap", &["run", "skip"], faults);
            schedule.repeat = dst.choice("repeat", &["first", "second", "both"], faults);
            dst.finish(faults);
        }
        object.finish(faults);
        schedule
    }
}

/// The forms of a target.
pub const TARGETS: [&str; 4] = ["http", "worker", "command", "publish"];

pub fn read_target(mut object: Object<'_>, faults: &mut Faults) -> Option<TargetRequest> {
    let target = match object.one_of(&TARGETS, faults) {
        Some("http") => object.object("http", faults).and_then(|http| read_http(http, faults)),
        Some("command") => {
            object.object("command", faults).and_then(|command| read_command(command, faults))
        }
        Some("publish") => {
            object.object("publish", faults).and_then(|publish| read_publish(publish, faults))
        }
        Some(_) => object.object("worker", faults).and_then(|worker| read_worker(worker, faults)),
        None => None,
    };
    object.finish(faults);
    target
}

fn read_http(mut http: Object<'_>, faults: &mut Faults) -> Option<TargetRequest> {
    let url_at = http.at("url");
    let url = http.short("url", URL_MAX, faults);
    let method = http.choice("method", &["POST", "PUT", "PATCH", "DELETE", "GET"], faults);
    let headers = http.pairs("headers", PAIRS_MAX, faults);
    http.finish(faults);
    if url.is_none() && !faults.at(&url_at) {
        faults.add(url_at, "a URL is missing");
    }
    let method = method.map(str::to_string);
    url.map(|url| TargetRequest::Http { url, method, headers })
}

fn read_command(mut command: Object<'_>, faults: &mut Faults) -> Option<TargetRequest> {
    let argv_at = command.at("argv");
    let argv = command.texts("argv", ARGUMENTS_MAX, faults);
    let env = command.pairs("env", PAIRS_MAX, faults);
    command.finish(faults);
    if argv.as_ref().is_none_or(Vec::is_empty) && !faults.at(&argv_at) {
        faults.add(argv_at, "a program is missing: [\"/usr/local/bin/tidy\", \"--all\"]");
        return None;
    }
    argv.map(|argv| TargetRequest::Command { argv, env })
}

fn read_publish(mut publish: Object<'_>, faults: &mut Faults) -> Option<TargetRequest> {
    let broker = match publish.one_of(&["redis", "rabbitmq"], faults) {
        Some("redis") => {
            publish.object("redis", faults).and_then(|redis| read_redis(redis, faults))
        }
        Some(_) => {
            publish.object("rabbitmq", faults).and_then(|rabbit| read_rabbit(rabbit, faults))
        }
        None => None,
    };
    publish.finish(faults);
    broker.map(TargetRequest::Publish)
}

fn read_redis(mut redis: Object<'_>, faults: &mut Faults) -> Option<BrokerRequest> {
    let url = wanted(&mut redis, "url", URL_MAX, faults);
    let stream = wanted(&mut redis, "stream", KEY_MAX, faults);
    let max_len = redis.number("max_len", 1..=STREAM_LEN_MAX, faults);
    redis.finish(faults);
    Some(BrokerRequest::Redis { url: url?, stream: stream?, max_len })
}

fn read_rabbit(mut rabbit: Object<'_>, faults: &mut Faults) -> Option<BrokerRequest> {
    let url = wanted(&mut rabbit, "url", URL_MAX, faults);
    let exchange = rabbit.short("exchange", KEY_MAX, faults);
    let routing_key = wanted(&mut rabbit, "routing_key", KEY_MAX, faults);
    rabbit.finish(faults);
    Some(BrokerRequest::RabbitMq { url: url?, exchange, routing_key: routing_key? })
}

fn wanted(
    object: &mut Object<'_>,
    name: &'static str,
    longest: usize,
    faults: &mut Faults,
) -> Option<String> {
    let at = object.at(name);
    let text = object.short(name, longest, faults);
    if text.is_none() && !faults.at(&at) {
        faults.add(at, format!("{name} is missing"));
    }
    text
}

fn read_worker(mut worker: Object<'_>, faults: &mut Faults) -> Option<TargetRequest> {
    let kind_at = worker.at("kind");
    let kind = worker.short("kind", SHORT_MAX, faults);
    worker.finish(faults);
    if kind.is_none() && !faults.at(&kind_at) {
        faults.add(kind_at, "a kind is missing");
    }
    kind.map(|kind| TargetRequest::Worker { kind })
}

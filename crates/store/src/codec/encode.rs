//! A spec as bytes, without its payload (which has a column of its own). Our own encoding and not
//! a library's, because files outlive libraries.
//!
//! A version byte, then fields: tag (1 byte), length (LEB128), bytes. Numbers are LEB128, signed
//! ones zigzagged; text is UTF-8 and shows to people who look. A field that is absent has the value
//! named in `decode`. A tag that is not known is passed over, so that newer code may add fields
//! that older code can do without; whatever it cannot do without needs a new version byte.
//!
//! All fields with a meaning are written, also those that have today's default: a default that
//! changes must not change what somebody registered.

use super::NotKnown;
use model::job::{CatchUp, Overlap};
use model::{
    Author, Broker, Bytes, Dialect, Dst, Gap, KeyId, Namespace, Origin, Policy, Repeat,
    ScheduleSpec, Span, Spec, Target, Text, Time, When, Within,
};

const VERSION: u8 = 1;
/// Of specs whose target the first version did not know: code that knows only that one must not take
/// them for something else.
const VERSION_TARGETS: u8 = 2;

// Never reuse a number.
const NAMESPACE: u8 = 1;
const NAME: u8 = 2;
const OWNER: u8 = 3;
const TAG: u8 = 4;
const WHEN: u8 = 5;
const TIMEZONE: u8 = 6;
const DST: u8 = 7;
const START_AT: u8 = 8;
const END_AT: u8 = 9;
const MAX_RUNS: u8 = 10;
const JITTER: u8 = 11;
const HTTP: u8 = 12;
const HEADER: u8 = 13;
const WORKER: u8 = 14;
const CONTENT_TYPE: u8 = 15;
const QUEUE: u8 = 16;
const GROUP: u8 = 17;
const PRIORITY: u8 = 18;
const POLICY: u8 = 19;
const OVERLAP: u8 = 20;
const CATCH_UP: u8 = 21;
const PERMANENT: u8 = 22;
const REQUEST_ID: u8 = 23;
const COMMAND: u8 = 24;
const ARGUMENT: u8 = 25;
const ENVIRONMENT: u8 = 26;
const REDIS: u8 = 27;
const REDIS_MAX_LEN: u8 = 28;
const RABBITMQ: u8 = 29;
const ROUTING_KEY: u8 = 30;
const START_WITHIN: u8 = 31;
const FINISH_WITHIN: u8 = 32;
const API_KEY: u8 = 33;
const SINCE: u8 = 40;
/// A key's id and its name; an empty id says that there was no key.
const BY: u8 = 41;

pub fn encode(spec: &Spec) -> Result<Vec<u8>, NotKnown> {
    let mut out = Writer(Vec::with_capacity(160));
    out.0.push(match &spec.target {
        Target::Http { .. } | Target::Worker { .. } => VERSION,
        _ => VERSION_TARGETS,
    });
    out.field(NAMESPACE, |out| out.number(spec.namespace.0.into()));
    out.text(NAME, spec.name.as_deref());
    out.text(OWNER, spec.owner.as_deref());
    for (key, value) in &spec.tags {
        out.field(TAG, |out| out.pair(key, value));
    }
    when(&mut out, &spec.schedule.when)?;
    out.text(TIMEZONE, spec.schedule.timezone.as_deref());
    let Dst { gap, repeat } = spec.schedule.dst;
    out.field(DST, |out| {
        out.number(place(&GAPS, gap));
        out.number(place(&REPEATS, repeat));
    });
    out.signed_field(START_AT, spec.schedule.start_at.map(Time::micros));
    out.signed_field(END_AT, spec.schedule.end_at.map(Time::micros));
    if let Some(max) = spec.schedule.max_runs {
        out.field(MAX_RUNS, |out| out.number(max));
    }
    out.signed_field(JITTER, spec.schedule.jitter.map(Span::micros));
    match &spec.target {
        Target::Http { url, method, headers } => {
            out.field(HTTP, |out| out.pair(method, url));
            for (name, value) in headers {
                out.field(HEADER, |out| out.pair(name, value));
            }
        }
        Target::Worker { kind } => out.text(WORKER, Some(kind)),
        Target::Command { argv, env } => {
            out.field(COMMAND, |_| {});
            argv.iter().for_each(|one| out.text(ARGUMENT, Some(one)));
            for (name, value) in env {
                out.field(ENVIRONMENT, |out| out.pair(name, value));
            }
        }
        Target::Publish(Broker::Redis { url, stream, max_len }) => {
            out.field(REDIS, |out| out.pair(stream, url));
            if let Some(most) = max_len {
                out.field(REDIS_MAX_LEN, |out| out.number(*most));
            }
        }
        Target::Publish(Broker::RabbitMq { url, exchange, routing_key }) => {
            out.field(RABBITMQ, |out| out.pair(exchange, url));
            out.text(ROUTING_KEY, Some(routing_key));
        }
        other => return Err(cannot("target", other)),
    }
    out.text(CONTENT_TYPE, Some(&spec.content_type));
    out.text(QUEUE, Some(&spec.queue));
    out.text(GROUP, spec.group.as_deref());
    out.field(PRIORITY, |out| out.number(spec.priority.into()));
    let policy = &spec.policy;
    out.field(POLICY, |out| {
        out.number(policy.max_retries.into());
        out.signed(policy.initial.micros());
        out.number(policy.factor.into());
        out.signed(policy.cap.micros());
        out.number(policy.max_lost.into());
        out.signed(policy.timeout.micros());
    });
    out.field(OVERLAP, |out| out.number(place(&OVERLAPS, spec.overlap)));
    out.field(CATCH_UP, |out| match spec.catch_up {
        CatchUp::Once => out.number(0),
        CatchUp::Skip => out.number(1),
        CatchUp::All { window, max, per_second } => {
            out.number(2);
            out.signed(window.micros());
            out.number(max.into());
            out.number(per_second.into());
        }
    });
    if let Some(codes) = &spec.permanent {
        out.field(PERMANENT, |out| codes.iter().for_each(|code| out.number((*code).into())));
    }
    out.text(REQUEST_ID, spec.request_id.as_deref());
    out.signed_field(START_WITHIN, spec.within.start.map(Span::micros));
    out.signed_field(FINISH_WITHIN, spec.within.finish.map(Span::micros));
    if let Some(key) = spec.api_key {
        out.field(API_KEY, |out| out.number(key.bits()));
    }
    out.signed_field(SINCE, spec.origin.since.map(Time::micros));
    match &spec.origin.by {
        Author::NotKnown => {}
        Author::NoKey => out.field(BY, |out| out.pair("", "")),
        Author::Key { id, name } => {
            out.field(BY, |out| out.pair(id, name.as_deref().unwrap_or_default()));
        }
    }
    Ok(out.0)
}

fn when(out: &mut Writer, when: &When) -> Result<(), NotKnown> {
    match when {
        When::Now => out.field(WHEN, |out| out.number(0)),
        When::At(at) => out.field(WHEN, |out| out.choice(1, at.micros())),
        When::Delay(span) => out.field(WHEN, |out| out.choice(2, span.micros())),
        When::Every(span) => out.field(WHEN, |out| out.choice(3, span.micros())),
        When::Cron { expression, dialect } => out.field(WHEN, |out| {
            out.number(4);
            out.number(place(&DIALECTS, *dialect));
            out.0.extend_from_slice(expression.as_bytes());
        }),
        other => return Err(cannot("schedule", other)),
    }
    Ok(())
}

/// A variant that the model has and this file's version has no place for.
fn cannot(what: &str, value: &dyn std::fmt::Debug) -> NotKnown {
    NotKnown(format!("a {what} that this store cannot keep: {value:?}"))
}

/// None where the bytes are not of a version or shape that this code knows.
pub fn decode(body: &[u8], payload: Bytes) -> Option<Spec> {
    let (version, rest) = body.split_first()?;
    if ![VERSION, VERSION_TARGETS].contains(version) {
        return None;
    }
    let mut spec = Spec {
        namespace: Namespace(0),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(When::Now),
        target: Target::Worker { kind: Text::from("") },
        payload,
        content_type: Text::from(""),
        queue: Text::from(""),
        group: None,
        priority: 0,
        policy: Policy::default(),
        overlap: Overlap::default(),
        catch_up: CatchUp::default(),
        permanent: None,
        within: Within::default(),
        request_id: None,
        api_key: None,
        origin: Origin::default(),
    };
    let mut input = Reader(rest);
    while !input.0.is_empty() {
        let (tag, mut field) = input.field()?;
        match tag {
            NAMESPACE => spec.namespace = Namespace(field.narrow()?),
            NAME => spec.name = Some(field.text()?.into()),
            OWNER => spec.owner = Some(field.text()?.into()),
            TAG => spec.tags.push(field.pair()?),
            WHEN => spec.schedule.when = field.when()?,
            TIMEZONE => spec.schedule.timezone = Some(field.text()?.to_owned()),
            DST => {
                let gap = field.one_of(&GAPS)?;
                spec.schedule.dst = Dst { gap, repeat: field.one_of(&REPEATS)? };
            }
            START_AT => spec.schedule.start_at = Some(Time::from_micros(field.signed()?)),
            END_AT => spec.schedule.end_at = Some(Time::from_micros(field.signed()?)),
            MAX_RUNS => spec.schedule.max_runs = Some(field.number()?),
            JITTER => spec.schedule.jitter = Some(field.span()?),
            START_WITHIN => spec.within.start = Some(field.span()?),
            FINISH_WITHIN => spec.within.finish = Some(field.span()?),
            HTTP => {
                let (method, url) = field.pair()?;
                spec.target = Target::Http { url, method, headers: Vec::new() };
            }
            HEADER => match &mut spec.target {
                Target::Http { headers, .. } => headers.push(field.pair()?),
                _ => return None,
            },
            WORKER => spec.target = Target::Worker { kind: field.text()?.into() },
            COMMAND => spec.target = Target::Command { argv: Vec::new(), env: Vec::new() },
            ARGUMENT | ENVIRONMENT => match (&mut spec.target, tag) {
                (Target::Command { argv, .. }, ARGUMENT) => argv.push(field.text()?.into()),
                (Target::Command { env, .. }, _) => env.push(field.pair()?),
                _ => return None,
            },
            REDIS => {
                let (stream, url) = field.pair()?;
                spec.target = Target::Publish(Broker::Redis { url, stream, max_len: None });
            }
            REDIS_MAX_LEN => match &mut spec.target {
                Target::Publish(Broker::Redis { max_len, .. }) => *max_len = Some(field.number()?),
                _ => return None,
            },
            RABBITMQ => {
                let ((exchange, url), routing_key) = (field.pair()?, Text::from(""));
                spec.target = Target::Publish(Broker::RabbitMq { url, exchange, routing_key });
            }
            ROUTING_KEY => match &mut spec.target {
                Target::Publish(Broker::RabbitMq { routing_key, .. }) => {
                    *routing_key = field.text()?.into();
                }
                _ => return None,
            },
            CONTENT_TYPE => spec.content_type = field.text()?.into(),
            QUEUE => spec.queue = field.text()?.into(),
            GROUP => spec.group = Some(field.text()?.into()),
            PRIORITY => spec.priority = field.narrow()?,
            POLICY => {
                spec.policy = Policy {
                    max_retries: field.narrow()?,
                    initial: field.span()?,
                    factor: field.narrow()?,
                    cap: field.span()?,
                    max_lost: field.narrow()?,
                    timeout: field.span()?,
                }
            }
            OVERLAP => spec.overlap = field.one_of(&OVERLAPS)?,
            CATCH_UP => spec.catch_up = field.catch_up()?,
            PERMANENT => spec.permanent = Some(field.narrow_list()?.into()),
            REQUEST_ID => spec.request_id = Some(field.text()?.into()),
            API_KEY => spec.api_key = Some(KeyId::from_bits(field.number()?)),
            SINCE => spec.origin.since = Some(Time::from_micros(field.signed()?)),
            BY => {
                let (id, name) = field.pair()?;
                spec.origin.by = match id.is_empty() {
                    true => Author::NoKey,
                    false => Author::Key { id, name: Some(name).filter(|name| !name.is_empty()) },
                };
            }
            _ => {}
        }
    }
    Some(spec)
}

// In the order of their numbers: never change it, only add.
const GAPS: [Gap; 2] = [Gap::Run, Gap::Skip];
const REPEATS: [Repeat; 3] = [Repeat::First, Repeat::Second, Repeat::Both];
const DIALECTS: [Dialect; 2] = [Dialect::Cron, Dialect::Quartz];
const OVERLAPS: [Overlap; 4] =
    [Overlap::QueueOne, Overlap::Skip, Overlap::Allow, Overlap::CancelRunning];

/// A variant that is in no list gets a number that is refused when it is read.
fn place<T: PartialEq>(all: &[T], value: T) -> u64 {
    all.iter().position(|each| *each == value).map_or(u64::MAX, |at| at as u64)
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    fn choice(&mut self, which: u64, value: i64) {
        self.number(which);
        self.signed(value);
    }

    fn pair(&mut self, first: &str, second: &str) {
        self.number(first.len() as u64);
        self.0.extend_from_slice(first.as_bytes());
        self.0.extend_from_slice(second.as_bytes());
    }

    fn field(&mut self, tag: u8, write: impl FnOnce(&mut Writer)) {
        self.0.push(tag);
        // Most fields are short: one byte is kept for the length and widened where it must be.
        let at = self.0.len();
        self.0.push(0);
        write(self);
        let length = self.0.len() - at - 1;
        let mut prefix = Writer(Vec::new());
        if length < 0x80 {
            self.0[at] = length as u8;
        } else {
            prefix.number(length as u64);
            self.0.splice(at..=at, prefix.0);
        }
    }

    fn text(&mut self, tag: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.field(tag, |out| out.0.extend_from_slice(text.as_bytes()));
        }
    }

    fn signed_field(&mut self, tag: u8, value: Option<i64>) {
        if let Some(value) = value {
            self.field(tag, |out| out.signed(value));
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// Numbers to the end of the field.
    fn narrow_list<T: TryFrom<u64>>(&mut self) -> Option<Vec<T>> {
        let mut list = Vec::new();
        while !self.0.is_empty() {
            list.push(self.narrow()?);
        }
        Some(list)
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn span(&mut self) -> Option<Span> {
        self.signed().map(Span::from_micros)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.narrow::<usize>()?).copied()
    }

    fn field(&mut self) -> Option<(u8, Reader<'a>)> {
        let (tag, rest) = self.0.split_first()?;
        self.0 = rest;
        let (field, rest) = self.split()?;
        self.0 = rest;
        Some((*tag, Reader(field)))
    }

    fn split(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let length = self.narrow()?;
        self.0.split_at_checked(length)
    }

    /// All that is left.
    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(std::mem::take(&mut self.0)).ok()
    }

    fn pair(&mut self) -> Option<(Text, Text)> {
        let (first, rest) = self.split()?;
        self.0 = rest;
        Some((std::str::from_utf8(first).ok()?.into(), self.text()?.into()))
    }

    fn when(&mut self) -> Option<When> {
        Some(match self.number()? {
            0 => When::Now,
            1 => When::At(Time::from_micros(self.signed()?)),
            2 => When::Delay(self.span()?),
            3 => When::Every(self.span()?),
            4 => {
                let dialect = self.one_of(&DIALECTS)?;
                When::Cron { expression: self.text()?.to_owned(), dialect }
            }
            _ => return None,
        })
    }

    fn catch_up(&mut self) -> Option<CatchUp> {
        Some(match self.number()? {
            0 => CatchUp::Once,
            1 => CatchUp::Skip,
            2 => CatchUp::All {
                window: self.span()?,
                max: self.narrow()?,
                per_second: self.narrow()?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;

//! From a requested target to the core's: whether a URL, a program, a broker can be meant. Where a
//! URL leads is judged when it is dialled.

use hyper::header::{HeaderName, HeaderValue};
use model::{Broker, Target, Text};
use wire::Faults;
use wire::broker::{self, BrokerUrl, Scheme};
use wire::job::{BrokerRequest, TargetRequest};
use wire::limits::ARGUMENT_MAX;

/// Headers that belong to the connection or to us.
const RESERVED: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "upgrade",
    "trailer",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "x-scheduler-signature",
];

/// A short text of RabbitMQ's protocol.
const AMQP_TEXT_MAX: usize = 255;

/// Variables of a command that are ours to set.
const RESERVED_VARIABLES: &str = "DULY_";

pub fn of(request: TargetRequest, pointer: &str, faults: &mut Faults) -> Option<Target> {
    let pointer = format!("{pointer}/target");
    match request {
        TargetRequest::Worker { kind } => Some(Target::Worker { kind: Text::from(kind) }),
        TargetRequest::Http { url, method, headers } => {
            http(url, method, headers, &pointer, faults)
        }
        TargetRequest::Command { argv, env } => command(argv, env, &pointer, faults),
        TargetRequest::Publish(broker) => publish(broker, &pointer, faults),
    }
}

fn texts(pairs: Vec<(String, String)>) -> Vec<(Text, Text)> {
    pairs.into_iter().map(|(k, v)| (Text::from(k), Text::from(v))).collect()
}

fn http(
    url: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    pointer: &str,
    faults: &mut Faults,
) -> Option<Target> {
    let at = format!("{pointer}/http/url");
    let uri: hyper::Uri = match url.parse() {
        Ok(uri) => uri,
        Err(_) => {
            faults.add(at, "this is not a URL; write https://host/path");
            return None;
        }
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        faults.add(&at, "a URL begins with http:// or https://");
    }
    if let Err(why) = authority(&uri) {
        faults.add(&at, why);
    }
    let at = format!("{pointer}/http/headers");
    for (name, value) in &headers {
        let good = name.parse::<HeaderName>().is_ok() && value.parse::<HeaderValue>().is_ok();
        let lower = name.to_ascii_lowercase();
        if !good || RESERVED.contains(&lower.as_str()) {
            faults.add(format!("{at}/{name}"), "this header cannot be set");
        }
    }
    let method = Text::from(method.unwrap_or_else(|| "POST".to_string()));
    Some(Target::Http { url: Text::from(url), method, headers: texts(headers) })
}

/// A host in one of its two usual spellings, a port perhaps, and nothing else. The address behind
/// it is judged when it is dialled.
fn authority(uri: &hyper::Uri) -> Result<(), &'static str> {
    let authority = uri.authority().ok_or("a URL has a host")?;
    let text = authority.as_str();
    if text.contains('@') {
        return Err("a URL of a target has no user name");
    }
    wire::host::parse(authority.host())?;
    let port = text.get(authority.host().len()..).unwrap_or_default();
    let good = |digits: &str| digits.parse::<u16>().is_ok_and(|port| port != 0);
    match port.is_empty() || port.strip_prefix(':').is_some_and(good) {
        true => Ok(()),
        false => Err("a port lies between 1 and 65535"),
    }
}

fn command(
    argv: Vec<String>,
    env: Vec<(String, String)>,
    pointer: &str,
    faults: &mut Faults,
) -> Option<Target> {
    let at = format!("{pointer}/command/argv");
    for (index, argument) in argv.iter().enumerate() {
        if argument.len() > ARGUMENT_MAX || argument.contains('\0') {
            let message =
                format!("an argument has at most {ARGUMENT_MAX} bytes, none of them zero");
            faults.add(format!("{at}/{index}"), message);
        }
    }
    if argv.first().is_none_or(|program| !program.starts_with('/')) {
        faults.add(format!("{at}/0"), "a program is named by its whole path; there is no shell");
    }
    for (name, value) in &env {
        let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let good = !name.is_empty() && name.bytes().all(letter) && !value.contains('\0');
        if !good || name.starts_with(RESERVED_VARIABLES) {
            let message = "a variable has letters, digits and _, and does not begin with DULY_";
            faults.add(format!("{pointer}/command/env/{name}"), message);
        }
    }
    let argv = argv.into_iter().map(Text::from).collect();
    Some(Target::Command { argv, env: texts(env) })
}

fn publish(request: BrokerRequest, pointer: &str, faults: &mut Faults) -> Option<Target> {
    let pointer = format!("{pointer}/publish");
    let broker = match request {
        BrokerRequest::Redis { url, stream, max_len } => {
            url_of(&url, broker::REDIS, &format!("{pointer}/redis/url"), faults);
            Broker::Redis { url: Text::from(url), stream: Text::from(stream), max_len }
        }
        BrokerRequest::RabbitMq { url, exchange, routing_key } => {
            url_of(&url, broker::AMQP, &format!("{pointer}/rabbitmq/url"), faults);
            for (name, text) in
                [("exchange", exchange.as_deref()), ("routing_key", Some(routing_key.as_str()))]
            {
                if text.is_some_and(|text| text.len() > AMQP_TEXT_MAX) {
                    let message = format!("RabbitMQ takes at most {AMQP_TEXT_MAX} bytes here");
                    faults.add(format!("{pointer}/rabbitmq/{name}"), message);
                }
            }
            Broker::RabbitMq {
                url: Text::from(url),
                exchange: Text::from(exchange.unwrap_or_default()),
                routing_key: Text::from(routing_key),
            }
        }
    };
    Some(Target::Publish(broker))
}

fn url_of(url: &str, scheme: Scheme, at: &str, faults: &mut Faults) {
    match BrokerUrl::parse(url, scheme) {
        // What readers see is not what can be stored: the job would lose its password.
        Ok(url) if url.password.as_deref() == Some(broker::MASK) => {
            faults.add(at, "write the password itself; *** is only what readers see");
        }
        Ok(url) if scheme.is_redis() && !database(url.path.as_deref()) => {
            faults.add(at, "behind the host of Redis stands the number of a database, such as /0");
        }
        Ok(_) => {}
        Err(why) => faults.add(at, why),
    }
}

fn database(path: Option<&str>) -> bool {
    path.is_none_or(|path| path.is_empty() || path.parse::<u16>().is_ok())
}

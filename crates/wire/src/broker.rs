//! The URL of a message broker: `redis://user:password@host:port/database`,
//! `amqp://user:password@host:port/vhost`, and both with TLS (`rediss://`, `amqps://`). The host is
//! judged like a webhook's; the password is for the broker alone and is masked for everybody else.

use crate::host::{self, Host};

/// What readers see in place of a password.
pub const MASK: &str = "***";

#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    pub tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub host: Host,
    pub port: u16,
    /// Behind the host, without its slash: a database or a virtual host. None: there is no slash.
    pub path: Option<String>,
}

/// The two schemes of a kind of broker, without and with TLS, and their ports.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    plain: (&'static str, u16),
    tls: (&'static str, u16),
}

pub const REDIS: Scheme = Scheme { plain: ("redis", 6379), tls: ("rediss", 6379) };
pub const AMQP: Scheme = Scheme { plain: ("amqp", 5672), tls: ("amqps", 5671) };

impl Scheme {
    pub fn is_redis(self) -> bool {
        self.plain.0 == REDIS.plain.0
    }
}

impl BrokerUrl {
    /// The reason never repeats the text: it may hold a password.
    pub fn parse(text: &str, scheme: Scheme) -> Result<BrokerUrl, String> {
        let Scheme { plain, tls } = scheme;
        let wrong = || format!("a URL begins with {}:// or {}://", plain.0, tls.0);
        let (given, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (tls, usual) = match given {
            given if given == plain.0 => (false, plain.1),
            given if given == tls.0 => (true, tls.1),
            _ => return Err(wrong()),
        };
        if rest.contains(['?', '#']) {
            return Err("nothing is read behind a ? or # of this URL".to_string());
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(decoded(path)?)),
            None => (rest, None),
        };
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
            None => (None, None),
        };
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (name, port) = match place.rsplit_once(':') {
            Some((name, digits)) if !digits.ends_with(']') => {
                let port = digits.parse().ok().filter(|port| *port != 0);
                (name, port.ok_or("a port lies between 1 and 65535")?)
            }
            _ => (place, usual),
        };
        let host = host::parse(name)?;
        Ok(BrokerUrl { tls, user: filled(user), password: filled(password), host, port, path })
    }
}

/// The URL with its password covered; a URL without one is as it was.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return MASK.to_string() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((login, place)) if login.contains(':') => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:{MASK}@{place}{path}")
        }
        _ => url.to_string(),
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "a % in a URL is followed by two hexadecimal digits".to_string();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits =
            rest.get(..2).and_then(|two| std::str::from_utf8(two).ok()).ok_or_else(wrong)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "a URL is UTF-8".to_string())
}

impl std::fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BrokerUrl({:?}:{})", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, scheme: Scheme) -> Result<String, String> {
        BrokerUrl::parse(text, scheme).map(|url| {
            let show = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
            let (user, password) = (show(url.user), show(url.password));
            format!("{} {user} {password} {:?} {} {}", url.tls, url.host, url.port, show(url.path))
        })
    }

    #[test]
    fn urls_are_read() {
        for (text, scheme, wanted) in [
            ("redis://h.example", REDIS, "false - - Name(\"h.example\") 6379 -"),
            ("rediss://:p%40ss@h.example:7/2", REDIS, "true - p@ss Name(\"h.example\") 7 2"),
            ("amqp://u:p:q@[2606:4700::1]:9/%2Fv", AMQP, "false u p:q Address(2606:4700::1) 9 /v"),
            ("amqps://u@10.0.0.1/", AMQP, "true u - Address(10.0.0.1) 5671 "),
        ] {
            assert_eq!(parts(text, scheme).as_deref(), Ok(wanted), "{text}");
        }
        for text in [
            "http://h.example",
            "redis:h",
            "redis://",
            "redis://h.example:0",
            "redis://h.example:",
            "redis://h.example:99999",
            "redis://127.1",
            "redis://h.example/0?x=1",
            "redis://u:%zz@h.example",
            "redis://u:%ff@h.example",
        ] {
            let refused = parts(text, REDIS);
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }

    #[test]
    fn passwords_are_covered_and_never_repeated() {
        for (url, shown) in [
            ("redis://h.example/1", "redis://h.example/1"),
            ("redis://:secret@h.example", "redis://:***@h.example"),
            ("amqp://u:se:cr@et@h.example:1/v", "amqp://u:***@h.example:1/v"),
            ("amqp://u@h.example", "amqp://u@h.example"),
        ] {
            assert_eq!(masked(url), shown);
        }
        for scheme in [REDIS, AMQP] {
            let refused =
                BrokerUrl::parse("ftp://u:hush@h", scheme).expect_err("no scheme of ours");
            assert!(!refused.contains("hush"), "{refused}");
        }
        let url = BrokerUrl::parse("redis://u:hush@h.example", REDIS).expect("a URL");
        assert!(!format!("{url:?}").contains("hush"));
    }
}

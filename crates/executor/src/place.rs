//! Where a webhook goes: what a URL means for dialling, pooling and counting.

use crate::publish;
use hyper::Uri;
use model::Target;
use std::fmt;
use std::net::IpAddr;
use wire::host::{self, Host};

/// Connections and slots are shared by what has the same scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub tls: bool,
    pub host: Host,
    pub port: u16,
}

impl Place {
    /// Where programs of this machine run: no host has this name, and no host this port.
    pub fn commands() -> Place {
        Place { tls: false, host: Host::Name("(commands)".to_string()), port: 0 }
    }

    /// Submissions are checked in the same way; this is the check of what is dialled.
    pub fn of(uri: &Uri) -> Result<Place, String> {
        let wrong = |why: &str| format!("{uri} cannot be called: {why}");
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("a URL begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let text = authority.as_str();
        if text.contains('@') {
            return Err(wrong("a URL of a target has no user name"));
        }
        let host = host::parse(authority.host()).map_err(wrong)?;
        let rest = text.get(authority.host().len()..).unwrap_or_default();
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => Some(if tls { 443 } else { 80 }),
            None => None,
            Some(digits) => digits.parse().ok().filter(|port| *port != 0),
        };
        let port = port.ok_or_else(|| wrong("its port is not one of 1 to 65535"))?;
        Ok(Place { tls, host, port })
    }
}

/// Where a target of the executor is; none for what goes nowhere (a program of this machine) and what
/// cannot be called.
pub fn of_target(target: &Target) -> Option<Place> {
    match target {
        Target::Http { url, .. } => Place::of(&url.parse::<Uri>().ok()?).ok(),
        Target::Publish(broker) => publish::place(broker).ok(),
        _ => None,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V4(ip)) => write!(f, "{ip}:{}", self.port),
            Host::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<String, String> {
        let uri: Uri = url.parse().map_err(|_| "no URL".to_string())?;
        Place::of(&uri).map(|place| format!("{} {place}", place.tls))
    }

    #[test]
    fn the_usual_ports_are_known_and_odd_ones_refused() {
        assert_eq!(place("http://A.example/x").as_deref(), Ok("false a.example:80"));
        assert_eq!(place("https://a.example").as_deref(), Ok("true a.example:443"));
        assert_eq!(
            place("https://[2606:4700::1]:8443/").as_deref(),
            Ok("true [2606:4700::1]:8443")
        );
        for url in [
            "http://a.example:0/",
            "http://a.example:65536/",
            "http://a.example:/",
            "ftp://a/",
            "http://u@a.example/",
            "http://u:p@a.example/",
            "/path",
            "http://:80/",
            "http://127.1/",
        ] {
            assert!(place(url).is_err(), "{url}");
        }
    }
}

//! The host of a target's URL. Only two spellings are taken: a plain DNS name and an IP address in
//! its one usual form. Libraries disagree about everything else (`127.1`, `0x7f000001`, `0177.0.0.1`,
//! zone ids, dots of other scripts), and what one reads as a name another dials as an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// In lower case.
    Name(String),
    Address(IpAddr),
}

/// `host` as a URL has it: IPv6 in brackets.
pub fn parse(host: &str) -> Result<Host, &'static str> {
    if let Some(rest) = host.strip_prefix('[') {
        let inside = rest.strip_suffix(']').ok_or("an IPv6 address ends with ]")?;
        if inside.contains('%') {
            return Err("an IPv6 address of a target has no zone");
        }
        let address: Ipv6Addr = inside.parse().map_err(|_| "this is not an IPv6 address")?;
        return Ok(Host::Address(IpAddr::V6(address)));
    }
    if !host.is_ascii() {
        return Err("write the host in its ASCII form (xn--…)");
    }
    if host.is_empty() || host.len() > NAME_MAX {
        return Err("a host has 1 to 253 characters");
    }
    if host.ends_with('.') {
        return Err("leave out the dot at the end of the host");
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')) {
        return Err("a host has letters, digits, hyphens and dots");
    }
    for label in host.split('.') {
        if label.is_empty() || label.len() > LABEL_MAX {
            return Err("between the dots of a host are 1 to 63 characters");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err("no part of a host begins or ends with a hyphen");
        }
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    if is_number(last) {
        // Rust reads the four-number form only, without leading zeros.
        let address: Ipv4Addr = host
            .parse()
            .map_err(|_| "an IPv4 address is four decimal numbers without leading zeros")?;
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

/// Would some resolver read a name that ends like this as an IPv4 address?
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => label.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_are_read() {
        let name = |text: &str| Ok(Host::Name(text.to_string()));
        assert_eq!(parse("Example.COM"), name("example.com"));
        assert_eq!(parse("localhost"), name("localhost"));
        assert_eq!(parse("a_b.x-1.internal"), name("a_b.x-1.internal"));
        assert_eq!(parse("0x7f.example"), name("0x7f.example"));
        assert_eq!(parse("xn--bcher-kva.example"), name("xn--bcher-kva.example"));
        assert_eq!(parse("127.0.0.1"), Ok(Host::Address(Ipv4Addr::LOCALHOST.into())));
        assert_eq!(parse("[::1]"), Ok(Host::Address(Ipv6Addr::LOCALHOST.into())));
    }

    #[test]
    fn odd_spellings_are_refused() {
        for host in [
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "017700000001",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "127.0.0.01",
            "127.0.0.1.",
            "127.0.0.0x1",
            "1.2.3.4.5",
            "256.0.0.1",
            "localhost.",
            "a..b",
            ".a",
            "-a.b",
            "a-.b",
            "a b",
            "a%20b",
            "%31%32%37.0.0.1",
            "a@b",
            "１２７.0.0.1",
            "127。0。0。1",
            "bücher.example",
            "[::1%25lo]",
            "[fe80::1%eth0]",
            "[::1",
            "[]",
            "[1.2.3.4]",
            "[::ffff:0x7f.1]",
            "",
            "a:b",
            "example.0x",
            "example.123",
        ] {
            assert!(parse(host).is_err(), "{host}");
        }
        assert!(parse(&format!("{}.example", "a".repeat(64))).is_err());
        assert!(parse(&"a.".repeat(127)[..253].replace("..", ".a")).is_ok());
        assert!(parse(&"a.a".repeat(100)).is_err());
    }
}

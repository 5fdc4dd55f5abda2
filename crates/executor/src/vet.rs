//! Which addresses a webhook may go to. A name is resolved once, **every** address it has must pass,
//! and one of those that passed is dialled: a name that answers differently the second time
//! changes nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// Where we listen ourselves. Loopback targets are allowed only while this is loopback too.
    pub own: SocketAddr,
}

impl Guard {
    pub fn vet(&self, to: SocketAddr) -> Result<(), &'static str> {
        let ip = canonical(to.ip());
        if ip.is_loopback() {
            if !self.own.ip().is_loopback() {
                return Err("loopback targets are allowed only while duly listens on loopback");
            }
            if to.port() == self.own.port() {
                return Err("duly does not call itself");
            }
            return Ok(());
        }
        let refused = match ip {
            IpAddr::V4(ip) => refused_v4(ip),
            IpAddr::V6(ip) => refused_v6(ip),
        };
        refused.map_or(Ok(()), Err)
    }
}

/// An IPv4 address that hides in an IPv6 one is judged as what it is.
fn canonical(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let s = v6.segments();
    let low = Ipv4Addr::from((u32::from(s[6]) << 16) | u32::from(s[7]));
    let mapped = s[..5] == [0; 5] && s[5] == 0xffff;
    let nat64 = s[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if mapped || nat64 {
        return IpAddr::V4(low);
    }
    if s[0] == 0x2002 {
        return IpAddr::V4(Ipv4Addr::from((u32::from(s[1]) << 16) | u32::from(s[2])));
    }
    ip
}

fn refused_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (0, _, _) => Some("this network"),
        (10, _, _) | (192, 168, _) => Some("a private address"),
        (172, 16..=31, _) => Some("a private address"),
        (100, 64..=127, _) => Some("a shared address"),
        (169, 254, _) => Some("a link-local address (metadata services live there)"),
        (192, 0, 0) | (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Some("a reserved address"),
        (198, 18..=19, _) => Some("a benchmarking address"),
        (192, 88, 99) => Some("a relay address"),
        (224..=255, _, _) => Some("a multicast, reserved or broadcast address"),
        _ => None,
    }
}

fn refused_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let s = ip.segments();
    if s[..6] == [0; 6] {
        return Some("an unspecified or compatible address");
    }
    match s[0] {
        0xfc00..=0xfdff => Some("a private address"),
        0xfe80..=0xfebf => Some("a link-local address"),
        0xfec0..=0xfeff => Some("a site-local address"),
        0xff00..=0xffff => Some("a multicast address"),
        0x2001 if s[1] < 0x200 || s[1] == 0x0db8 => Some("a tunnel or reserved address"),
        0x64 if s[1] == 0xff9b => Some("a translated private address"),
        0x0100 => Some("a discard address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vet(own: &str, to: &str) -> Result<(), &'static str> {
        Guard { own: own.parse().expect("an address") }.vet(to.parse().expect("an address"))
    }

    #[test]
    fn inner_addresses_are_refused_in_every_spelling() {
        for to in [
            "10.0.0.1:80",
            "172.16.0.1:80",
            "172.31.255.255:80",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "100.64.0.1:80",
            "0.0.0.0:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "198.18.0.1:80",
            "[::]:80",
            "[fe80::1]:80",
            "[fc00::1]:80",
            "[fd00:ec2::254]:80",
            "[ff02::1]:80",
            "[::ffff:10.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "[64:ff9b::a00:1]:80",
            "[2002:a00:1::]:80",
            "[2001::1]:80",
            "[::10.0.0.1]:80",
            "[fec0::1]:80",
            "[::ffff:127.0.0.1]:7070",
        ] {
            assert!(vet("127.0.0.1:7070", to).is_err(), "{to}");
        }
        for to in ["1.1.1.1:443", "[2606:4700::1111]:443", "172.32.0.1:80", "100.128.0.1:80"] {
            assert_eq!(vet("127.0.0.1:7070", to), Ok(()), "{to}");
        }
    }

    #[test]
    fn loopback_only_while_we_listen_there_and_never_our_own_port() {
        assert_eq!(vet("127.0.0.1:7070", "127.0.0.1:9000"), Ok(()));
        assert_eq!(vet("127.0.0.1:7070", "[::1]:9000"), Ok(()));
        assert!(vet("127.0.0.1:7070", "127.0.0.1:7070").is_err());
        assert!(vet("127.0.0.1:7070", "127.8.8.8:7070").is_err());
        assert!(vet("203.0.113.9:7070", "127.0.0.1:9000").is_err());
        assert!(vet("203.0.113.9:7070", "[::ffff:127.0.0.1]:9000").is_err());
    }
}

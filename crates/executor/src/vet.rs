//! Which addresses a webhook may go to. A name is resolved once, **every** address it has must pass,
//! and one of those that passed is dialled: a name that answers differently the second time
//! changes nothing.
//!
//! Refused is what is not a public unicast address, and every form in which an IPv4 address hides in
//! an IPv6 one. Exceptions: loopback while duly itself listens on loopback, and what `allow` names.
//! Nothing excepts our own port.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Debug)]
pub struct Guard {
    /// Where we listen ourselves. Loopback targets are allowed only while this is loopback too.
    own: SocketAddr,
    /// Networks that may be called although they are not public.
    allow: Vec<IpNet>,
}

impl Guard {
    pub fn new(own: SocketAddr, allow: Vec<IpNet>) -> Guard {
        Guard { own, allow }
    }

    pub fn vet(&self, to: SocketAddr) -> Result<(), &'static str> {
        let inner = hidden(to.ip());
        if to.port() == 0 {
            return Err("there is no port 0");
        }
        // Whatever loopback address or way of writing our own: it is our port.
        let here = inner.unwrap_or(to.ip());
        if to.port() == self.own.port() && (here.is_loopback() || here == self.own.ip()) {
            return Err("duly does not call itself");
        }
        self.vet_ip(to.ip())?;
        match inner {
            Some(inner) => self.vet_ip(inner),
            None => Ok(()),
        }
    }

    /// After the connection is made: is the peer who was vetted, and is it not ourselves? An address
    /// of this machine is reached from the same address, whatever interface it belongs to.
    pub fn vet_peer(
        &self,
        vetted: SocketAddr,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<(), &'static str> {
        if peer.ip() != vetted.ip() || peer.port() != vetted.port() {
            return Err("the connection leads somewhere else");
        }
        if peer.ip() == local.ip() && peer.port() == self.own.port() {
            return Err("duly does not call itself");
        }
        self.vet(peer)
    }

    fn vet_ip(&self, ip: IpAddr) -> Result<(), &'static str> {
        if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err("it names no single machine");
        }
        if self.allow.iter().any(|net| net.contains(&ip)) {
            return Ok(());
        }
        if ip.is_loopback() {
            return match self.own.ip().is_loopback() {
                true => Ok(()),
                false => Err("loopback targets are allowed only while duly listens on loopback"),
            };
        }
        let refused = match ip {
            IpAddr::V4(ip) => refused_v4(ip),
            IpAddr::V6(ip) => refused_v6(ip),
        };
        refused.map_or(Ok(()), Err)
    }
}

/// The IPv4 address inside an IPv6 one: mapped, compatible, translated (NAT64), 6to4. They are all
/// refused; if the network is allowed (`64:ff9b::/96` behind a NAT64), the inner one must pass too.
fn hidden(ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = ip else { return None };
    let s = v6.segments();
    let pair = |high: u16, low: u16| {
        Some(IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))))
    };
    let zeros = |n: usize| s[..n].iter().all(|one| *one == 0);
    let one_of_ours = v6.is_loopback() || v6.is_unspecified();
    let mapped = zeros(5) && s[5] == 0xffff;
    let translated = zeros(4) && s[4] == 0xffff && s[5] == 0;
    let compatible = zeros(6) && !one_of_ours;
    let nat64 = s[0] == 0x64 && s[1] == 0xff9b;
    match s[0] {
        0x2002 => pair(s[1], s[2]),
        // The server's address, then the client's, turned over.
        0x2001 if s[1] == 0 => pair(!s[6], !s[7]),
        _ if mapped || translated || compatible || nat64 => pair(s[6], s[7]),
        _ => None,
    }
}

fn refused_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = ip.octets();
    match (a, b, c, d) {
        (0, ..) => Some("it is an address of \"this network\""),
        (10, ..) | (192, 168, ..) | (172, 16..=31, ..) => Some("it is a private address"),
        // Public by its number, and in every virtual machine of Azure the host's own services.
        (168, 63, 129, 16) => Some("it is a metadata address"),
        // 100.100.100.200 of Alibaba is among these.
        (100, 64..=127, ..) => Some("it is a shared (carrier) address"),
        (169, 254, ..) => Some("it is a link-local address (metadata services live there)"),
        (192, 0, 0, _) => Some("it is a protocol address"),
        (192, 0, 2, _) | (198, 51, 100, _) | (203, 0, 113, _) => {
            Some("it is an address for documentation")
        }
        (198, 18..=19, ..) => Some("it is a benchmarking address"),
        (192, 88, 99, _) | (192, 31, 196, _) | (192, 52, 193, _) | (192, 175, 48, _) => {
            Some("it is a relay or anycast service address")
        }
        (224..=239, ..) => Some("it is a multicast address"),
        (240..=255, ..) => Some("it is a reserved or broadcast address"),
        _ => None,
    }
}

fn refused_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let s = ip.segments();
    match (s[0], s[1]) {
        (0, _) => Some("it hides an IPv4 address or is unspecified"),
        (0x64, 0xff9b) => Some("it is a translated IPv4 address (NAT64)"),
        (0x100, _) => Some("it is a discard address"),
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => Some("it is an address for documentation"),
        // Teredo, benchmarking, ORCHID, anycast services.
        (0x2001, 0..=0x01ff) => Some("it is a protocol or tunnel address"),
        (0x2002, _) => Some("it is a 6to4 address"),
        (0x2620, 0x4f) if s[2] == 0x8000 => Some("it is an anycast service address"),
        (0x5f00, _) => Some("it is a segment routing address"),
        (0xfc00..=0xfdff, _) => Some("it is a private address"),
        (0xfe80..=0xfebf, _) => Some("it is a link-local address"),
        (0xfec0..=0xfeff, _) => Some("it is a site-local address"),
        (0xff00..=0xffff, _) => Some("it is a multicast address"),
        // Public unicast is 2000::/3 and nothing else.
        (0x2000..=0x3fff, _) => None,
        _ => Some("it is outside the public addresses"),
    }
}

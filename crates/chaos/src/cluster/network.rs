//! A network namespace for each node: a machine of its own, as far as the network goes. A bridge on this
//! machine stands for the switch, and a pair of virtual interfaces for the cable of each node; the
//! database's proxies, the receiver and the clients are at the bridge's own address.
//!
//! A node is apart from everybody when its cable is pulled (the link goes down: nothing is refused and
//! nothing answered), and from one other node when each has a route into nowhere for the other.
//!
//! Everything has a name of this process, in a private range that exists only here, and is removed by a
//! shell that waits for our end, however we end.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The range is 10.231.N.0/24, with N of this process.
const RANGE: (u8, u8) = (10, 231);
/// The bridge has the first address, node n the one n after this.
const NODES_AFTER: u8 = 10;
/// Nodes that fit.
const NODES_MAX: u32 = 200;

#[derive(Debug)]
pub struct Network {
    tag: u32,
    net: u8,
    guard: Child,
    _ends_with_us: Option<ChildStdin>,
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output();
    let said = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => error.to_string(),
    };
    Err(format!(
        "namespaces: `ip {}`: {said}; they need root (CAP_SYS_ADMIN, CAP_NET_ADMIN) and the package iproute2",
        args.join(" ")
    ))
}

impl Network {
    pub fn make(nodes: u32) -> Result<Network, String> {
        if nodes > NODES_MAX {
            return Err(format!("--nodes {nodes}: with --namespaces at most {NODES_MAX}"));
        }
        // Of several that one process makes, too: cables of the one before end a moment after it.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let tag = std::process::id() % 10_000 * 10 + MADE.fetch_add(1, Ordering::Relaxed) % 10;
        let net = (tag % 250) as u8 + 1;
        // Its input closes when this process ends.
        let names: Vec<String> = (1..=nodes).map(|node| namespace(tag, node)).collect();
        let waits = "cat >/dev/null; for name in \"$@\"; do ip netns del \"$name\"; done; ip link del \"$0\"";
        let mut guard = Command::new("setsid")
            .args(["sh", "-c", waits])
            .arg(bridge(tag))
            .args(&names)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let input = guard.stdin.take();
        let network = Network { tag, net, guard, _ends_with_us: input };
        network.wire(nodes)?;
        Ok(network)
    }

    fn wire(&self, nodes: u32) -> Result<(), String> {
        let bridge = bridge(self.tag);
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["address", "add", &format!("{}/24", self.host()), "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        for node in 1..=nodes {
            let (name, cable) = (self.namespace(node), self.cable(node));
            let address = format!("{}/24", self.address(node));
            ip(&["netns", "add", &name])?;
            let pair =
                ["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &name];
            ip(&pair)?;
            ip(&["link", "set", &cable, "master", &bridge])?;
            ip(&["link", "set", &cable, "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "address", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    /// Where everybody is who is no node.
    pub fn host(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(RANGE.0, RANGE.1, self.net, 1))
    }

    pub fn address(&self, node: u32) -> IpAddr {
        let last = NODES_AFTER.saturating_add(u8::try_from(node).unwrap_or(u8::MAX));
        IpAddr::V4(Ipv4Addr::new(RANGE.0, RANGE.1, self.net, last))
    }

    pub fn range(&self) -> String {
        format!("{}.{}.{}.0/24", RANGE.0, RANGE.1, self.net)
    }

    pub fn namespace(&self, node: u32) -> String {
        namespace(self.tag, node)
    }

    fn cable(&self, node: u32) -> String {
        format!("dly{}n{node}", self.tag)
    }

    /// Its cable is pulled, or put back.
    pub fn plug(&self, node: u32, is_in: bool) -> Result<(), String> {
        ip(&["link", "set", &self.cable(node), if is_in { "up" } else { "down" }])
    }

    /// Two nodes do not reach each other, or do again; all others reach both.
    pub fn part(&self, one: u32, other: u32, are_apart: bool) -> Result<(), String> {
        let verb = if are_apart { "add" } else { "del" };
        for (from, to) in [(one, other), (other, one)] {
            let to = format!("{}/32", self.address(to));
            ip(&["-n", &self.namespace(from), "route", verb, "blackhole", &to])?;
        }
        Ok(())
    }
}

fn namespace(tag: u32, node: u32) -> String {
    format!("duly-chaos-{tag}-{node}")
}

fn bridge(tag: u32) -> String {
    format!("dly{tag}b")
}

impl Drop for Network {
    fn drop(&mut self) {
        self._ends_with_us = None;
        let _ = self.guard.wait();
    }
}

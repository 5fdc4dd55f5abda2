//! Whose connection is it? The kernel lists every socket with its number, and under each process the
//! numbers of its sockets: so a proxy knows which of the nodes on this machine is calling, though all
//! of them call from the same address.

use std::fs;
use std::net::{SocketAddr, TcpStream};

/// Does the other end of this accepted connection belong to the process?
pub(super) fn is_of(process: u32, near: &TcpStream) -> bool {
    let (Ok(peer), Ok(local)) = (near.peer_addr(), near.local_addr()) else { return false };
    let Some(socket) = socket_of(peer, local) else { return false };
    let wanted = format!("socket:[{socket}]");
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.filter_map(Result::ok)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| link.to_string_lossy() == wanted)
}

/// The number of the socket on this machine that goes from one address to the other.
fn socket_of(from: SocketAddr, to: SocketAddr) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let (from, to) = (hex(from)?, hex(to)?);
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let ends = (words.next()?, words.next()?);
        (ends == (from.as_str(), to.as_str())).then(|| words.nth(6)?.parse().ok())?
    })
}

/// As the kernel writes it: the address in the order of this machine's bytes, then the port.
fn hex(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    let bytes = u32::from_ne_bytes(address.ip().octets());
    Some(format!("{bytes:08X}:{:04X}", address.port()))
}

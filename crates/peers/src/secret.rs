//! The cluster's secret: whoever knows it is a node. It never travels: a request carries a code made
//! of the secret and of everything the request says (HMAC-SHA256), compared in constant time. So a
//! stranger who got the port of a node that died learns nothing that opens a door.
//!
//! What it does not do: hide what is said, or keep a listener on the wire from saying it again (the
//! core hears a repeated forward once). Nodes talk over a network of their own, or through a tunnel.

use hmac::{Hmac, KeyInit, Mac};
use model::NodeId;
use sha2::Sha256;

/// Shorter ones could be guessed.
pub const SECRET_BYTES_MIN: usize = 16;

#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What the code is made of.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    pub method: &'a str,
    /// With what stands behind the `?`.
    pub path: &'a str,
    pub from: NodeId,
    pub to: NodeId,
    /// Where the sender is reached.
    pub address: &'a str,
    pub body: &'a [u8],
}

impl Secret {
    /// None if it is too short to be one.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (bytes.len() >= SECRET_BYTES_MIN).then(|| Secret(bytes.to_vec()))
    }

    fn mac(&self, said: Said<'_>) -> Option<Hmac<Sha256>> {
        // Keys of every length are taken.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        let (from, to) = (node_text(said.from), node_text(said.to));
        for part in [said.method, said.path, &from, &to, said.address] {
            mac.update(part.as_bytes());
            mac.update(b"\n");
        }
        mac.update(said.body);
        Some(mac)
    }

    pub fn code(&self, said: Said<'_>) -> String {
        let bytes = self.mac(said).map(|mac| mac.finalize().into_bytes());
        bytes.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn proves(&self, said: Said<'_>, code: &str) -> bool {
        let Some(code) = unhex(code) else { return false };
        self.mac(said).is_some_and(|mac| mac.verify_slice(&code).is_ok())
    }

    /// A key for something else, which does not tell the secret.
    pub fn derive(&self, what: &str) -> Option<[u8; 32]> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(b"duly derive\n");
        mac.update(what.as_bytes());
        Some(mac.finalize().into_bytes().into())
    }
}

/// A node's id as text: its number and its life.
pub fn node_text(node: NodeId) -> String {
    format!("{}-{:x}", node.node, node.boot)
}

pub fn node_of(text: &str) -> Option<NodeId> {
    let (node, boot) = text.split_once('-')?;
    Some(NodeId { node: node.parse().ok()?, boot: u64::from_str_radix(boot, 16).ok()? })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_proves_what_was_said_and_nothing_near_it() {
        let secret = Secret::new(b"0123456789abcdef").expect("long enough");
        let other = Secret::new(b"0123456789abcdeg").expect("long enough");
        let (a, b) = (NodeId { node: 1, boot: 7 }, NodeId { node: 2, boot: 8 });
        let address = "a:1";
        let said = Said { method: "POST", path: "/x?y", from: a, to: b, address, body: b"body" };
        let code = secret.code(said);
        assert!(secret.proves(said, &code));
        assert!(!other.proves(said, &code));
        for near in [
            Said { method: "GET", ..said },
            Said { path: "/x?z", ..said },
            Said { from: b, ..said },
            Said { to: a, ..said },
            Said { address: "a:2", ..said },
            Said { body: b"bodx", ..said },
        ] {
            assert!(!secret.proves(near, &code), "{near:?}");
        }
        for code in ["", "00", &code[..62], &format!("{code}00"), &code.replace('a', "x")] {
            let same = secret.code(said);
            assert!(code == same || !secret.proves(said, code), "{code}");
        }
        assert!(Secret::new(b"short").is_none());
    }

    #[test]
    fn nodes_are_read_as_they_are_written() {
        let node = NodeId { node: 12, boot: u64::MAX };
        assert_eq!(node_of(&node_text(node)), Some(node));
        assert_eq!(node_of("12"), None);
    }
}

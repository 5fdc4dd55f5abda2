//! `traceparent` (W3C Trace Context). A run is one trace, whatever becomes of the process: its id is
//! a hash of the run's id. Each attempt is a span of its own.

use sha2::{Digest, Sha256};

/// Sampled: it is for the receiver's collector to drop what it does not want.
const FLAGS: &str = "01";
/// Bytes of a trace's and of a span's id.
const TRACE: usize = 16;
const SPAN: usize = 8;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub fn parent(run: &str, token: u64) -> String {
    let mut text = String::with_capacity("00-".len() + 2 * TRACE + 1 + 2 * SPAN + 1 + FLAGS.len());
    text.push_str("00-");
    write_hash::<TRACE>(&mut text, &["trace", run]);
    text.push('-');
    write_hash::<SPAN>(&mut text, &["span", run, &token.to_string()]);
    text.push('-');
    text.push_str(FLAGS);
    text
}

/// The request id of a run whose submission had none.
pub fn request_id(run: &str) -> String {
    let mut text = String::from("req_");
    write_hash::<SPAN>(&mut text, &["request", run]);
    text
}

/// The first bytes of the hash, two digits each.
fn write_hash<const BYTES: usize>(text: &mut String, parts: &[&str]) {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    for byte in hash.finalize().iter().take(BYTES) {
        let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_trace_and_an_attempt_one_span() {
        let (first, second) = (parent("run_a", 1), parent("run_a", 2));
        let part = |text: &str, at: usize| text.split('-').nth(at).map(str::to_string);
        assert_eq!(part(&first, 1), part(&second, 1));
        assert_ne!(part(&first, 2), part(&second, 2));
        assert_ne!(part(&first, 1), part(&parent("run_b", 1), 1));
        assert_eq!(first, parent("run_a", 1));
        let shape: Vec<usize> = first.split('-').map(str::len).collect();
        assert_eq!(shape, [2, 32, 16, 2]);
        assert!(first.bytes().all(|b| b == b'-' || b.is_ascii_digit() || b.is_ascii_lowercase()));
    }

    /// The traces of runs that are under way go on in the next release.
    #[test]
    fn ids_stay_what_they_are() {
        assert_eq!(parent("run_a", 7), "00-6805f81b43183dd1ee929a6a476118b0-00762291b47c2426-01");
        assert_eq!(request_id("run_a"), "req_56fa9d2342be74ce");
    }
}

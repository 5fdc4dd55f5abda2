//! `traceparent` (W3C Trace Context). A run is one trace, whatever becomes of the process: its id is
//! a hash of the run's id. Each attempt is a span of its own.

use sha2::{Digest, Sha256};

/// Sampled: it is for the receiver's collector to drop what it does not want.
const FLAGS: &str = "01";
const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub fn parent(run: &str, token: u64) -> String {
    let trace = hash(&["trace", run]);
    let span = hash(&["span", run, &token.to_string()]);
    format!("00-{}-{}-{FLAGS}", &trace[..32], &span[..16])
}

/// The request id of a run whose submission had none.
pub fn request_id(run: &str) -> String {
    format!("req_{}", &hash(&["request", run])[..16])
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    let mut text = String::with_capacity(2 * digest.len());
    for byte in digest {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
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
}

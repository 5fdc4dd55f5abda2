//! Signatures: Standard Webhooks (`webhook-signature`) and the short form
//! (`X-Scheduler-Signature`). Made by the executor, checked by `duly listen`.

use crate::limits::SIGNATURE_AGE_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// The key that signs a namespace's webhooks. Never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }

    /// `whsec_` and base64.
    pub fn parse(text: &str) -> Option<Secret> {
        let bytes = STANDARD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        (!bytes.is_empty()).then_some(Secret(bytes))
    }

    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// For whoever keeps it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        // An HMAC takes a key of any length; the option is for a library that might not.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// One entry of `webhook-signature`.
    fn standard(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let head = format!("{id}.{seconds}.");
        let mac = self.mac(&[head.as_bytes(), body])?;
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }

    /// One `v1=` of `X-Scheduler-Signature`.
    fn short(&self, seconds: i64, body: &[u8]) -> Option<String> {
        let head = format!("{seconds}.");
        let mac = self.mac(&[head.as_bytes(), body])?;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = mac.finalize().into_bytes();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex = digits.map(|digit| char::from(DIGITS[usize::from(digit)]));
        Some("v1=".chars().chain(hex).collect())
    }

    /// Is one of the signatures in `header` ours, and is it fresh? Compared in constant time.
    pub fn verify(
        &self,
        id: &str,
        timestamp: &str,
        header: &str,
        body: &[u8],
        now: i64,
    ) -> Result<(), &'static str> {
        let seconds: i64 = timestamp.parse().map_err(|_| "webhook-timestamp is not a number")?;
        if now.abs_diff(seconds) > SIGNATURE_AGE_MAX.unsigned_abs() {
            return Err("webhook-timestamp is not of these minutes");
        }
        let head = format!("{id}.{seconds}.");
        for one in header.split(' ') {
            let Some(given) = one.strip_prefix("v1,").and_then(|s| STANDARD.decode(s).ok()) else {
                continue;
            };
            let mac = self.mac(&[head.as_bytes(), body]).ok_or("no key")?;
            if mac.verify_slice(&given).is_ok() {
                return Ok(());
            }
        }
        Err("no signature in webhook-signature fits")
    }
}

/// The value of `webhook-signature`: every valid secret signs, so that a receiver may know the old
/// one or the new one.
pub fn standard(secrets: &[Secret], id: &str, seconds: i64, body: &[u8]) -> Option<String> {
    let all: Option<Vec<String>> =
        secrets.iter().map(|one| one.standard(id, seconds, body)).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.join(" "))
}

/// The value of `X-Scheduler-Signature`, in the same way.
pub fn short(secrets: &[Secret], seconds: i64, body: &[u8]) -> Option<String> {
    let all: Option<Vec<String>> = secrets.iter().map(|one| one.short(seconds, body)).collect();
    all.filter(|all| !all.is_empty()).map(|all| format!("t={seconds},{}", all.join(",")))
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_published_example_comes_out_the_same() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let body = br#"{"test": 2432232314}"#;
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = secret.standard(id, 1_614_265_330, body).expect("signed");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let check = |body: &[u8], now| {
            secret.verify(id, "1614265330", &format!("v1,AAAA {signature}"), body, now)
        };
        assert_eq!(check(body, 1_614_265_400), Ok(()));
        assert!(check(body, 1_614_266_400).is_err());
        assert!(check(b"other", 1_614_265_400).is_err());
        // While two are valid, both sign, and either is enough.
        let new = Secret::new(vec![7; 32]);
        let both = standard(&[new.clone(), secret.clone()], id, 1_614_265_330, body).expect("two");
        assert_eq!(both.split(' ').count(), 2);
        for one in [&new, &secret] {
            assert_eq!(one.verify(id, "1614265330", &both, body, 1_614_265_330), Ok(()));
        }
        let other = Secret::new(vec![8; 32]);
        assert!(other.verify(id, "1614265330", &both, body, 1_614_265_330).is_err());
        let short = short(&[new, secret], 5, body).expect("two");
        assert_eq!((short.matches("v1=").count(), &short[..4]), (2, "t=5,"));
        assert_eq!(standard(&[], id, 5, body), None);
    }
}

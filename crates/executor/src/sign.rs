//! Signatures: Standard Webhooks (`webhook-signature`) and the short form
//! (`X-Scheduler-Signature`). Made by the executor, checked by `duly listen`.

use crate::limits::SIGNATURE_AGE_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::sync::Arc;

const PREFIX: &str = "whsec_";

/// The key that signs a namespace's webhooks, cheap to hand on. Never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes.into())
    }

    /// `whsec_` and base64.
    pub fn parse(text: &str) -> Option<Secret> {
        let bytes = STANDARD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        (!bytes.is_empty()).then(|| Secret::new(bytes))
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

    /// One entry of `webhook-signature`. `head` is id and timestamp, each with its dot.
    fn standard(&self, text: &mut String, head: &str, body: &[u8]) -> Option<()> {
        let mac = self.mac(&[head.as_bytes(), body])?;
        text.push_str("v1,");
        STANDARD.encode_string(mac.finalize().into_bytes(), text);
        Some(())
    }

    /// One `v1=` of `X-Scheduler-Signature`.
    fn short(&self, text: &mut String, head: &str, body: &[u8]) -> Option<()> {
        let mac = self.mac(&[head.as_bytes(), body])?;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = mac.finalize().into_bytes();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        text.push_str("v1=");
        text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
        Some(())
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
/// one or the new one. None: nobody signs.
pub fn write_standard(
    text: &mut String,
    secrets: &[Secret],
    (id, seconds): (&str, i64),
    body: &[u8],
) -> Option<()> {
    let head = format!("{id}.{seconds}.");
    for (number, one) in secrets.iter().enumerate() {
        if number > 0 {
            text.push(' ');
        }
        one.standard(text, &head, body)?;
    }
    (!secrets.is_empty()).then_some(())
}

/// The value of `X-Scheduler-Signature`, in the same way.
pub fn write_short(text: &mut String, secrets: &[Secret], seconds: i64, body: &[u8]) -> Option<()> {
    let head = format!("{seconds}.");
    text.push_str("t=");
    text.push_str(head.trim_end_matches('.'));
    for one in secrets {
        text.push(',');
        one.short(text, &head, body)?;
    }
    (!secrets.is_empty()).then_some(())
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
        let standard = |secrets: &[Secret]| {
            let mut text = String::new();
            write_standard(&mut text, secrets, (id, 1_614_265_330), body);
            text
        };
        let signature = standard(std::slice::from_ref(&secret));
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let check = |body: &[u8], now| {
            secret.verify(id, "1614265330", &format!("v1,AAAA {signature}"), body, now)
        };
        assert_eq!(check(body, 1_614_265_400), Ok(()));
        assert!(check(body, 1_614_266_400).is_err());
        assert!(check(b"other", 1_614_265_400).is_err());
        // While two are valid, both sign, and either is enough.
        let new = Secret::new(vec![7; 32]);
        let both = standard(&[new.clone(), secret.clone()]);
        assert_eq!(both.split(' ').count(), 2);
        for one in [&new, &secret] {
            assert_eq!(one.verify(id, "1614265330", &both, body, 1_614_265_330), Ok(()));
        }
        let other = Secret::new(vec![8; 32]);
        assert!(other.verify(id, "1614265330", &both, body, 1_614_265_330).is_err());
        let mut short = String::new();
        write_short(&mut short, &[new, secret], 5, body);
        assert_eq!((short.matches(",v1=").count(), &short[..7]), (2, "t=5,v1="));
        assert_eq!(write_standard(&mut short, &[], (id, 5), body), None, "nobody signs");
    }
}

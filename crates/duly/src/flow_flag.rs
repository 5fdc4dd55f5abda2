//! Values of flags about quotas and limits: `NAME,what=value,…`.

use crate::flag;
use executor::limits::LIMIT_IN_FLIGHT_MAX;
use executor::place::Place;
use executor::shares::Limit;
use http_api::limits::{KEY_BYTES_MAX, KEY_RATE_MAX, QUOTA_COUNT_MAX};
use http_api::quota::{EVERYBODY, Quota};
use node::bucket::Rate;
use wire::host::{self, Host};

/// The largest number of anything in a second.
const PER_S_MAX: f64 = 1e12;

/// `50/s`, `100/m`, `7/h`, with the number read by `read`.
fn rate(text: &str, read: fn(&str) -> Option<f64>) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a rate; write one like 50/s, 100/m or 7/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    let count = read(count).filter(|count| *count > 0.0 && *count <= PER_S_MAX);
    Ok(count.ok_or_else(wrong)? / seconds)
}

fn whole(text: &str) -> Option<f64> {
    text.parse::<u32>().ok().map(f64::from)
}

fn bytes(text: &str) -> Option<f64> {
    let bytes = flag::bytes(text).ok().or_else(|| text.parse().ok())?;
    Some(bytes as f64)
}

/// What stands behind the name: each only once, in any order.
fn pairs(text: &str, known: &[&str]) -> Result<(String, Vec<(String, String)>), String> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default().to_string();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in parts {
        let (what, value) = part.split_once('=').unwrap_or((part, ""));
        if !known.contains(&what) {
            return Err(format!("{what:?} is not known here; known are {}", known.join(", ")));
        }
        if pairs.iter().any(|(other, _)| other == what) {
            return Err(format!("{what} is given twice"));
        }
        pairs.push((what.to_string(), value.to_string()));
    }
    if pairs.is_empty() {
        return Err(format!("nothing is said about {name:?}; known are {}", known.join(", ")));
    }
    Ok((name, pairs))
}

fn burst(text: &str) -> Result<f64, String> {
    let number = whole(text).filter(|number| *number >= 1.0);
    number.ok_or_else(|| format!("burst: {text:?} is not a whole number from 1 on"))
}

fn in_flight(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=LIMIT_IN_FLIGHT_MAX).contains(number));
    let wrong = || format!("in_flight: a whole number from 1 to {LIMIT_IN_FLIGHT_MAX} is expected");
    number.ok_or_else(wrong)
}

pub fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=QUOTA_COUNT_MAX).contains(number));
    number.ok_or_else(|| format!("a whole number from 1 to {QUOTA_COUNT_MAX} is expected"))
}

/// `600/m`: so many fires in a time, and as many as it allows in a minute at once.
fn fires(text: &str) -> Result<model::Rate, String> {
    let wrong = || format!("{text:?} is not a rate of fires; write one like 600/m, 10/s or 100/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let (seconds, minutes) = match unit {
        "s" => (1, 1),
        "m" => (60, 1),
        "h" => (3_600, 60),
        _ => return Err(wrong()),
    };
    let starts = count.parse().ok().filter(|count| (1..=QUOTA_COUNT_MAX).contains(count));
    let starts: u32 = starts.ok_or_else(wrong)?;
    let per = model::Span::from_secs(seconds);
    Ok(model::Rate { starts, per, burst: (starts / minutes).max(1) })
}

pub fn quota(text: &str) -> Result<(String, Quota), String> {
    let known = ["submissions", "burst", "bytes", "waiting", "jobs", "fires", "in_flight"];
    let (name, pairs) = pairs(text, &known)?;
    if name != EVERYBODY && !node::namespaces::is_name(&name) {
        return Err(format!(
            "{name:?} is not a namespace; * stands for all that have no own quota"
        ));
    }
    let mut quota = Quota::default();
    let mut at_once = None;
    for (what, value) in pairs {
        let told = |why: String| format!("{what}: {why}");
        match what.as_str() {
            "submissions" => {
                let per_s = rate(&value, whole).map_err(told)?;
                quota.submissions = Some(Rate { per_s, burst: per_s.max(1.0) });
            }
            "bytes" => {
                let per_s = rate(&value, bytes).map_err(told)?;
                quota.bytes = Some(Rate { per_s, burst: per_s.max(1.0) });
            }
            "in_flight" => quota.in_flight = Some(in_flight(&value)?),
            "waiting" => quota.waiting = Some(count(&value).map_err(told)?),
            "fires" => quota.fires = Some(fires(&value).map_err(told)?),
            "jobs" => quota.jobs = Some(count(&value).map_err(told)?),
            _ => at_once = Some(burst(&value)?),
        }
    }
    match (&mut quota.submissions, at_once) {
        (Some(rate), Some(burst)) => rate.burst = burst,
        (None, Some(_)) => return Err("burst belongs to submissions, which are missing".into()),
        _ => {}
    }
    Ok((name, quota))
}

pub fn destination(text: &str) -> Result<(String, Limit), String> {
    let (name, pairs) = pairs(text, &["in_flight", "rate", "burst"])?;
    let host = host(&name)?;
    let mut limit = Limit::default();
    let mut at_once = None;
    for (what, value) in pairs {
        match what.as_str() {
            "in_flight" => limit.in_flight = Some(in_flight(&value)?),
            "rate" => {
                let per_s = rate(&value, whole).map_err(|why| format!("rate: {why}"))?;
                limit.rate = Some(Rate { per_s, burst: per_s.max(1.0) });
            }
            _ => at_once = Some(burst(&value)?),
        }
    }
    match (&mut limit.rate, at_once) {
        (Some(rate), Some(burst)) => rate.burst = burst,
        (None, Some(_)) => return Err("burst belongs to rate, which is missing".into()),
        _ => {}
    }
    Ok((host, limit))
}

/// A host, or a host and port, as destinations are named.
fn host(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("{text:?} is not a host, nor a host and port: {why}");
    if let Ok(host) = host::parse(text) {
        return Ok(match host {
            Host::Name(name) => name,
            Host::Address(address) => address.to_string(),
        });
    }
    let (name, port) = text.rsplit_once(':').ok_or_else(|| wrong("write api.example:443"))?;
    let host = host::parse(name).map_err(wrong)?;
    let port = port.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| wrong("its port is not one of 1 to 65535"))?;
    Ok(Place { tls: false, host, port }.to_string())
}

/// Whole submissions in a second, for a key.
pub fn key_rate(text: &str) -> Result<u32, String> {
    whole_part(rate(text, whole)?, KEY_RATE_MAX, ("in a second", "s"))
}

/// Whole bytes in a second, for a key.
pub fn key_bytes(text: &str) -> Result<u32, String> {
    whole_part(rate(text, bytes)?, KEY_BYTES_MAX, ("in a second", "s"))
}

/// Whole fires in a minute, for a key.
pub fn key_fires(text: &str) -> Result<u32, String> {
    let per_min = rate(text, whole)? * 60.0;
    // 100/m is not quite a hundred times a sixtieth.
    let near = per_min.round();
    let per_min = if (per_min - near).abs() < 1e-6 { near } else { per_min };
    whole_part(per_min, QUOTA_COUNT_MAX.into(), ("in a minute", "m"))
}

fn whole_part(number: f64, most: u64, (time, unit): (&str, &str)) -> Result<u32, String> {
    match number.fract() == 0.0 && (1.0..=most as f64).contains(&number) {
        true => Ok(number as u32),
        false => Err(format!("a whole number {time} is expected, from 1/{unit} to {most}/{unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_and_what_is_wrong_is_named() {
        let (name, read) = quota("team-a,submissions=120/m,burst=9,bytes=1MB/s").expect("good");
        assert_eq!(name, "team-a");
        assert_eq!(read.submissions, Some(Rate { per_s: 2.0, burst: 9.0 }));
        assert_eq!(read.bytes, Some(Rate { per_s: 1e6, burst: 1e6 }));
        assert_eq!(
            quota("*,submissions=1/h").expect("good").1.submissions.map(|r| r.burst),
            Some(1.0)
        );
        for (bad, words) in [
            ("team-a", "nothing is said"),
            ("Team,submissions=1/s", "not a namespace"),
            ("a,submission=1/s", "known are submissions"),
            ("a,submissions=1/s,submissions=2/s", "given twice"),
            ("a,submissions=1", "50/s"),
            ("a,submissions=0/s", "50/s"),
            ("a,submissions=1/d", "50/s"),
            ("a,burst=3", "burst belongs to"),
            ("a,submissions=1/s,burst=0", "from 1 on"),
            ("a,bytes=x/s", "bytes: "),
            ("a,waiting=0", "waiting: a whole number from 1"),
            ("a,fires=10", "fires: "),
            ("a,fires=10/d", "600/m"),
            ("a,jobs=many", "jobs: a whole number from 1"),
        ] {
            let said = quota(bad).expect_err(bad);
            assert!(said.contains(words), "{bad}: {said}");
        }
    }

    #[test]
    fn hosts_are_named_as_destinations_are() {
        for (text, name) in [
            ("API.example", "api.example"),
            ("API.example:8443", "api.example:8443"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[2606:4700::1]", "2606:4700::1"),
            ("[2606:4700::1]:80", "[2606:4700::1]:80"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(name));
        }
        for bad in ["", "a/b", "http://a", "a:0", "a:65536", "2606:4700::1", "a b"] {
            assert!(host(bad).is_err(), "{bad}");
        }
        let (_, read) = destination("a.example,rate=120/m,burst=7,in_flight=8").expect("good");
        let rate = Some(Rate { per_s: 2.0, burst: 7.0 });
        assert_eq!(read, Limit { in_flight: Some(8), rate });
    }

    #[test]
    fn a_key_has_whole_submissions_in_a_second() {
        assert_eq!((key_rate("50/s"), key_rate("120/m")), (Ok(50), Ok(2)));
        for bad in ["50", "1/m", "0/s", "2000000/s", "-1/s", "1.5/s"] {
            assert!(key_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_has_whole_fires_in_a_minute_and_bytes_in_a_second() {
        assert_eq!(
            (key_fires("100/m"), key_fires("2/s"), key_fires("120/h")),
            (Ok(100), Ok(120), Ok(2))
        );
        assert_eq!(
            (key_bytes("1MB/s"), key_bytes("4000000000/s")),
            (Ok(1_000_000), Ok(4_000_000_000))
        );
        for bad in ["90/h", "0/m", "5", "10000001/m"] {
            assert!(key_fires(bad).is_err_and(|why| why.contains("/m")), "{bad}");
        }
        assert!(key_bytes("5GB/s").is_err_and(|why| why.contains("4000000000/s")));
    }
}

//! Round trips, old and new versions, and bytes that are no spec.

use super::*;
use crate::conformance::sample;

fn round_trip(spec: &Spec) {
    let body = encode(spec).expect("every variant of today has a place");
    assert_eq!(decode(&body, spec.payload.clone()).as_ref(), Some(spec));
}

#[test]
fn every_field_round_trips() {
    let full = sample::spec(b"payload");
    round_trip(&full);
    let mut bare = Spec::clone(&full);
    (bare.name, bare.owner, bare.group, bare.tags) = (None, None, None, Vec::new());
    bare.schedule = ScheduleSpec::new(When::Now);
    bare.target = Target::Worker { kind: "mail".into() };
    round_trip(&bare);
    let texts = |all: &[&str]| all.iter().map(|one| Text::from(*one)).collect::<Vec<_>>();
    let pair = |name: &str, value: &str| (Text::from(name), Text::from(value));
    for target in [
        Target::Command { argv: texts(&["/bin/true"]), env: Vec::new() },
        Target::Command {
            argv: texts(&["/bin/x", "", "a b"]),
            env: vec![pair("A", ""), pair("B", "=")],
        },
        Target::Publish(Broker::Redis {
            url: "redis://h".into(),
            stream: "s".into(),
            max_len: None,
        }),
        Target::Publish(Broker::Redis {
            url: "".into(),
            stream: "".into(),
            max_len: Some(u64::MAX),
        }),
        Target::Publish(Broker::RabbitMq {
            url: "amqp://u:p@h/v".into(),
            exchange: "".into(),
            routing_key: "k".into(),
        }),
    ] {
        bare.target = target;
        round_trip(&bare);
        // Code of the first version must not read it as something that it knows.
        assert_eq!(encode(&bare).expect("known")[0], VERSION_TARGETS);
    }
    bare.target = Target::Worker { kind: "mail".into() };
    assert_eq!(encode(&bare).expect("known")[0], VERSION, "old files stay readable by old code");
    let mut odd = Spec::clone(&full);
    odd.name = Some("".into());
    odd.api_key = KeyId::parse("ffffffffffff");
    odd.queue = "x".repeat(300).into();
    odd.namespace = Namespace(u32::MAX);
    odd.policy.cap = Span::from_micros(i64::MIN);
    odd.schedule.max_runs = Some(u64::MAX);
    round_trip(&odd);
    let all = [
        When::At(Time::from_micros(i64::MAX)),
        When::Delay(Span::from_micros(-1)),
        When::Every(Span::from_secs(60)),
        When::Cron { expression: String::new(), dialect: Dialect::Cron },
    ];
    for when in all {
        odd.schedule.when = when;
        round_trip(&odd);
    }
    for overlap in OVERLAPS {
        odd.overlap = overlap;
        round_trip(&odd);
    }
    let key = |name: Option<&str>| Author::Key { id: "k".into(), name: name.map(Into::into) };
    for by in [Author::NotKnown, Author::NoKey, key(None), key(Some("ci"))] {
        odd.origin = Origin { since: None, by };
        round_trip(&odd);
    }
    for catch_up in [CatchUp::Once, CatchUp::Skip, CatchUp::ALL] {
        odd.catch_up = catch_up;
        round_trip(&odd);
    }
}

#[test]
fn unknown_fields_are_passed_over_and_unknown_versions_are_not() {
    let spec = sample::spec(b"");
    let mut body = encode(&spec).expect("known");
    body.extend_from_slice(&[200, 3, 1, 2, 3]);
    assert_eq!(decode(&body, spec.payload.clone()).as_ref(), Some(&*spec));
    body[0] = 9;
    assert_eq!(decode(&body, spec.payload.clone()), None);
}

/// Whatever is cut off or turned: an answer, never a panic.
#[test]
fn damaged_bytes_do_no_harm() {
    let spec = sample::spec(b"");
    let body = encode(&spec).expect("known");
    for at in 0..body.len() {
        let _ = decode(&body[..at], spec.payload.clone());
        for bit in 0..8 {
            let mut turned = body.clone();
            turned[at] ^= 1 << bit;
            let _ = decode(&turned, spec.payload.clone());
        }
    }
    assert_eq!(decode(&[], spec.payload.clone()), None);
    assert_eq!(decode(&[VERSION, NAME, 9, b'x'], spec.payload.clone()), None);
}

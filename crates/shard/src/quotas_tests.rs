//! Lines of namespaces and keys.

use super::*;

const OURS: Namespace = Namespace(1);

fn at(millis: i64) -> Time {
    Time::from_micros(millis * 1_000)
}

fn quotas(starts: u32, burst: u32) -> Quotas {
    let quotas = Quotas::default();
    let fires = Some(Rate { starts, per: Span::from_secs(60), burst });
    quotas.set(&[(OURS, Allowed { fires, crowded: false })], Allowed::default());
    quotas
}

#[test]
fn those_beyond_the_rate_stand_in_line_and_newcomers_behind_them() {
    let quotas = quotas(60, 2);
    let ask = |millis, late: Option<i64>| {
        let late = late.map(Span::from_millis);
        quotas.ask((OURS, None), at(millis), late).map_err(|(_, at)| at)
    };
    assert_eq!((ask(0, None), ask(0, None)), (Ok(()), Ok(())), "the burst");
    assert_eq!(ask(0, None), Err(at(1_000)));
    assert_eq!(ask(0, None), Err(at(2_000)));
    assert_eq!(ask(1_500, None), Err(at(3_000)), "there is one, and somebody waits for it");
    assert_eq!(ask(1_500, Some(1_500)), Ok(()));
    assert_eq!(ask(2_000, Some(2_000)), Ok(()));
    assert_eq!(ask(3_000, Some(1_500)), Ok(()));
    assert_eq!(ask(9_000, None), Ok(()), "nobody waits any more");
}

#[test]
fn nobody_is_promised_anything_far_away_and_others_are_not_held_up() {
    let quotas = quotas(1, 1);
    assert_eq!(quotas.ask((OURS, None), at(0), None), Ok(()));
    for _ in 0..5 {
        let (why, when) = quotas.ask((OURS, None), at(0), None).expect_err("too much");
        assert!(why == PutOff::Fires && when <= at(0).plus(PUT_OFF_MAX), "{when:?}");
    }
    assert_eq!(quotas.ask((Namespace(2), None), at(0), None), Ok(()));
    assert_eq!(quotas.take_asked(), [OURS, Namespace(2)].into());
    assert_eq!(quotas.take_asked(), [].into());
}

#[test]
fn while_too_many_wait_one_looks_less_and_less_often() {
    let quotas = Quotas::default();
    quotas.set(&[], Allowed { fires: None, crowded: true });
    let late = |secs| {
        let asked = quotas.ask((OURS, None), at(0), Some(Span::from_secs(secs)));
        asked.map_err(|(why, at)| (why, at.micros() / 1_000_000))
    };
    assert_eq!(late(0), Err((PutOff::Waiting, 1)));
    assert_eq!(late(40), Err((PutOff::Waiting, 10)));
    assert_eq!(late(86_400), Err((PutOff::Waiting, PUT_OFF_MAX.micros() / 1_000_000)));
    quotas.set(&[(OURS, Allowed::default())], Allowed::default());
    assert_eq!(late(40), Ok(()));
}
#[test]
fn a_key_has_a_line_of_its_own_and_a_refusal_spends_nothing_of_the_namespace() {
    let quotas = quotas(60, 3);
    let (ours, other) = (KeyId::from_bits(1), KeyId::from_bits(2));
    let fires = Some(Rate { starts: 60, per: Span::from_secs(60), burst: 1 });
    quotas.set_keys(&[(ours, Allowed { fires, crowded: false })]);
    let ask = |key| quotas.ask((OURS, Some(key)), at(0), None);
    assert_eq!(ask(ours), Ok(()));
    assert_eq!(ask(ours), Err((PutOff::KeyFires, at(1_000))));
    assert_eq!((ask(other), ask(other)), (Ok(()), Ok(())), "all three of the namespace");
    assert_eq!(ask(other), Err((PutOff::Fires, at(1_000))));
    assert_eq!(quotas.take_keys_asked(), [ours, other].into());
    quotas.set_keys(&[(ours, Allowed { fires, crowded: true })]);
    let late = Some(Span::from_secs(1));
    let told = quotas.ask((OURS, Some(ours)), at(1_000), late);
    assert!(matches!(told, Err((PutOff::KeyWaiting, _))), "{told:?}");
    quotas.set_keys(&[(ours, Allowed::default())]);
    assert_eq!(quotas.ask((OURS, Some(ours)), at(1_000), late), Ok(()));
}

#[test]
fn what_is_left_is_told_and_when_the_next_may_come() {
    let quotas = quotas(60, 2);
    let left = |millis| quotas.left(OURS, at(millis)).map(|one| (one.left, one.next));
    assert_eq!(left(0), Some((2, at(0))), "nobody has asked yet");
    assert_eq!(quotas.ask((OURS, None), at(0), None), Ok(()));
    assert_eq!(left(0), Some((1, at(0))));
    assert_eq!(quotas.ask((OURS, None), at(0), None), Ok(()));
    assert_eq!(left(0), Some((0, at(1_000))));
    assert_eq!(quotas.ask((OURS, None), at(0), None), Err((PutOff::Fires, at(1_000))));
    assert_eq!(quotas.ask((OURS, None), at(0), None), Err((PutOff::Fires, at(2_000))));
    assert_eq!(left(500), Some((0, at(3_000))), "behind those that wait");
    assert_eq!((left(3_000), quotas.left(Namespace(2), at(0))), (Some((2, at(3_000))), None));
    assert_eq!(quotas.key_left(KeyId::from_bits(1), at(0)), None);
}

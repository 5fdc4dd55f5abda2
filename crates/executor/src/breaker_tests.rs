//! What holds for a breaker whatever happens: random stories of attempts, signs and time.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn settings() -> Settings {
    Settings { attempts: 10, timeouts: 4, ..Settings::default() }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many milliseconds pass.
    Pass(i64),
    Ask,
    /// The attempt that began first ends.
    End(Option<Sign>),
    /// The one that began last ends.
    EndLast(Option<Sign>),
}

fn sign() -> impl Strategy<Value = Option<Sign>> {
    prop_oneof![
        3 => Just(Some(Sign::Bad)),
        2 => Just(Some(Sign::TimedOut)),
        2 => Just(Some(Sign::Good)),
        1 => Just(None),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..5_000_i64).prop_map(Step::Pass),
        1 => (0..400_000_i64).prop_map(Step::Pass),
        8 => Just(Step::Ask),
        6 => sign().prop_map(Step::End),
        2 => sign().prop_map(Step::EndLast),
    ]
}

proptest! {
    #[test]
    fn whatever_happens(steps in prop::collection::vec(step(), 1..400), random: u64) {
        let settings = settings();
        let mut breaker = Breaker::default();
        let mut now = Time::from_secs(1_000_000);
        let mut begun: VecDeque<Permit> = VecDeque::new();
        // Signs heard since it closed, and how many of them were bad.
        let (mut heard, mut bad) = (0, 0);
        for step in steps {
            let before = breaker.state();
            match step {
                Step::Pass(millis) => now = now.plus(Span::from_millis(millis)),
                Step::Ask => match breaker.ask(now) {
                    Pass::Go(permit) => {
                        if let State::Open { until, .. } = before {
                            prop_assert!(now >= until, "began {:?} before {:?}", now, until);
                        }
                        prop_assert_eq!(permit.probe, before != State::Closed);
                        prop_assert!(
                            !matches!(before, State::HalfOpen { probing: true, .. }),
                            "two probes at once"
                        );
                        begun.push_back(permit);
                    }
                    Pass::Wait(until) => {
                        prop_assert!(before != State::Closed, "kept back although closed");
                        prop_assert!(until > now, "come again at once: it would spin");
                        prop_assert!(until.since(now) <= settings.open_max);
                    }
                },
                Step::End(sign) | Step::EndLast(sign) => {
                    let last = matches!(step, Step::EndLast(_));
                    let permit = if last { begun.pop_back() } else { begun.pop_front() };
                    let Some(permit) = permit else { continue };
                    let counts = before == State::Closed && permit.period == breaker.period;
                    if let (true, Some(sign)) = (counts, sign) {
                        heard += 1;
                        bad += u32::from(sign != Sign::Good);
                    }
                    match breaker.ended(&settings, permit, sign, now, random) {
                        Some(Turn::Opened { until }) => {
                            prop_assert!(until > now && until.since(now) <= settings.open_max);
                            prop_assert!(sign.is_some());
                            if before == State::Closed {
                                prop_assert!(heard >= settings.attempts.min(settings.timeouts));
                                prop_assert!(bad >= 1);
                            }
                            (heard, bad) = (0, 0);
                        }
                        Some(Turn::Closed) => {
                            prop_assert!(permit.probe && sign == Some(Sign::Good));
                            (heard, bad) = (0, 0);
                        }
                        None => prop_assert!(
                            breaker.state() == before || sign.is_none(),
                            "a turn that nobody hears of"
                        ),
                    }
                }
            }
            let probes = begun.iter().filter(|one| one.probe && one.period == breaker.period);
            let probing = matches!(breaker.state(), State::HalfOpen { probing: true, .. });
            prop_assert_eq!(probes.count(), usize::from(probing));
        }
        // It never stays shut: once what is under way has ended and the longest time is over, one may go.
        for permit in begun {
            breaker.ended(&settings, permit, None, now, random);
        }
        let go = breaker.ask(now.plus(settings.open_max));
        prop_assert!(matches!(go, Pass::Go(_)), "{:?}", go);
    }

    #[test]
    fn a_destination_that_answers_is_never_kept_back(gaps in prop::collection::vec(0..2_000_i64, 1..500)) {
        let mut breaker = Breaker::default();
        let mut now = Time::from_secs(5);
        for gap in gaps {
            now = now.plus(Span::from_millis(gap));
            let Pass::Go(permit) = breaker.ask(now) else { panic!("kept back") };
            prop_assert_eq!(breaker.ended(&settings(), permit, Some(Sign::Good), now, 0), None);
        }
    }

    #[test]
    fn one_that_is_off_never_opens(signs in prop::collection::vec(sign(), 1..200)) {
        let off = Settings { enabled: false, ..settings() };
        let mut breaker = Breaker::default();
        let now = Time::from_secs(5);
        for sign in signs {
            let Pass::Go(permit) = breaker.ask(now) else { panic!("kept back") };
            prop_assert_eq!(breaker.ended(&off, permit, sign, now, 7), None);
        }
    }
}

fn go(breaker: &mut Breaker, now: Time) -> Permit {
    match breaker.ask(now) {
        Pass::Go(permit) => permit,
        Pass::Wait(until) => panic!("kept back until {until:?} at {now:?}"),
    }
}

/// Ends attempts with this sign until it opens; the answer is how many that took.
fn open(breaker: &mut Breaker, sign: Sign, now: Time) -> (u32, Time) {
    for n in 1..1_000 {
        let permit = go(breaker, now);
        if let Some(Turn::Opened { until }) = breaker.ended(&settings(), permit, Some(sign), now, 0)
        {
            return (n, until);
        }
    }
    panic!("it does not open");
}

#[test]
fn it_opens_by_share_and_by_timeouts_in_a_row() {
    let now = Time::from_secs(1_000);
    assert_eq!(open(&mut Breaker::default(), Sign::Bad, now).0, settings().attempts);
    assert_eq!(open(&mut Breaker::default(), Sign::TimedOut, now).0, settings().timeouts);
    // Half of them bad: at the moment that there are enough.
    let mut breaker = Breaker::default();
    for n in 0..settings().attempts {
        let permit = go(&mut breaker, now);
        let sign = if n % 2 == 0 { Sign::Good } else { Sign::Bad };
        let turn = breaker.ended(&settings(), permit, Some(sign), now, 0);
        assert_eq!(turn.is_some(), n + 1 == settings().attempts, "{n}");
    }
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    let mut breaker = Breaker::default();
    let mut now = Time::from_secs(1_000);
    for _ in 0..100 {
        let permit = go(&mut breaker, now);
        assert_eq!(breaker.ended(&settings(), permit, Some(Sign::Bad), now, 0), None);
        // Nine in a window of thirty seconds are too few to say anything.
        now = now.plus(Span::from_millis(3_500));
    }
}

#[test]
fn each_probe_that_fails_doubles_the_time_up_to_the_most() {
    let mut breaker = Breaker::default();
    let mut now = Time::from_secs(1_000);
    let (_, mut until) = open(&mut breaker, Sign::Bad, now);
    for wanted in [10, 20, 40, 80, 160, 300, 300, 300] {
        assert_eq!(until.since(now), Span::from_secs(wanted));
        assert!(matches!(breaker.ask(until.minus(Span::from_micros(1))), Pass::Wait(_)));
        now = until;
        let probe = go(&mut breaker, now);
        assert!(matches!(breaker.ask(now), Pass::Wait(_)), "only one at a time");
        let turn = breaker.ended(&settings(), probe, Some(Sign::Bad), now, 0);
        let Some(Turn::Opened { until: next }) = turn else { panic!("{turn:?}") };
        until = next;
    }
    // Closed for a while, and it begins anew; closed for a moment, and it does not.
    for (pause, wanted) in [(Span::from_secs(301), 10), (Span::from_secs(1), 20)] {
        let probe = go(&mut breaker, until);
        let turn = breaker.ended(&settings(), probe, Some(Sign::Good), until, 0);
        assert_eq!(turn, Some(Turn::Closed));
        now = until.plus(pause);
        (_, until) = open(&mut breaker, Sign::Bad, now);
        assert_eq!(until.since(now), Span::from_secs(wanted));
    }
}

#[test]
fn jitter_only_shortens() {
    let mut seen = std::collections::BTreeSet::new();
    for random in 0..1_000_u64 {
        let mut breaker = Breaker::default();
        let now = Time::from_secs(1_000);
        let random = model::hash::hash(random, b"jitter");
        let until = loop {
            let permit = go(&mut breaker, now);
            let turn = breaker.ended(&settings(), permit, Some(Sign::Bad), now, random);
            if let Some(Turn::Opened { until }) = turn {
                break until;
            }
        };
        let length = until.since(now).micros();
        assert!((8_000_000..=10_000_000).contains(&length), "{length}");
        seen.insert(length);
    }
    assert!(seen.len() > 900, "only {} different lengths", seen.len());
}

//! Slots: limits of hosts, turns of namespaces, and what waits.

use super::*;
use crate::limits::{CLAIM_BATCH, HOST_IN_FLIGHT_MAX};
use crate::shares::{Limit, Limits, Tenants};
use model::NodeId;
use node::bucket::Rate;
use std::collections::VecDeque;
use wire::host::Host;

const A: Namespace = Namespace(1);
const B: Namespace = Namespace(2);

fn place(n: usize) -> Place {
    Place { tls: false, host: Host::Name(format!("h{n}.example")), port: 80 }
}

fn fill(slots: &Slots, place: &Place) -> Vec<Slot> {
    let mut held = Vec::new();
    while let Entry::Taken(slot) = slots.enter(A, place) {
        held.push(slot);
    }
    held
}

fn wait(slots: &Slots, namespace: Namespace, place: &Place) -> oneshot::Receiver<Slot> {
    match slots.enter(namespace, place) {
        Entry::Waiting(given) => given,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_has_its_limit_and_others_go_on() {
    let slots = Slots::default();
    let held = fill(&slots, &place(1));
    assert_eq!(held.len(), HOST_IN_FLIGHT_MAX);
    assert_eq!(fill(&slots, &place(2)).len(), HOST_IN_FLIGHT_MAX);
    drop(held);
    assert_eq!(slots.state().busy, 0);
}

/// A host whose line is full, and whose attempts take so long.
fn crowd(took: Span) -> (Slots, Vec<Slot>, Vec<oneshot::Receiver<Slot>>) {
    let slots = Slots::default();
    let held = fill(&slots, &place(1));
    let line = (0..HOST_WAITING_MAX).map(|_| wait(&slots, A, &place(1))).collect();
    assert_eq!(slots.until_room(A), None, "nothing is known of it, so nobody waits for it");
    (0..100).for_each(|_| slots.ended(&place(1), took));
    (slots, held, line)
}

#[test]
fn a_claim_waits_for_the_line_of_a_quick_host_and_of_no_other() {
    let (slots, mut held, mut line) = crowd(Span::from_millis(4));
    let wait = slots.until_room(A).expect("it is soon");
    // As many as one claim brings are too many, which is two rounds of the host.
    assert!(wait >= Duration::from_millis(8) && wait <= Duration::from_millis(9), "{wait:?}");
    assert_eq!(slots.until_room(B), None, "the line of another namespace");
    // As many have gone as one claim brings.
    for _ in 0..CLAIM_BATCH {
        held.remove(0);
        held.push(line.remove(0).try_recv().expect("the next in line"));
    }
    assert_eq!(slots.until_room(A), None);
    let (slots, _held, _line) = crowd(Span::from_millis(40));
    assert_eq!(slots.until_room(A), None, "a slow host is not waited for");
}

#[tokio::test]
async fn a_host_that_hangs_is_waited_for_once() {
    let (slots, mut held, _line) = crowd(Span::from_millis(4));
    assert!(slots.until_room(A).is_some());
    slots.room(A).await;
    assert_eq!(slots.until_room(A), None, "it was quick, and is no longer");
    // Who has left the line does not count.
    drop(_line);
    slots.room(A).await;
    // It works again.
    (0..100).for_each(|_| slots.ended(&place(1), Span::from_millis(4)));
    held.clear();
    held = fill(&slots, &place(1));
    let _line: Vec<_> = (0..HOST_WAITING_MAX).map(|_| wait(&slots, A, &place(1))).collect();
    assert!(slots.until_room(A).is_some());
    drop(held);
}

#[test]
fn it_takes_184_stuck_hosts_until_nothing_is_free() {
    let slots = Slots::default();
    let held: Vec<_> = (0..184).map(|n| fill(&slots, &place(n))).collect();
    assert!(held.iter().all(|one| !one.is_empty()), "every host got something");
    let all: usize = held.iter().map(Vec::len).sum();
    assert_eq!(all, IN_FLIGHT_MAX);
    assert!(matches!(slots.enter(A, &place(1_000)), Entry::Waiting(_)));
}

#[test]
fn who_waits_gets_the_next_slot_in_turn_and_who_left_is_passed_over() {
    let slots = Slots::default();
    let mut held = fill(&slots, &place(1));
    let wait = || wait(&slots, A, &place(1));
    let (left, mut first, mut second) = (wait(), wait(), wait());
    drop(left);
    assert!(first.try_recv().is_err());
    held.pop();
    let slot = first.try_recv().expect("the first one still there");
    assert!(second.try_recv().is_err());
    drop(slot);
    let second = second.try_recv().expect("then the second");
    // A waiter that leaves after it was given a slot gives it on.
    let (third, mut fourth) = (wait(), wait());
    held.pop();
    drop(third);
    let fourth = fourth.try_recv().expect("given on");
    drop((held, fourth, second));
    let state = slots.state();
    assert_eq!((state.busy, state.waiting), (0, 0));
    assert!(state.lines.is_empty() && state.turns.is_empty());
}

#[test]
fn the_line_is_bounded_and_what_is_put_back_is_spread() {
    let slots = Slots::default();
    let _held = fill(&slots, &place(1));
    // `fill` left one waiter behind, which has gone.
    let waiting: Vec<_> = (0..HOST_WAITING_MAX).map(|_| slots.enter(A, &place(1))).collect();
    assert!(waiting.iter().all(|one| matches!(one, Entry::Waiting(_))));
    assert!(matches!(slots.enter(A, &place(1)), Entry::Full));
    let now = Time::from_micros(1_000_000_000);
    for _ in 0..1_000 {
        slots.ended(&place(1), Span::from_secs(30));
    }
    let back: Vec<Time> = (0..10_000).map(|_| slots.come_again(&place(1), now)).collect();
    assert!(back.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(back[0] >= now.plus(BACK_MIN) && back[9_999] <= now.plus(BACK_MAX));
    // 64 at a time, 30 s each: about two a second.
    let soon = back.iter().filter(|at| **at < now.plus(Span::from_secs(20))).count();
    assert!((30..60).contains(&soon), "{soon}");
}

#[test]
fn who_left_from_the_middle_of_a_full_line_makes_room() {
    let slots = Slots::default();
    let held = fill(&slots, &place(1));
    slots.state().tidy_all();
    assert!(!slots.are_waited_for());
    let mut line: Vec<_> = (0..HOST_WAITING_MAX).map(|_| wait(&slots, A, &place(1))).collect();
    assert!(matches!(slots.enter(A, &place(1)), Entry::Full));
    assert!(slots.are_waited_for());
    drop(line.remove(HOST_WAITING_MAX / 2));
    line.push(wait(&slots, A, &place(1)));
    assert!(matches!(slots.enter(A, &place(1)), Entry::Full));
    // All but the last one leave: it is the next, and the host is free after it.
    line.drain(..HOST_WAITING_MAX - 1);
    drop(held);
    drop(line.remove(0).try_recv().expect("the only one left"));
    assert!(matches!(slots.enter(A, &place(1)), Entry::Taken(_)));
    let state = slots.state();
    assert_eq!((state.busy, state.waiting), (0, 0));
}

#[test]
fn namespaces_take_turns_however_many_one_of_them_has_waiting() {
    let slots = Slots::default();
    // A holds everything, and has a hundred waiting for each of ten hosts.
    let mut held: Vec<Slot> = (0..184).flat_map(|n| fill(&slots, &place(n))).collect();
    assert_eq!(held.len(), IN_FLIGHT_MAX);
    let mut crowd: Vec<_> = (0..500).map(|n| wait(&slots, A, &place(200 + n % 10))).collect();
    let mut few: Vec<_> = (0..20).map(|n| wait(&slots, B, &place(300 + n))).collect();
    // Each slot that comes free: one for A, one for B.
    held.truncate(IN_FLIGHT_MAX - 40);
    let mut taken = Vec::new();
    let mut count = |all: &mut Vec<oneshot::Receiver<Slot>>| {
        let before = taken.len();
        taken.extend(all.iter_mut().filter_map(|one| one.try_recv().ok()));
        taken.len() - before
    };
    let (of_a, of_b) = (count(&mut crowd), count(&mut few));
    assert_eq!(of_b, 20, "all of B's, which came last; A had {of_a}");
    // Each of the ten hosts has one while so few are free, so A cannot use its other turns.
    assert_eq!(of_a, 10);
}

#[test]
fn nobody_fills_the_waiting_room() {
    let slots = Slots::default();
    let _held: Vec<Slot> = (0..184).flat_map(|n| fill(&slots, &place(n))).collect();
    let mut crowd = Vec::new();
    for n in 0..10 * WAITING_MAX {
        if let Entry::Waiting(given) = slots.enter(A, &place(n % 100)) {
            crowd.push(given);
        }
    }
    assert_eq!(crowd.len(), WAITING_MAX / 2, "as much as it leaves free");
    let others: Vec<_> = (0..100).map(|_| slots.enter(B, &place(1))).collect();
    assert!(others.iter().all(|one| matches!(one, Entry::Waiting(_))));
}

fn limited(limit: Limit) -> Slots {
    let shares = Shares::new(Limits::from([("h1.example".to_string(), limit)]), true);
    let own = NodeId { node: 1, boot: 1 };
    shares.seen(own, vec![own], Time::from_secs(1));
    Slots::new(Arc::new(shares))
}

#[test]
fn a_host_with_a_limit_of_its_own_has_that_many() {
    let slots = limited(Limit { in_flight: Some(3), rate: None });
    let now = Time::from_secs(1_000);
    assert_eq!(slots.look(A, &place(1), now, now), Ok(()));
    assert_eq!(slots.look(A, &place(2), now, now), Ok(()));
    assert_eq!(fill(&slots, &place(1)).len(), 3);
    assert_eq!(fill(&slots, &place(2)).len(), HOST_IN_FLIGHT_MAX);
}

#[test]
fn a_namespace_has_its_limit_and_holds_up_nobody_at_the_same_host() {
    let named = [("a".to_string(), Some(3))].into();
    let shares = Shares::new(Limits::default(), true).of_tenants(Tenants { named, others: None });
    let own = NodeId { node: 1, boot: 1 };
    let now = Time::from_secs(1_000);
    shares.seen(own, vec![own], now);
    shares.is_called(A, "a");
    shares.is_called(B, "b");
    let slots = Slots::new(Arc::new(shares));
    assert_eq!(slots.look(A, &place(1), now, now), Ok(()));
    let mut held = fill(&slots, &place(1));
    assert_eq!(held.len(), 3, "of whatever host");
    assert!(fill(&slots, &place(2)).is_empty());
    let mut waiting = wait(&slots, A, &place(1));
    assert_eq!(slots.look(B, &place(1), now, now), Ok(()));
    let other = slots.enter(B, &place(1));
    assert!(matches!(other, Entry::Taken(_)), "{other:?}");
    // What another namespace gives back is none of its own.
    drop(other);
    assert!(waiting.try_recv().is_err());
    held.pop();
    assert!(waiting.try_recv().is_ok());
    drop(held);
    assert_eq!(slots.state().tenants.get(&A).map(|one| one.busy), Some(0));
    assert!(!slots.state().tenants.contains_key(&B));
}

#[test]
fn who_waits_gets_no_more_than_is_left_when_another_node_has_come() {
    let limit = Limit { in_flight: Some(4), rate: None };
    let shares = Shares::new(Limits::from([("h1.example".to_string(), limit)]), false);
    let (own, other) = (NodeId { node: 1, boot: 1 }, NodeId { node: 2, boot: 1 });
    let mut now = Time::from_secs(1_000);
    let slots = Slots::new(Arc::new(shares));
    for _ in 0..20 {
        now = now.plus(Span::from_secs(1));
        slots.shares.seen(own, vec![own], now);
    }
    assert_eq!(slots.look(A, &place(1), now, now), Ok(()));
    let mut held = fill(&slots, &place(1));
    assert_eq!(held.len(), 4);
    let mut waiting: Vec<_> = (0..4).map(|_| wait(&slots, A, &place(1))).collect();
    slots.shares.seen(own, vec![own, other], now);
    slots.refresh(now);
    let mut given = |held: &mut Vec<Slot>| {
        held.pop();
        waiting.iter_mut().filter_map(|one| one.try_recv().ok()).collect::<Vec<_>>()
    };
    // Four are under way, and two are too many: the first two that end make room for nobody.
    assert_eq!(given(&mut held).len(), 0);
    assert_eq!(given(&mut held).len(), 0);
    assert_eq!(given(&mut held).len(), 1);
}

#[test]
fn a_rate_is_kept_and_what_is_too_much_comes_again_at_that_rate() {
    let rate = Some(Rate { per_s: 10.0, burst: 5.0 });
    let slots = limited(Limit { in_flight: None, rate });
    let begin = Time::from_secs(1_000);
    // A hundred at once: five pass, the others come again when they are told to, and so on.
    let mut due: VecDeque<Time> = std::iter::repeat_n(begin, 100).collect();
    let mut passed = Vec::new();
    let mut tries = 0;
    while let Some(now) = due.pop_front() {
        tries += 1;
        match slots.pace(&place(1), now) {
            Ok(()) => passed.push(now),
            Err(at) => {
                assert!(at > now, "it would spin");
                let behind = due.partition_point(|other| *other <= at);
                due.insert(behind, at);
            }
        }
        let allowed = 5.0 + 10.0 * now.since(begin).micros() as f64 / 1e6;
        assert!(passed.len() as f64 <= allowed + 1e-6, "{} of {allowed}", passed.len());
    }
    assert_eq!(passed.len(), 100);
    let last = passed.last().expect("a hundred").since(begin);
    assert!(last <= Span::from_secs(11), "{last:?}: no faster than allowed, and not much slower");
    assert!(tries < 300, "{tries} tries for a hundred");
    assert_eq!(slots.pace(&place(2), begin), Ok(()));
}

//! The service level of a queue, and what gives way while it is broken.

use crate::support::*;
use model::row::{Key, Row};
use model::{Namespace, QueueRow, Span, Spec, Token};
use shard::command::{Answer, Command, Refused};

fn set(world: &mut World, start_within: Option<Span>) {
    let limits = QueueRow { start_within, ..QueueRow::default() };
    let command = Command::SetQueue { namespace: Namespace(1), queue: "mail".into(), limits };
    assert_eq!(world.call(command), Answer::Done);
}

fn low() -> Spec {
    Spec { priority: 4, ..now() }
}

fn sheds(world: &mut World) -> bool {
    match world.submit_with(low(), None) {
        Ok(_) => false,
        Err(refused) => {
            assert_eq!(refused, Refused::Shed);
            true
        }
    }
}

#[test]
fn while_the_level_is_broken_low_priorities_give_way_and_others_do_not() {
    let mut world = World::new();
    set(&mut world, Some(Span::from_secs(30)));
    world.submit(now());
    world.run_to(start_plus(30));
    assert_eq!(world.levels, [], "thirty seconds are allowed");
    assert!(!sheds(&mut world));
    world.pass(Span::from_millis(2));
    assert_eq!(world.levels, [true], "told without anybody asking");
    assert!(sheds(&mut world));
    assert!(world.submit_with(now(), None).is_ok());
    // What is for later, and what recurs, adds nothing now.
    assert!(world.submit_with(Spec { priority: 0, ..after(60) }, None).is_ok());
    assert!(world.submit_with(Spec { priority: 0, ..every(60) }, None).is_ok());
    // Other queues have levels of their own.
    assert!(world.submit_with(Spec { queue: "other".into(), ..low() }, None).is_ok());
    set(&mut world, None);
    assert!(!sheds(&mut world), "nobody asks for a level any more");
    assert_eq!(world.levels, [true, false]);
}

#[test]
fn it_is_kept_again_only_when_the_oldest_has_waited_half_as_long() {
    let mut world = World::new();
    set(&mut world, Some(Span::from_secs(30)));
    for _ in 0..3 {
        world.submit(now());
        world.secs(10);
    }
    world.secs(1);
    assert_eq!(world.levels, [true]);
    // Those that are left have waited 21 and 11 seconds.
    let first = world.claim(1)[0];
    world.pass(Span::from_millis(1));
    assert!(sheds(&mut world), "less than thirty, more than fifteen");
    world.claim(1);
    world.pass(Span::from_millis(1));
    assert_eq!(world.levels, [true, false]);
    assert!(!sheds(&mut world));
    world.succeed(&first);
    world.claim(9);
    world.secs(20);
    assert_eq!(world.levels, [true, false], "nothing waits");
}

#[test]
fn a_request_that_was_answered_before_is_answered_again() {
    let mut world = World::new();
    set(&mut world, Some(Span::from_secs(30)));
    let first = world.submit_with(low(), key("k", 1)).unwrap();
    world.secs(31);
    assert!(sheds(&mut world));
    assert_eq!(world.submit_with(low(), key("k", 1)).unwrap().made, first.made);
}

#[test]
fn fires_of_low_priority_are_put_off_and_come_when_the_level_is_kept() {
    let mut world = World::new();
    set(&mut world, Some(Span::from_secs(30)));
    let (urgent, patient) =
        (world.submit(every(40)), world.submit(Spec { priority: 1, ..every(40) }));
    world.submit(now());
    world.run_to(start_plus(45));
    assert!(world.run_row(occurrence(urgent, start_plus(40))).is_some());
    let run = occurrence(patient, start_plus(40));
    assert!(world.run_row(run).is_none());
    assert_eq!(&*world.job_row(patient).pause.unwrap().reason, "service_level");
    let trigger = Command::Trigger { job: patient, id: 1, payload: None, key: None };
    assert_eq!(world.call(trigger), Answer::Refused(Refused::Shed));
    // A new owner judges anew, by what waits.
    world.restart();
    world.pass(Span::from_millis(1));
    assert!(sheds(&mut world));
    world.claim(9);
    world.secs(5);
    assert!(world.run_row(run).is_some());
    let note = world.row(Key::History(run, Token::DELAYED));
    assert!(
        matches!(note, Some(Row::History(row)) if row.error.as_deref() == Some("service_level"))
    );
    assert_eq!(world.verdicts(patient), []);
}

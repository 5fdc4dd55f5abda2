//! Several commits under way at once: answers leave in order, each with its own commit, and whatever
//! happens to one of them, those behind it are neither lost nor done twice.

use crate::support::{World, now};
use model::row::Commit;
use shard::CommitEnd;
use shard::command::{Answer, Command, CommandId, NewJob};
use std::sync::Arc;
use store::{Outcome, Store};

/// Three submissions, each in a commit of its own, all on their way.
fn three_under_way() -> (World, [CommandId; 3], Vec<Commit>) {
    let mut world = World::new();
    world.shard.set_commits_at_once(3);
    world.hold_commits = true;
    let ids = [0, 1, 2].map(|_| submit(&mut world));
    let commits: Vec<Commit> = world.held_commits.drain(..).collect();
    assert_eq!(commits.len(), 3);
    assert!(commits.windows(2).all(|two| two[0].seq + 1 == two[1].seq));
    (world, ids, commits)
}

fn submit(world: &mut World) -> CommandId {
    let job = NewJob { id: world.job_id(), spec: Arc::new(now()), key: None, paused: false };
    world.send(Command::Submit(vec![job]))
}

fn apply(world: &World, commit: &Commit) -> CommitEnd {
    match world.store.commit(std::slice::from_ref(commit)).unwrap().outcomes[0] {
        Outcome::Durable => CommitEnd::Durable,
        Outcome::Gap { last } => CommitEnd::Gap { last },
        other => panic!("{other:?}"),
    }
}

fn answered(world: &World, ids: &[CommandId]) -> Vec<bool> {
    let made = |id: &CommandId| match world.answers.get(id) {
        Some(Answer::Submitted(_)) => true,
        None => false,
        other => panic!("{other:?}"),
    };
    ids.iter().map(made).collect()
}

#[test]
fn an_answer_leaves_when_its_own_commit_is_durable_and_all_before_it() {
    let (mut world, ids, commits) = three_under_way();
    // No room for a fourth.
    let fourth = submit(&mut world);
    assert!(world.held_commits.is_empty());
    let ends: Vec<CommitEnd> = commits.iter().map(|commit| apply(&world, commit)).collect();
    // The second answer is quicker than the first.
    for (place, known) in [(1, [false; 3]), (0, [true, true, false]), (2, [true; 3])] {
        world.shard.handle_commit(world.now, commits[place].seq, ends[place]);
        world.pump();
        assert_eq!(answered(&world, &ids), known);
    }
    world.commit_held();
    assert_eq!(answered(&world, &[fourth]), [true]);
}

#[test]
fn what_is_behind_a_refused_commit_is_sent_again_behind_it() {
    let (mut world, ids, commits) = three_under_way();
    let epoch = world.shard.epoch();
    world.shard.handle_commit(world.now, commits[0].seq, CommitEnd::NotNow);
    for commit in &commits[1..] {
        let end = apply(&world, commit);
        assert!(matches!(end, CommitEnd::Gap { .. }));
        world.shard.handle_commit(world.now, commit.seq, end);
    }
    world.hold_commits = false;
    world.secs(1);
    assert_eq!(answered(&world, &ids), [true; 3]);
    assert_eq!(world.shard.epoch(), epoch, "nothing was lost, so nothing is loaded again");
}

#[test]
fn of_commits_without_an_answer_those_that_landed_count_and_the_others_are_decided_again() {
    for landed in 0..=3 {
        let (mut world, ids, commits) = three_under_way();
        for commit in &commits[..landed] {
            assert_eq!(apply(&world, commit), CommitEnd::Durable);
        }
        world.hold_commits = false;
        world.shard.handle_commit(world.now, commits[0].seq, CommitEnd::Unknown);
        world.pump();
        assert_eq!(answered(&world, &ids), [true; 3], "{landed} landed");
        let runs = world.store.dump().shards[0].rows.len();
        assert!(runs >= 3, "{landed} landed, {runs} rows");
        // Late answers of the old epoch change nothing.
        world.shard.handle_commit(world.now, commits[2].seq, CommitEnd::Durable);
        world.pump();
    }
}

#[test]
fn a_commit_refused_for_a_row_does_not_take_those_around_it_along() {
    let (mut world, ids, commits) = three_under_way();
    assert_eq!(apply(&world, &commits[0]), CommitEnd::Durable);
    let poison = commits[1].changes[0].key.clone();
    world.poison.push(poison);
    world.hold_commits = false;
    // The first one's answer has not come when the second is refused.
    world.shard.handle_commit(world.now, commits[1].seq, CommitEnd::Row { index: 0 });
    world.secs(1);
    assert!(matches!(world.answers.get(&ids[0]), Some(Answer::Submitted(_))));
    assert!(matches!(world.answers.get(&ids[2]), Some(Answer::Submitted(_))));
    assert!(!matches!(world.answers.get(&ids[1]), Some(Answer::Submitted(_)) | None));
}

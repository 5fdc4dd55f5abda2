//! Which versions of a job's definition stay readable, and for how long.

use crate::support::*;
use model::row::{Change, Expect, Key, Row};
use model::{Author, JobId, Origin, Overlap, Spec, Time};
use shard::command::{Answer, Command, End};
use shard::limits::{Sizes, VERSIONS_KEPT};
use std::sync::Arc;
use store::Store;

fn number(version: u32) -> Spec {
    let by = Author::Key { id: format!("key{version}").into(), name: None };
    let payload = bytes(&format!("v{version}"));
    let origin = Origin { since: None, by };
    Spec { payload, origin, ..with_overlap(100, Overlap::Allow) }
}

fn update(world: &mut World, job: JobId, to: u32) {
    let spec = Arc::new(number(to));
    let answer = world.call(Command::Update { job, spec, if_version: Some(to - 1) });
    assert_eq!(answer, Answer::Job(job, to));
}

fn stored(world: &World, job: JobId) -> Vec<u32> {
    let of_job = |key: Key| match key {
        Key::Spec(id, version) if id == job => Some(version),
        _ => None,
    };
    let mut versions: Vec<u32> = world.hot().into_iter().filter_map(of_job).collect();
    versions.sort_unstable();
    versions
}

fn spec_of(world: &World, job: JobId, version: u32) -> Arc<Spec> {
    match world.row(Key::Spec(job, version)) {
        Some(Row::Spec(spec)) => spec,
        other => panic!("version {version}: {other:?}"),
    }
}

#[test]
fn the_last_versions_are_kept_with_who_made_them_and_since_when() {
    let mut world = World::new();
    let job = world.submit(number(1));
    let mut since: Vec<Time> = vec![world.now];
    for version in 2..=VERSIONS_KEPT + 5 {
        world.secs(1);
        since.push(world.now);
        update(&mut world, job, version);
        let first = version.saturating_sub(VERSIONS_KEPT) + 1;
        assert_eq!(stored(&world, job), (first..=version).collect::<Vec<u32>>());
    }
    for version in stored(&world, job) {
        let spec = spec_of(&world, job, version);
        assert_eq!(spec.payload, number(version).payload);
        assert_eq!(spec.origin.by, number(version).origin.by);
        assert_eq!(spec.origin.since, Some(since[version as usize - 1]));
    }
    assert_eq!(world.job_row(job).versioned, *since.last().expect("one per version"));
}

#[test]
fn a_version_that_a_run_names_stays_until_its_last_run_ends() {
    let mut world = World::new();
    world.shard.set_sizes(Sizes { versions: 2, ..Sizes::default() });
    let job = world.submit(number(1));
    world.secs(200);
    let leased = world.claim(2);
    assert_eq!(leased.len(), 2);
    for version in 2..=4 {
        update(&mut world, job, version);
    }
    assert_eq!(stored(&world, job), [1, 3, 4]);
    world.succeed(&leased[0]);
    assert_eq!(stored(&world, job), [1, 3, 4], "another run names it");
    world.succeed(&leased[1]);
    assert_eq!(stored(&world, job), [3, 4]);
    // The end of a run of a version that is kept for itself changes nothing.
    world.secs(100);
    let leased = world.claim_one();
    update(&mut world, job, 5);
    world.succeed(&leased);
    assert_eq!(stored(&world, job), [4, 5]);
}

#[test]
fn a_deleted_job_takes_its_versions_along() {
    let mut world = World::new();
    let job = world.submit(number(1));
    update(&mut world, job, 2);
    world.secs(100);
    let leased = world.claim_one();
    for version in 3..=5 {
        update(&mut world, job, version);
    }
    assert_eq!(stored(&world, job), [1, 2, 3, 4, 5]);
    assert_eq!(world.call(Command::DeleteJob(job)), Answer::Done);
    assert_eq!(stored(&world, job), [2, 5], "what a run names, and the one in force");
    assert_eq!(world.call(Command::DeleteJob(job)), Answer::Done);
    assert_eq!(stored(&world, job), [2, 5]);
    world.secs(1);
    world.settle(&leased, End::Released);
    assert_eq!(world.hot(), []);
}

#[test]
fn a_cancelled_job_stays_readable_with_its_versions() {
    let mut world = World::new();
    let job = world.submit(number(1));
    update(&mut world, job, 2);
    assert_eq!(world.call(Command::CancelJob(job)), Answer::Job(job, 2));
    assert_eq!(stored(&world, job), [1, 2]);
}

/// What a node of the release before would have committed for the same update: the former spec goes
/// unless a run names it, nothing else does, and the new one does not say where it comes from.
fn update_by_an_older_node(world: &mut World, job: JobId, to: u32) {
    world.hold_commits = true;
    let spec = Arc::new(number(to));
    world.send(Command::Update { job, spec, if_version: None });
    world.pump();
    let mut commit = world.held_commits.pop_front().expect("the update");
    let mut changes: Vec<Change> = (*commit.changes).clone();
    changes.retain(|change| !matches!(change.key, Key::Spec(..)) || change.row.is_some());
    for change in &mut changes {
        if let Some(Row::Spec(spec)) = &mut change.row {
            Arc::make_mut(spec).origin = Origin::default();
        }
    }
    let key = Key::Spec(job, to - 1);
    changes.push(Change { key, expect: Expect::Rev(1), row: None });
    commit.changes = Arc::new(changes);
    world.store.commit(&[commit]).expect("committed");
    world.hold_commits = false;
    world.restart();
    assert_eq!(world.job_row(job).version, to);
}

#[test]
fn what_an_older_node_removed_or_left_is_no_contradiction() {
    let mut world = World::new();
    let job = world.submit(number(1));
    for version in 2..=VERSIONS_KEPT {
        update(&mut world, job, version);
    }
    for version in [1, 2, 3].map(|more| VERSIONS_KEPT + more) {
        update_by_an_older_node(&mut world, job, version);
    }
    let last = VERSIONS_KEPT + 3;
    let mut expected: Vec<u32> = (1..VERSIONS_KEPT).collect();
    expected.push(last);
    assert_eq!(stored(&world, job), expected, "a gap, and more than are kept");
    // The next one clears up, and goes on over the gap.
    for version in last + 1..=last + 2 * VERSIONS_KEPT {
        update(&mut world, job, version);
        let first = version - VERSIONS_KEPT + 1;
        assert_eq!(stored(&world, job)[0], expected_first(first, last), "at {version}");
    }
    assert_eq!(stored(&world, job).len(), VERSIONS_KEPT as usize);
}

/// The first version that is there when `first` is the first that is kept: none lies in the gap that
/// the older nodes left before `last`.
fn expected_first(first: u32, last: u32) -> u32 {
    if (VERSIONS_KEPT..last).contains(&first) { last } else { first }
}

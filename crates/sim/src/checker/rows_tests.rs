use super::super::testing::*;
use model::row::{CheckpointRow, Key, Row, RunRow};
use model::{Bytes, Cause, RunId, RunState};
use shard::command::Beat;

fn run() -> RunId {
    RunId::new(job_id(1), Cause::OneOff)
}

fn occurrence(secs: i64) -> RunId {
    RunId::new(job_id(1), Cause::Occurrence(at(secs)))
}

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

fn checkpoint(world: &mut World, text: &str) {
    world.run(RunRow { checkpoint: 1, ..run_row(run()) });
    let row = CheckpointRow { rev: 1, bytes: bytes(text) };
    world.put(Key::Checkpoint(run()), Row::Checkpoint(row));
}

fn beat(world: &mut World, number: u32, text: &str) {
    let checkpoint = Some(bytes(text));
    world.log.beats.push((at(100), Beat { run: run(), token: token(number), checkpoint }));
}

#[test]
fn a_lease_without_its_run_is_found() {
    const NAME: &str = "leases_and_checkpoints_belong_to_runs";
    let mut world = World::new();
    world.lease(run(), 1, |_| {});
    assert!(!world.broken(NAME));
    world.run(RunRow { state: RunState::Blocked, ..run_row(run()) });
    assert!(world.broken(NAME), "a blocked run cannot be claimed");
    world.remove(&Key::Run(run()));
    assert!(world.broken(NAME));
}

#[test]
fn a_checkpoint_without_its_run_and_the_other_way_round_is_found() {
    const NAME: &str = "leases_and_checkpoints_belong_to_runs";
    let mut world = World::new();
    checkpoint(&mut world, "half");
    assert!(!world.broken(NAME));
    world.run(RunRow { checkpoint: 2, ..run_row(run()) });
    assert!(world.broken(NAME), "another revision");
    world.remove(&Key::Checkpoint(run()));
    assert!(world.broken(NAME), "none");
}

#[test]
fn an_acknowledged_checkpoint_that_is_gone_is_found() {
    const NAME: &str = "acknowledged_checkpoints_are_kept";
    let mut world = World::new();
    world.run(run_row(run()));
    beat(&mut world, 1, "half");
    assert!(world.broken(NAME));
    checkpoint(&mut world, "half");
    assert!(!world.broken(NAME));
    beat(&mut world, 2, "all");
    assert!(world.broken(NAME), "an older attempt's");
    checkpoint(&mut world, "sent and never acknowledged");
    assert!(!world.broken(NAME));
}

#[test]
fn specs_without_a_job_and_jobs_without_a_spec_are_found() {
    const NAME: &str = "specs_belong_to_jobs";
    let mut world = World::new();
    let job = world.job(1, every(10), |_| {});
    assert!(!world.broken(NAME));
    world.put(Key::Spec(job, 2), Row::Spec(every(20).into()));
    assert!(world.broken(NAME), "a version that nothing names");
    world.change_job(job, |row| row.version = 2);
    assert!(!world.broken(NAME), "the one before is kept");
    world.settings.versions_kept = 1;
    assert!(world.broken(NAME), "nothing needs the old one any more");
    world.change_job(job, |row| row.live = vec![(1, 1)]);
    assert!(!world.broken(NAME));
    world.remove(&Key::Spec(job, 1));
    assert!(world.broken(NAME), "a run's spec is gone");
    world.change_job(job, |row| row.live = Vec::new());
    assert!(!world.broken(NAME));
    world.settings.versions_kept = 2;
    assert!(world.broken(NAME), "the version before shall be there");
    world.change_job(job, |row| row.delete = true);
    assert!(!world.broken(NAME), "of a deleted job nobody reads versions");
    world.put(Key::Spec(job, 1), Row::Spec(every(10).into()));
    assert!(world.broken(NAME), "it went with the deletion");
}

#[test]
fn runs_without_a_job_or_a_spec_are_found() {
    const NAME: &str = "specs_belong_to_jobs";
    let mut world = World::new();
    world.run(run_row(run()));
    assert!(!world.broken(NAME));
    world.run(RunRow { body: None, ..run_row(run()) });
    assert!(world.broken(NAME));
    let mut world = World::new();
    world.run(run_row(occurrence(110)));
    assert!(world.broken(NAME));
}

#[test]
fn a_wrong_count_is_found() {
    const NAME: &str = "live_counts_are_right";
    let mut world = World::new();
    let job = world.job(1, every(10), |row| row.live = vec![(1, 1)]);
    world.run(run_row(occurrence(110)));
    assert!(!world.broken(NAME));
    world.run(run_row(occurrence(120)));
    assert!(world.broken(NAME));
    world.change_job(job, |row| row.live = vec![(1, 2)]);
    assert!(!world.broken(NAME));
    world.remove(&Key::Run(occurrence(110)));
    world.remove(&Key::Run(occurrence(120)));
    world.change_job(job, |row| (row.live, row.delete) = (Vec::new(), true));
    assert!(world.broken(NAME), "a deleted job goes with its last run");
}

#[test]
fn slots_that_name_the_wrong_runs_are_found() {
    const NAME: &str = "slots_name_their_runs";
    let mut world = World::new();
    let job = world.job(1, every(10), |row| row.active = Some(occurrence(110)));
    assert!(world.broken(NAME), "the active run is not there");
    world.run(RunRow { fresh: true, ..run_row(occurrence(110)) });
    assert!(!world.broken(NAME));
    let blocked = RunRow { fresh: true, state: RunState::Blocked, ..run_row(occurrence(120)) };
    world.run(blocked);
    assert!(world.broken(NAME), "a blocked run without a slot");
    world.change_job(job, |row| row.waiting = Some(occurrence(120)));
    assert!(!world.broken(NAME));
    world.change_job(job, |row| row.active = None);
    world.remove(&Key::Run(occurrence(110)));
    assert!(world.broken(NAME), "it waits for nobody");
}

//! Clocks that run wild: for a moment a node believes in another year. It may cost lateness, never
//! safety, and nothing that was planned in that moment may wait for that year.

use crate::support::cluster::*;
use crate::support::*;
use model::cluster::{Renew, Take};
use model::read::Read;
use model::row::{Holder, Key, Row};
use model::{NodeId, Policy, RunState, Span, Spec, Status, Time};
use shard::command::{Answer, Command, End, Settle};
use shard::{CommitEnd, Event, Planted, Shard};
use store::Store;

const TEN_YEARS: Span = Span::from_secs(10 * 365 * 86_400);

fn wild() -> Vec<Span> {
    vec![TEN_YEARS, Span::from_micros(-TEN_YEARS.micros()), Span::from_secs(3_600)]
}

#[test]
fn a_node_whose_clock_ran_wild_renews_again_when_it_comes_back() {
    for off in wild() {
        let mut nodes = Nodes::new(2, 8);
        nodes.pass(Span::from_secs(5));
        nodes.nodes[1].off = off;
        nodes.pass(Span::from_secs(2));
        nodes.nodes[1].off = Span::ZERO;
        nodes.pass(Span::from_secs(3));
        let now = nodes.now;
        let view =
            nodes.store.renew(Renew { node: NodeId { node: 1, boot: 1 }, ttl: SEC }).unwrap();
        let lease = view.nodes.iter().find(|lease| lease.node.node == 2).unwrap();
        assert!(lease.expires > now, "{off:?}");
    }
}

#[test]
fn nothing_is_stored_that_a_wild_clock_decided_and_it_is_done_in_its_time() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(2));
    let due = nodes.now.plus(Span::from_secs(20));
    let spec = spec(model::When::At(due));
    let (_, id) = nodes.submit(0, 0, spec);
    nodes.heard(0, id);
    nodes.nodes[0].off = Span::from_secs(3_600);
    nodes.pass(Span::from_millis(500));
    assert!(nodes.saw(0, Event::ClockRanWild), "the store refused it");
    nodes.nodes[0].off = Span::ZERO;
    nodes.pass(Span::from_secs(10));
    let states = |nodes: &Nodes| -> Vec<RunState> {
        let shards = nodes.store.dump().shards;
        let rows = shards.iter().flat_map(|shard| shard.rows.values());
        rows.filter_map(|row| if let Row::Run(run) = row { Some(run.state) } else { None })
            .collect()
    };
    assert_eq!(states(&nodes), [RunState::Scheduled]);
    nodes.pass(Span::from_secs(11));
    assert_eq!(states(&nodes), [RunState::Ready]);
}

#[test]
fn a_router_whose_clock_ran_wild_looks_for_the_owner_again() {
    let mut nodes = Nodes::new(1, 1);
    nodes.tick();
    nodes.nodes[0].off = TEN_YEARS;
    let (_, id) = nodes.submit(0, 0, now());
    let refusal = shard::host::Message::Answer {
        id,
        answer: Answer::Refused(shard::command::Refused::NotOwner),
        try_no: 0,
    };
    let from = NodeId { node: 2, boot: 1 };
    nodes.with(0, |host, local| host.handle_message(local, from, refusal));
    nodes.nodes[0].off = Span::ZERO;
    nodes.pass(Span::from_secs(2));
    assert!(matches!(nodes.heard(0, id), Some(Answer::Submitted(_))));
}

#[test]
fn a_commit_refused_under_a_wild_clock_is_sent_again_when_it_comes_back() {
    let mut world = World::new();
    world.submit(now());
    let leased = world.claim_one();
    world.hold_commits = true;
    let end = End::Succeeded { output: None };
    let settle = Settle { run: leased.run, token: leased.token, end };
    let id = world.send(Command::Settle(vec![settle]));
    let commit = world.held_commits.pop_front().unwrap();
    world.shard.handle_commit(world.now.plus(TEN_YEARS), commit.seq, CommitEnd::NotNow);
    world.hold_commits = false;
    world.secs(3);
    assert!(matches!(world.answer(id), Answer::Settled(_)));
}

#[test]
fn a_full_store_met_under_a_wild_clock_is_tried_again_when_it_comes_back() {
    let mut world = World::new();
    world.hold_commits = true;
    let id = world.job_id();
    let job =
        shard::command::NewJob { id, spec: std::sync::Arc::new(now()), key: None, paused: false };
    world.send(Command::Submit(vec![job]));
    let commit = world.held_commits.pop_front().unwrap();
    world.shard.handle_commit(world.now.plus(TEN_YEARS), commit.seq, CommitEnd::NoRoom);
    world.hold_commits = false;
    world.secs(1);
    world.submit(now());
}

#[test]
fn a_read_that_failed_under_a_wild_clock_is_asked_again() {
    let mut world = World::new();
    world.hold_reads = true;
    world.restart();
    let (id, _, _) = world.held_reads.pop_front().unwrap();
    world.shard.handle_read_failed(world.now.plus(TEN_YEARS), id);
    world.pass(Span::from_millis(100));
    assert!(world.held_reads.iter().any(|(again, _, _)| *again == id), "asked again");
    world.deliver();
    assert!(world.shard.is_live());
}

/// The rescue of a job's run waits for rows. The clock is sane again when they come, so the attempt
/// is not over; when it is, somebody must look again.
#[test]
fn a_lease_that_a_wild_clock_ended_is_taken_back_when_it_is_over() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.secs(10);
    let leased = world.claim_one();
    world.call(Command::Pause { job, reason: "only the lease is left".into(), until: None });
    world.restart();
    world.hold_reads = true;
    world.shard.handle_tick(world.now.plus(TEN_YEARS));
    world.pump();
    assert!(!world.held_reads.is_empty(), "the rescue waits for its job's row");
    world.deliver();
    world.may_differ = true;
    world.secs(120);
    assert_eq!(world.statuses(leased.run), [Status::TimedOut]);
}

/// By a wild clock a dead run has waited long enough for a person. Its job's row is read first, and
/// the clock is sane again when it comes: the run waits on.
#[test]
fn a_dead_run_that_a_wild_clock_gave_up_waits_on_for_a_person() {
    let mut world = World::new();
    let job = world.submit(every(10));
    world.secs(10);
    let leased = world.claim_one();
    world.settle(&leased, failed(false, None));
    world.call(Command::Pause { job, reason: "only the dead run is left".into(), until: None });
    world.restart();
    world.may_differ = true;
    world.hold_reads = true;
    let wild = world.now.plus(TEN_YEARS);
    world.shard.handle_tick(wild);
    world.pump();
    let its_job = |read: &Read| matches!(read, Read::Rows(keys) if keys.contains(&Key::Job(job)));
    while let Some((id, read, page)) = world.held_reads.pop_front() {
        if its_job(&read) {
            world.held_reads.push_front((id, read, page));
            break;
        }
        world.shard.handle_read(wild, id, page);
        world.pump();
    }
    assert_eq!(world.held_reads.len(), 1, "the job's row");
    world.deliver();
    assert_eq!(world.statuses(leased.run), [Status::Failed]);
    world.secs(91 * 86_400);
    assert_eq!(world.statuses(leased.run), [Status::Discarded, Status::Failed]);
}

#[test]
fn a_dead_nodes_attempts_are_taken_back_even_if_they_are_loaded_under_a_wild_clock() {
    let mut world = World::new();
    let policy = Policy { timeout: Span::from_secs(3_600), ..Policy::default() };
    let job = world.submit(Spec { policy, ..now() });
    let mut claim = world.claim_command(1, Span::ZERO);
    claim.holder = Holder::Node(NodeId { node: 7, boot: 1 });
    let leased = leases(world.call(Command::Claim(claim)));
    assert_eq!(leased.len(), 1);
    let epoch = world.shard.epoch();
    let taken = world.store.take(&[Take { shard: SHARD, node: NODE, epoch, by: 1 }]).unwrap()[0];
    let wild = world.now.plus(TEN_YEARS);
    let mut shard = Shard::new(SHARD, NODE, taken.unwrap(), &[NODE], wild, Planted::default());
    shard.handle_trust(Time::MAX);
    // Only the leases come while the clock is wild; nothing is decided then.
    let (id, read) = shard.poll_read().unwrap();
    assert!(matches!(read, model::read::Read::Leases { .. }));
    let page = world.store.read(&[(SHARD, read)]).unwrap().remove(0);
    shard.handle_read(wild, id, page);
    world.shard = shard;
    world.pump();
    world.secs(1);
    assert_eq!(world.statuses(one_off(job)), [Status::Lost]);
    assert!(world.row(Key::Lease(one_off(job))).is_none());
}

/// The floor is what the next owner does not look below. A clock that ran wild at the load must not
/// raise it past what is overdue and undecided.
#[test]
fn a_load_under_a_wild_clock_does_not_raise_the_floor() {
    let mut world = World::new();
    for _ in 0..3 {
        world.secs(120);
        world.submit(now());
        let leased = world.claim_one();
        world.succeed(&leased);
    }
    let run = one_off(world.submit(after(10)));
    world.set_now(world.now.plus(Span::from_secs(200)));
    let epoch = world.shard.epoch();
    let taken = world.store.take(&[Take { shard: SHARD, node: NODE, epoch, by: 1 }]).unwrap()[0];
    let wild = world.now.minus(TEN_YEARS);
    let mut shard = Shard::new(SHARD, NODE, taken.unwrap(), &[NODE], wild, Planted::default());
    shard.handle_trust(Time::MAX);
    world.shard = shard;
    // The clock is sane again. Something is committed before the wheel has been read.
    world.hold_reads = true;
    world.pump();
    while !world.shard.is_live() {
        let (id, _, page) = world.held_reads.pop_front().unwrap();
        world.shard.handle_read(world.now, id, page);
        world.pump();
    }
    let scope = model::row::Scope::Queue(model::Namespace(9), "else".into());
    let hold = Command::Hold { scope, reason: "only to be committed".into(), until: None };
    assert_eq!(world.call(hold), Answer::Done);
    world.hold_reads = false;
    world.restart();
    world.secs(1);
    assert_eq!(world.claim_one().run, run);
}

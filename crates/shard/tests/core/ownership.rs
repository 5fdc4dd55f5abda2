//! Who owns what: leases of nodes, takes, gifts, stalls, lost tails.

use crate::support::cluster::*;
use crate::support::{NODE, now, worker};
use model::row::Scope;
use model::{Epoch, Namespace, NodeId, ShardId, Span, Time};
use shard::command::{Answer, Claim, Command, End, Settle, SettleAnswer};
use shard::host::{Message, StoreAnswer, StoreCall};
use shard::{CallId, Event, Ownership};
use store::memory::Incarnation;
use store::{MemoryStore, Store};

fn claim_of(nodes: &Nodes, request: u64) -> Command {
    Command::Claim(Claim {
        holder: worker(),
        namespace: Namespace(1),
        queues: vec!["mail".into()],
        kinds: None,
        max: 10,
        lease: Span::from_secs(30),
        request,
        wait_until: nodes.now,
        reserve: false,
    })
}

#[test]
fn a_lone_node_takes_all_its_shards_at_once() {
    let mut nodes = Nodes::new(1, 256);
    nodes.tick();
    assert_eq!(nodes.held(0), 0, "it has renewed once");
    // The second renewal is the one that may judge; then take follows take without a pause.
    nodes.pass(SEC);
    assert_eq!(nodes.held(0), 256);
}

#[test]
fn a_new_node_is_given_its_share_and_nothing_is_ever_nobodys() {
    let mut nodes = Nodes::new(1, 16);
    nodes.pass(Span::from_secs(2));
    assert_eq!(nodes.held(0), 16);
    nodes.add_node();
    for _ in 0..50 {
        nodes.pass(Span::from_millis(100));
        assert!(nodes.owners().iter().all(Option::is_some));
    }
    assert_eq!((nodes.held(0) + nodes.held(1), nodes.held(1) > 0), (16, true));
    assert!(nodes.saw(0, Event::Gave));
}

#[test]
fn a_dead_nodes_shards_are_taken_when_its_lease_has_ended_and_not_before() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let owned = nodes.held(1);
    assert!(owned > 0 && nodes.held(0) > 0);
    nodes.nodes[1].hold_calls = true;
    nodes.pass(Span::from_millis(1_900));
    assert_eq!(nodes.held(0), 8 - owned);
    nodes.pass(Span::from_secs(3));
    assert_eq!(nodes.held(0), 8);
}

/// The store stands still for eight seconds: no call is answered. Then all of them are, first those
/// of one node, at once, and those of the other half a second later.
#[test]
fn a_stalled_store_moves_no_shard_even_if_one_node_renews_later_than_the_other() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let before = nodes.owners();
    nodes.nodes.iter_mut().for_each(|node| node.hold_calls = true);
    nodes.pass(Span::from_secs(4));
    nodes.nodes[0].hold_calls = false;
    nodes.pass(Span::from_millis(500));
    nodes.nodes[1].hold_calls = false;
    nodes.pass(Span::from_secs(3));
    assert_eq!(nodes.owners(), before);
}

#[test]
fn one_slow_renewal_does_not_cost_the_lease() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let before = nodes.owners();
    // One renewal of the second node takes six seconds to come back.
    nodes.nodes[1].hold_calls = true;
    while !nodes.nodes[1].calls.iter().any(|(_, call)| is_renew(call)) {
        nodes.pass(Span::from_millis(100));
    }
    let slow = nodes.execute(1, is_renew).unwrap();
    nodes.nodes[1].hold_calls = false;
    nodes.pass(Span::from_secs(6));
    assert_eq!(nodes.owners(), before);
    assert_eq!(nodes.held(1), before.iter().filter(|o| o.is_some_and(|o| o.node == 2)).count());
    // What it shows is six seconds old; it takes nothing away.
    nodes.answer(1, slow);
    nodes.pass(SEC);
    assert_eq!(nodes.owners(), before);
}

/// Seed 200696: the answers of two calls in a row are lost; a third renewal keeps the lease.
#[test]
fn two_lost_answers_in_a_row_do_not_cost_the_lease() {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let before = nodes.owners();
    for _ in 0..2 {
        nodes.nodes[1].hold_calls = true;
        while !nodes.nodes[1].calls.iter().any(|(_, call)| is_renew(call)) {
            nodes.pass(Span::from_millis(100));
        }
        // Done in the store, and never answered.
        drop(nodes.execute(1, is_renew).unwrap());
        nodes.nodes[1].hold_calls = false;
    }
    nodes.pass(Span::from_secs(8));
    assert_eq!(nodes.owners(), before);
}

#[test]
fn renewals_under_way_are_bounded() {
    let mut nodes = Nodes::new(1, 4);
    nodes.pass(Span::from_secs(2));
    nodes.nodes[0].hold_calls = true;
    nodes.pass(Span::from_secs(30));
    let renewals = nodes.nodes[0].calls.iter().filter(|(_, call)| is_renew(call)).count();
    assert_eq!(renewals, 1 + shard::limits::RENEWALS_BESIDE);
}

/// Held shards of epoch 6, and a picture of the cluster from before they were taken.
#[test]
fn a_renewal_beside_a_take_is_not_taken_for_a_lost_tail() {
    let mut nodes = Nodes::new(1, 4);
    nodes.tick();
    nodes.nodes[0].hold_calls = true;
    nodes.pass(SEC);
    let renewed = nodes.execute(0, is_renew).unwrap();
    nodes.answer(0, renewed);
    // The take is on its way; the next renewal goes beside it and is done first.
    nodes.pass(SEC);
    let beside = nodes.execute(0, is_renew).unwrap();
    assert!(view(&beside).shards.iter().all(|row| row.owner.is_none()));
    let taken = nodes.execute(0, |call| !is_renew(call)).unwrap();
    nodes.answer(0, taken);
    nodes.answer(0, beside);
    nodes.nodes[0].hold_calls = false;
    nodes.pass(SEC);
    assert!(!nodes.saw(0, Event::LostTail));
    assert_eq!(nodes.held(0), 4);
}

/// A node is cut off until its lease has ended and its shard has another owner. The renewal that
/// gets through first only keeps the lease, because it goes beside a slow one, or only looks where
/// another shard is: it brings the lease back, and not the shard.
#[test]
fn a_lease_that_holds_again_does_not_vouch_for_a_shard_that_was_taken_meanwhile() {
    for looks in [false, true] {
        let mut nodes = Nodes::new(2, 16);
        nodes.pass(Span::from_secs(10));
        let old = nodes.owner(0);
        let new = 1 - old;
        let other = (1..16).find(|shard| nodes.owner(*shard) == new).expect("both have some");
        let (_, submitted) = nodes.submit(old, 0, now());
        assert!(nodes.heard(old, submitted).is_some());
        nodes.nodes[old].hold_calls = true;
        nodes.pass(Span::from_secs(10));
        assert_eq!(nodes.owner(0), new);
        let claim = nodes.ask(new, 0, claim_of(&nodes, 7));
        let Some(Answer::Claimed(leased)) = nodes.heard(new, claim) else { panic!("no claim") };
        let end = End::Succeeded { output: None };
        let settle = Settle { run: leased[0].run, token: leased[0].token, end };
        let mut slow = None;
        if looks {
            // Every renewal breaks off. Then a command is refused where its shard was.
            while let Some((id, _)) = nodes.execute(old, |_| true) {
                nodes.answer(old, (id, StoreAnswer::Unknown));
                if nodes.nodes[old].calls.iter().all(|(_, call)| !is_renew(call)) {
                    break;
                }
            }
            nodes.hold_messages = true;
            nodes.ask(old, other, claim_of(&nodes, 8));
            while let Some((_, _, message)) = nodes.messages.pop_front() {
                nodes.with(old, |host, local| host.handle_bounce(local, &message));
            }
            nodes.hold_messages = false;
        } else {
            let at = nodes.nodes[old].calls.iter().position(|(_, call)| is_renew(call)).unwrap();
            slow = nodes.nodes[old].calls.remove(at);
        }
        let renewed = nodes.execute(old, is_renew).expect("a renewal");
        nodes.answer(old, renewed);
        let settled = nodes.ask(old, 0, Command::Settle(vec![settle]));
        while let Some(read) = nodes.execute(old, |call| matches!(call, StoreCall::Read(_))) {
            nodes.answer(old, read);
        }
        assert_eq!(nodes.heard(old, settled), None, "it is not the one to say; looks: {looks}");
        slow.into_iter().for_each(|call| nodes.nodes[old].calls.push_front(call));
        nodes.nodes[old].hold_calls = false;
        nodes.pass(Span::from_secs(2));
        assert!(matches!(nodes.heard(old, settled), Some(Answer::Settled(ends))
            if matches!(ends[0].1, SettleAnswer::Ok { .. })));
    }
}

fn renewed(store: &MemoryStore, node: NodeId) -> model::cluster::Cluster {
    store.renew(model::cluster::Renew { node, ttl: Span::from_secs(3) }).unwrap()
}

/// A store, this node, and another one that has just renewed.
fn beside_another(shards: u16) -> (MemoryStore, NodeId, NodeId) {
    let (me, other) = (NodeId { node: 1, boot: 1 }, NodeId { node: 2, boot: 1 });
    let store = MemoryStore::new(shards);
    store.set_now(Time::from_secs(1_000));
    renewed(&store, other);
    (store, me, other)
}

/// By the rows of a store that lost its tail the shard is ours; who took it in the lost time may rely
/// on its lease for a while.
#[test]
fn what_was_ours_before_the_lost_tail_is_left_alone_for_the_time_of_a_lease() {
    let (store, me, other) = beside_another(1);
    let renew = |node| renewed(&store, node);
    let take = model::cluster::Take { shard: ShardId(0), node: other, epoch: Epoch(0), by: 1 };
    assert!(store.take(&[take]).unwrap()[0].is_some());
    let mut ownership = Ownership::new(me);
    let mut local = Time::from_secs(1);
    let quick = Span::from_millis(1);
    for _ in 0..4 {
        let found = ownership.handle_renewed(local, quick, renew(me), &Default::default());
        assert_eq!(found.take, []);
        local = local.plus(SEC);
    }
    let older = || {
        let mut view = renew(me);
        view.incarnation += 1;
        view.shards[0].owner = Some(me);
        view
    };
    let lost = local;
    let found = ownership.handle_renewed(local, quick, older(), &Default::default());
    assert!(found.lost_tail);
    assert_eq!(found.take, []);
    local = lost.plus(Span::from_millis(2_999));
    assert_eq!(ownership.handle_renewed(local, quick, older(), &Default::default()).take, []);
    local = lost.plus(Span::from_secs(3));
    let found = ownership.handle_renewed(local, quick, older(), &Default::default());
    assert_eq!(found.take.len(), 1);
}

/// After a stall the store carries out at one instant what has gathered, and answers come in any order.
#[test]
fn a_look_that_was_overtaken_does_not_undo_what_a_later_one_showed() {
    let (store, me, other) = beside_another(1);
    let renew = |node| renewed(&store, node);
    let mut ownership = Ownership::new(me);
    let (local, quick) = (Time::from_secs(1), Span::from_millis(1));
    ownership.handle_renewed(local, quick, renew(me), &Default::default());
    assert_eq!(ownership.alive(), [me, other]);
    store.set_now(Time::from_secs(1_010));
    let first = renew(me);
    renew(other);
    let second = renew(me);
    ownership.handle_look(second);
    ownership.handle_renewed(local, Span::from_secs(9), first, &Default::default());
    assert_eq!(ownership.alive(), [me, other]);
    // A lease that nobody renews ends all the same.
    store.set_now(Time::from_secs(1_020));
    ownership.handle_renewed(local, quick, renew(me), &Default::default());
    assert_eq!(ownership.alive(), [me]);
}

#[test]
fn a_node_that_was_slow_itself_leaves_the_others_the_time_of_a_renewal() {
    let (store, me, other) = beside_another(8);
    let renew = |node| renewed(&store, node);
    let takes: Vec<_> = (0..8)
        .map(|shard| model::cluster::Take {
            shard: ShardId(shard),
            node: other,
            epoch: Epoch(0),
            by: 1,
        })
        .collect();
    assert!(store.take(&takes).unwrap().iter().all(Option::is_some));
    store.set_now(Time::from_secs(1_010));
    let mut ownership = Ownership::new(me);
    let mut local = Time::from_secs(50);
    let quick = Span::from_millis(2);
    let mut renewed = |ownership: &mut Ownership, after: Span, took| {
        local = local.plus(after);
        ownership.handle_renewed(local, took, renew(me), &Default::default()).take.len()
    };
    assert_eq!(renewed(&mut ownership, SEC, quick), 0, "once");
    assert!(renewed(&mut ownership, SEC, quick) > 0, "twice in a row");
    assert_eq!(renewed(&mut ownership, SEC, Span::from_secs(4)), 0, "a slow one does not count");
    assert_eq!(renewed(&mut ownership, Span::from_millis(3), quick), 0);
    assert_eq!(renewed(&mut ownership, Span::from_millis(3), quick), 0, "two, but at once");
    assert!(renewed(&mut ownership, SEC, quick) > 0);
}

#[test]
fn a_shard_promised_to_another_node_is_given_after_a_new_epoch() {
    let mut nodes = Nodes::new(1, 16);
    nodes.pass(Span::from_secs(2));
    nodes.add_node();
    nodes.hold_messages = true;
    while nodes.messages.is_empty() {
        nodes.pass(Span::from_millis(100));
    }
    // A commit of the shard is under way when it is asked for, and its outcome stays unknown.
    let asked = nodes.messages.front().cloned().unwrap();
    let Message::Ask { shard } = asked.2 else { panic!("{asked:?}") };
    nodes.nodes[0].hold_calls = true;
    nodes.submit(0, shard.0, now());
    let (id, _) = nodes.execute(0, is_commit).expect("a commit");
    nodes.hold_messages = false;
    nodes.messages.clear();
    nodes.deliver(asked);
    nodes.answer(0, (id, StoreAnswer::Unknown));
    nodes.nodes[0].hold_calls = false;
    // It would be asked for again after two seconds.
    nodes.pass(Span::from_millis(1_500));
    assert_eq!(nodes.owner(shard.0), 1, "given");
    assert!(nodes.nodes[1].host.shard(shard).is_some_and(|shard| shard.is_live()));
}

#[test]
fn epochs_after_a_lost_tail_are_of_the_next_range() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(2));
    let (_, first) = nodes.submit(0, 0, now());
    assert!(matches!(nodes.heard(0, first), Some(Answer::Submitted(_))));
    let epoch = nodes.nodes[0].host.shard(ShardId(0)).unwrap().epoch();
    // The same store forgets commits, epochs not: the owner finds the gap and jumps.
    nodes.store.mark_replicated();
    let (_, lost) = nodes.submit(0, 0, now());
    nodes.heard(0, lost);
    nodes.store.lose_tail(Incarnation::Same);
    let (_, next) = nodes.submit(0, 0, now());
    nodes.pass(SEC);
    assert!(matches!(nodes.heard(0, next), Some(Answer::Submitted(_))));
    let after = nodes.nodes[0].host.shard(ShardId(0)).unwrap().epoch();
    assert!(after.0 >= epoch.0 + Epoch::JUMP, "{epoch:?} {after:?}");
    // A promoted replica: every epoch it gives is of a range of its own.
    for incarnation in 1..4_u32 {
        nodes.store.mark_replicated();
        nodes.submit(0, 0, now());
        nodes.store.lose_tail(Incarnation::Next);
        nodes.pass(Span::from_secs(2));
        let epoch = nodes.nodes[0].host.shard(ShardId(0)).unwrap().epoch();
        assert_eq!(epoch.0 / 8_192, incarnation, "{epoch:?}");
    }
    assert!(nodes.saw(0, Event::LostTail));
}

/// The store says that numbers are missing, so nothing was applied. Others then wrote so much that the
/// number of the last commit is past ours: that does not mean that ours landed.
#[test]
fn a_gap_that_the_store_names_is_not_a_commit_that_landed() {
    let mut world = crate::support::World::new();
    world.hold_commits = true;
    let id = world.job_id();
    let spec = std::sync::Arc::new(now());
    let job = shard::command::NewJob { id, spec, key: None, paused: false };
    let submit = world.send(Command::Submit(vec![job]));
    let commit = world.held_commits.pop_front().unwrap();
    world.shard.handle_commit(world.now, commit.seq, shard::CommitEnd::Gap { last: 0 });
    let epoch = world.shard.epoch();
    let take = |epoch: Epoch| {
        let take = model::cluster::Take { shard: ShardId(0), node: NODE, epoch, by: 1 };
        world.store.take(&[take]).unwrap()[0].unwrap()
    };
    let other = take(epoch);
    for seq in other.seq + 1..other.seq + 6 {
        let commit = model::row::Commit {
            shard: ShardId(0),
            epoch: other.epoch,
            seq,
            decided: world.now,
            changes: Vec::new().into(),
            floor: None,
            starts: model::row::Starts::default(),
        };
        let done = world.store.commit(&[commit]).unwrap().outcomes;
        assert_eq!(done, [store::Outcome::Durable]);
    }
    let taken = take(other.epoch);
    assert!(taken.seq >= commit.seq);
    world.shard.handle_epoch(world.now, taken, &[NODE]);
    world.hold_commits = false;
    world.pump();
    assert!(matches!(world.answer(submit), Answer::Submitted(_)));
    assert_eq!(world.hot().len(), 1, "what was answered is stored");
}

#[test]
fn an_epoch_taken_for_tokens_asks_whether_the_commit_under_way_landed() {
    let mut world = crate::support::World::new();
    let sizes = shard::limits::Sizes { tokens: 4, ..Default::default() };
    world.shard.set_sizes(sizes);
    world.submit_many(&now(), 6);
    world.hold_commits = true;
    let claim = world.claim_command(6, Span::ZERO);
    let claim = world.send(Command::Claim(claim));
    // The commit with the claims lands; before its answer comes, the host takes the epoch that the
    // shard had asked for when nothing was under way.
    let commit = world.held_commits.pop_front().unwrap();
    store::Store::commit(&world.store, &[commit]).unwrap();
    let epoch = world.shard.epoch();
    let take = model::cluster::Take { shard: ShardId(0), node: NODE, epoch, by: 1 };
    let taken = world.store.take(&[take]).unwrap()[0].unwrap();
    world.shard.handle_epoch(world.now, taken, &[NODE]);
    world.hold_commits = false;
    world.pump();
    assert_eq!(crate::support::leases(world.answer(claim)).len(), 6);
    assert_eq!(world.claim(10), [], "decided once");
    assert!(world.saw(Event::FreshTokens));
}

#[test]
fn a_held_shard_of_a_node_whose_lease_is_uncertain_answers_no_heartbeat() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(2));
    let (_, id) = nodes.submit(0, 0, now());
    nodes.heard(0, id);
    let claim = claim_of(&nodes, 1);
    let claim = nodes.ask(0, 0, claim);
    let Some(Answer::Claimed(leased)) = nodes.heard(0, claim) else { panic!() };
    nodes.nodes[0].hold_calls = true;
    nodes.pass(Span::from_secs(4));
    let beat =
        shard::command::Beat { run: leased[0].run, token: leased[0].token, checkpoint: None };
    let beat = nodes.ask(0, 0, Command::Heartbeat(vec![beat]));
    assert_eq!(nodes.heard(0, beat), None, "it waits: somebody else may own the shard");
    nodes.nodes[0].hold_calls = false;
    nodes.pass(SEC);
    assert!(matches!(nodes.heard(0, beat), Some(Answer::Beats(_))));
}

#[test]
fn an_answer_of_a_call_that_was_given_up_is_void() {
    let mut nodes = Nodes::new(1, 1);
    nodes.pass(Span::from_secs(2));
    nodes.nodes[0].hold_calls = true;
    let (_, id) = nodes.submit(0, 0, now());
    let landed = nodes.execute(0, is_commit).unwrap();
    nodes.answer(0, (landed.0, StoreAnswer::Unknown));
    nodes.answer(0, landed);
    nodes.answer(0, (CallId(9_999), StoreAnswer::Unknown));
    nodes.nodes[0].hold_calls = false;
    nodes.pass(SEC);
    assert!(matches!(nodes.heard(0, id), Some(Answer::Submitted(_))));
    assert_eq!(nodes.rows(), 1);
}

#[test]
fn a_hold_goes_with_its_shard() {
    let mut nodes = Nodes::new(1, 16);
    nodes.pass(Span::from_secs(2));
    for shard in 0..16 {
        let scope = Scope::All;
        nodes.ask(0, shard, Command::Hold { scope, reason: "stop".into(), until: None });
        nodes.submit(0, shard, now());
    }
    nodes.add_node();
    nodes.pass(Span::from_secs(6));
    assert!(nodes.held(1) > 0);
    for shard in 0..16 {
        let claim = claim_of(&nodes, 100 + u64::from(shard));
        let claim = nodes.ask(0, shard, claim);
        nodes.pass(Span::from_millis(200));
        let heard = nodes.heard(0, claim);
        assert_eq!(heard, Some(Answer::Claimed(Vec::new())), "{shard}");
    }
}

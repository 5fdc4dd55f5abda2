//! The way of a command to the shard that decides it: forwards, bounces, repetitions, hang-ups.

use crate::support::cluster::*;
use crate::support::{every, now, worker};
use model::row::Made;
use model::{Namespace, NodeId, Span};
use shard::Event;
use shard::command::{Answer, Claim, Command, KeyOf, NewJob, Refused};
use shard::host::Message;

/// Two nodes with shards; a shard of the second one.
fn two() -> (Nodes, u16) {
    let mut nodes = Nodes::new(2, 8);
    nodes.pass(Span::from_secs(5));
    let shard = (0..8).find(|shard| nodes.owner(*shard) == 1).expect("the second has its share");
    (nodes, shard)
}

fn claim(nodes: &Nodes, request: u64) -> Command {
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

fn is_done(answer: Option<Answer>) -> bool {
    matches!(answer, Some(Answer::Submitted(answers)) if answers[0].is_ok())
}

#[test]
fn a_command_reaches_its_shard_on_another_node_and_its_answer_comes_back() {
    let (mut nodes, shard) = two();
    let (_, id) = nodes.submit(0, shard, now());
    assert!(is_done(nodes.heard(0, id)));
    assert_eq!(nodes.rows(), 1);
}

#[test]
fn a_forward_that_the_network_repeats_is_done_once() {
    let (mut nodes, shard) = two();
    let (job, id) = nodes.submit(0, shard, every(3_600));
    assert!(is_done(nodes.heard(0, id)));
    nodes.hold_messages = true;
    let spec = std::sync::Arc::new(every(60));
    let id = nodes.ask(0, shard, Command::Update { job, spec, if_version: None });
    let forward = nodes.messages.pop_front().unwrap();
    nodes.deliver(forward.clone());
    nodes.deliver(forward.clone());
    nodes.settle();
    nodes.deliver(forward);
    nodes.hold_messages = false;
    nodes.settle();
    assert_eq!(nodes.heard(0, id), Some(Answer::Job(job, 2)), "and answered once");
    let shards = nodes.store.dump().shards;
    let rows = shards.iter().flat_map(|shard| shard.rows.values());
    let versions: Vec<u32> = rows
        .filter_map(
            |row| if let model::row::Row::Job(job) = row { Some(job.version) } else { None },
        )
        .collect();
    assert_eq!(versions, [2]);
}

#[test]
fn a_forward_that_nobody_heard_is_tried_again() {
    let (mut nodes, shard) = two();
    nodes.hold_messages = true;
    let (_, id) = nodes.submit(0, shard, now());
    let (_, _, forward) = nodes.messages.pop_front().unwrap();
    nodes.with(0, |host, local| host.handle_bounce(local, &forward));
    assert_eq!(nodes.heard(0, id), None, "neither refused nor unknown");
    nodes.hold_messages = false;
    nodes.pass(Span::from_millis(200));
    assert!(is_done(nodes.heard(0, id)));
}

/// A refusal of the first try that the network repeats while the second is being decided.
#[test]
fn a_repeated_refusal_does_not_send_a_command_a_third_time() {
    let (mut nodes, shard) = two();
    nodes.hold_messages = true;
    let (_, id) = nodes.submit(0, shard, now());
    let (from, to, forward) = nodes.messages.pop_front().unwrap();
    let Message::Forward { try_no, .. } = forward else { panic!("{forward:?}") };
    let answer = Answer::Refused(Refused::NotOwner);
    let refusal = (to, from, Message::Answer { id, answer, try_no });
    nodes.deliver(refusal.clone());
    nodes.pass(Span::from_millis(100));
    assert_eq!(nodes.messages.len(), 1, "the second try");
    nodes.deliver(refusal);
    nodes.pass(Span::from_millis(300));
    assert_eq!(nodes.messages.len(), 1, "no third one");
    nodes.hold_messages = false;
    nodes.settle();
    assert!(is_done(nodes.heard(0, id)));
    assert_eq!(nodes.rows(), 1);
}

/// The bounce of a try that is over must not end the one that is being decided.
#[test]
fn a_bounce_of_an_earlier_try_is_void() {
    let (mut nodes, shard) = two();
    nodes.hold_messages = true;
    let (_, id) = nodes.submit(0, shard, now());
    let (_, _, first) = nodes.messages.pop_front().unwrap();
    nodes.with(0, |host, local| host.handle_bounce(local, &first));
    nodes.pass(Span::from_millis(100));
    let second = nodes.messages.pop_front().unwrap();
    // Past the patience of the router a bounce ends a command.
    nodes.pass(Span::from_secs(3));
    nodes.with(0, |host, local| host.handle_bounce(local, &first));
    assert_eq!(nodes.heard(0, id), None);
    nodes.deliver(second);
    nodes.hold_messages = false;
    nodes.settle();
    assert!(is_done(nodes.heard(0, id)));
}

#[test]
fn a_shard_without_an_owner_is_looked_for_and_then_refused_definitely() {
    let mut nodes = Nodes::new(1, 1);
    nodes.tick();
    // It has renewed once, so it does not take yet.
    let (_, id) = nodes.submit(0, 0, now());
    assert_eq!(nodes.heard(0, id), None);
    nodes.nodes[0].hold_calls = true;
    nodes.pass(Span::from_millis(2_100));
    assert_eq!(nodes.heard(0, id), Some(Answer::Refused(Refused::NotOwner)));
    let (_, id) = nodes.submit(0, 0, now());
    nodes.nodes[0].hold_calls = false;
    nodes.pass(SEC);
    assert!(is_done(nodes.heard(0, id)), "found while it waited");
}

#[test]
fn what_a_closed_shard_had_not_sent_goes_to_the_new_owner() {
    let (mut nodes, shard) = two();
    // The owner is cut off from the store; its lease ends and the other one takes the shard.
    nodes.nodes[1].hold_calls = true;
    nodes.pass(Span::from_secs(5));
    assert_eq!(nodes.owner(shard), 0);
    // It does not know yet, and decides; its commit is fenced.
    let (_, id) = nodes.submit(1, shard, now());
    let fenced = nodes.execute(1, is_commit).unwrap();
    nodes.answer(1, fenced);
    nodes.nodes[1].hold_calls = false;
    nodes.pass(Span::from_secs(1));
    let heard = nodes.heard(1, id);
    assert!(is_done(heard.clone()), "{heard:?}");
    assert_eq!(nodes.rows(), 1);
}

#[test]
fn a_command_whose_answer_is_lost_is_unknown_at_its_deadline() {
    let (mut nodes, shard) = two();
    nodes.hold_messages = true;
    let (_, id) = nodes.submit(0, shard, now());
    nodes.messages.clear();
    nodes.pass(Span::from_millis(7_900));
    assert_eq!(nodes.heard(0, id), None);
    nodes.pass(Span::from_millis(200));
    assert_eq!(nodes.heard(0, id), Some(Answer::Refused(Refused::Unknown)));
}

/// Leased runs in the store.
fn leases(nodes: &Nodes) -> usize {
    let shards = nodes.store.dump().shards;
    let keys = shards.iter().flat_map(|shard| shard.rows.keys());
    keys.filter(|key| matches!(key, model::row::Key::Lease(_))).count()
}

#[test]
fn a_forwarded_claim_goes_back_when_its_caller_hangs_up() {
    // The answer has not been made; or it is made and on its way.
    for answered in [false, true] {
        let (mut nodes, shard) = two();
        nodes.submit(0, shard, now());
        nodes.hold_messages = true;
        let command = claim(&nodes, 1);
        let id = nodes.ask(0, shard, command);
        let forward = nodes.messages.pop_front().unwrap();
        nodes.nodes[1].hold_calls = !answered;
        nodes.deliver(forward);
        nodes.settle();
        assert_eq!(leases(&nodes), usize::from(answered));
        nodes.with(0, |host, local| host.handle_gone(local, id));
        nodes.nodes[1].hold_calls = false;
        nodes.hold_messages = false;
        nodes.settle();
        assert_eq!(nodes.heard(0, id), None);
        assert_eq!(leases(&nodes), 0, "answered: {answered}");
        assert!(nodes.saw(1, Event::ClaimUndone));
    }
}

#[test]
fn leases_that_another_node_told_of_stay_when_the_first_caller_hangs_up() {
    let (mut nodes, shard) = two();
    nodes.submit(0, shard, now());
    nodes.hold_messages = true;
    let (first, second) = (claim(&nodes, 1), claim(&nodes, 1));
    let first = nodes.ask(0, shard, first);
    let forward = nodes.messages.pop_front().unwrap();
    nodes.deliver(forward);
    nodes.settle();
    // The worker asks again, at the other node, and hears; then the first connection is closed.
    let second = nodes.ask(1, shard, second);
    assert!(matches!(nodes.heard(1, second), Some(Answer::Claimed(runs)) if runs.len() == 1));
    nodes.with(0, |host, local| host.handle_gone(local, first));
    nodes.hold_messages = false;
    nodes.settle();
    assert_eq!(leases(&nodes), 1);
}

#[test]
fn only_the_node_where_a_shard_belongs_is_given_it() {
    let (mut nodes, shard) = two();
    let (owner, other) = (NodeId { node: 2, boot: 1 }, NodeId { node: 1, boot: 1 });
    nodes.deliver((other, owner, Message::Ask { shard: model::ShardId(shard) }));
    nodes.pass(SEC);
    assert_eq!(nodes.owner(shard), 1);
}

/// The owner dies after it has committed and before it has said so. Whoever has its shard then knows by
/// the key, and the caller need not wait for its deadline; one without a key hears that nobody knows.
#[test]
fn a_submission_with_a_key_is_answered_by_the_heir_of_a_node_that_died() {
    let (mut nodes, shard) = two();
    nodes.hold_messages = true;
    let mut asked = Vec::new();
    for key in [Some(KeyOf { key: "k".into(), body: 7 }), None] {
        let id = nodes.job_id(shard);
        let job = NewJob { id, spec: std::sync::Arc::new(now()), key, paused: false };
        asked.push((id, nodes.ask(0, shard, Command::Submit(vec![job]))));
    }
    let forwards: Vec<_> = nodes.messages.drain(..).collect();
    forwards.into_iter().for_each(|forward| nodes.deliver(forward));
    nodes.settle();
    // Committed; its answers are lost, and nothing more comes from there.
    nodes.messages.clear();
    nodes.nodes[1].hold_calls = true;
    let rows = nodes.rows();
    assert!(rows >= 2);
    nodes.pass(Span::from_millis(6_500));
    assert_eq!(nodes.owner(shard), 0);
    let (id, keyed) = asked[0];
    let Some(Answer::Submitted(answers)) = nodes.heard(0, keyed) else { panic!("no answer") };
    assert!(matches!(&answers[0], Ok(done) if done.made == Made::Job(id)), "{answers:?}");
    assert_eq!(nodes.heard(0, asked[1].1), None);
    nodes.pass(Span::from_secs(2));
    assert_eq!(nodes.heard(0, asked[1].1), Some(Answer::Refused(Refused::Unknown)));
    assert_eq!(nodes.rows(), rows, "nothing was made twice");
}

/// What was sent to a node that died may have been done there. An heir that refuses it, because its
/// store is full for instance, does not know better: nobody does.
#[test]
fn a_refusal_of_the_heir_is_no_answer_to_what_may_have_been_done() {
    let mut nodes = Nodes::new(3, 24);
    nodes.pass(Span::from_secs(6));
    nodes.hold_messages = true;
    let shards: Vec<u16> = (0..24).filter(|shard| nodes.owner(*shard) == 1).collect();
    let mut asked = Vec::new();
    for shard in shards {
        let (id, key) = (nodes.job_id(shard), Some(KeyOf { key: "k".into(), body: 7 }));
        let job = NewJob { id, spec: std::sync::Arc::new(now()), key, paused: false };
        asked.push((shard, nodes.ask(0, shard, Command::Submit(vec![job]))));
    }
    nodes.messages.clear();
    nodes.nodes[1].hold_calls = true;
    nodes.pass(Span::from_millis(6_500));
    let heir = NodeId { node: 3, boot: 1 };
    let sent: Vec<_> = nodes.messages.drain(..).collect();
    let mut refused = 0;
    for (from, to, message) in sent {
        if let Message::Forward { id, try_no, shard, .. } = message
            && to == heir
            && asked.contains(&(shard.0, id))
        {
            let answer = Answer::Refused(Refused::Full);
            nodes.deliver((heir, from, Message::Answer { id, answer, try_no }));
            assert_eq!(nodes.heard(0, id), Some(Answer::Refused(Refused::Unknown)));
            refused += 1;
        }
    }
    assert!(refused > 0, "no shard went to the third node");
}

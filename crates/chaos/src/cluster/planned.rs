//! What only the plan can tell: which faults may cost an attempt and whose, which may move a shard,
//! what must be said aloud, and that nothing is delivered twice where there was no fault at all.

use super::{Evidence, Window, broken};
use model::row::HistoryRow;
use model::{Epoch, RunId, ShardId, Span, Status, Token};
use sim::checker::Violation;
use std::collections::BTreeMap;

pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    shards_stay(evidence, &mut found);
    attempts_are_lost_by_deaths(evidence, &mut found);
    promotions_are_alarmed(evidence, &mut found);
    calm_delivers_once(evidence, &mut found);
    found
}

fn shards_stay(evidence: &Evidence, found: &mut Vec<Violation>) {
    for window in evidence.windows.iter().filter(|window| window.kind.moves_nothing()) {
        if window.moved > 0 {
            let detail = format!("{:?}: owners changed {} times", window.kind, window.moved);
            found.push(broken("faults_without_a_death_move_no_shard", detail));
        }
        let moved = window.before.iter().zip(&window.after).filter(|(was, is)| was.1 != is.1);
        let moved: Vec<String> = moved.map(|(was, is)| format!("{was:?} -> {is:?}")).collect();
        if let Some(first) = moved.first() {
            let detail = format!("{:?} moved {} shards: {first}", window.kind, moved.len());
            found.push(broken("faults_without_a_death_move_no_shard", detail));
        }
    }
}

/// Webhooks that a node was calling and that are called again. What pull workers forget is theirs.
pub fn lost(evidence: &Evidence) -> impl Iterator<Item = &HistoryRow> {
    evidence.dump.shards.iter().flat_map(|shard| &shard.history).filter(|row| {
        row.status == Status::Lost && row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http")
    })
}

fn attempts_are_lost_by_deaths(evidence: &Evidence, found: &mut Vec<Violation>) {
    let hurtful: Vec<&Window> =
        evidence.windows.iter().filter(|window| window.kind.loses_attempts()).collect();
    for row in lost(evidence) {
        let started = row.started.unwrap_or(row.finished);
        let mut near = hurtful.iter().filter(|window| {
            started <= window.recovered && row.finished >= window.begin.minus(Span::from_secs(1))
        });
        let excused = near.clone().next().is_some();
        if !excused {
            let during =
                evidence.windows.iter().find(|w| w.begin <= row.finished && started <= w.recovered);
            let kind = during.map(|window| window.kind);
            found.push(broken("attempts_are_lost_by_deaths_only", format!("{kind:?}: {row:?}")));
        } else if !near.any(|window| match super::strict::holder(evidence, row) {
            Some(node) => window.node.is_none_or(|hit| hit == node.node),
            // A node calls the webhooks of its own shards, so whose shard it is says who was calling,
            // if the call is shorter than the way home of a shard.
            None => hit(window, row.run.job.shard()),
        }) {
            let detail = format!("a node that was not hit lost {row:?}");
            found.push(broken("only_the_node_hit_loses_attempts", detail));
        }
    }
}

/// Did the fault hit the owner of this shard?
fn hit(window: &Window, shard: ShardId) -> bool {
    let owned = |owners: &super::Owners| {
        let owner = owners.iter().find(|(known, ..)| *known == shard).and_then(|(_, id, _)| *id);
        owner.map(|id| id.node)
    };
    window.node.is_none_or(|node| {
        owned(&window.before) == Some(node) || owned(&window.after) == Some(node)
    })
}

/// A server that may lack what was acknowledged is noticed before anything is dispatched: epochs jump
/// over all that may be lost, and a person is told.
fn promotions_are_alarmed(evidence: &Evidence, found: &mut Vec<Violation>) {
    let promotions: Vec<&Window> =
        evidence.windows.iter().filter(|window| window.kind.is_promotion()).collect();
    if evidence.alarms < promotions.len() {
        let detail = format!("{} promotions, {} alarms", promotions.len(), evidence.alarms);
        found.push(broken("promotions_are_alarmed", detail));
    }
    for window in promotions {
        let pairs = window.before.iter().zip(&window.after);
        let short: Vec<_> = pairs.filter(|(was, is)| is.2.0 < was.2.0 + Epoch::JUMP / 2).collect();
        if let Some((was, is)) = short.first() {
            let detail = format!("{} epochs did not jump: {was:?} -> {is:?}", short.len());
            found.push(broken("promotions_are_alarmed", detail));
        }
    }
}

/// Where nodes are only stopped and started in order and everybody answers, each run is delivered
/// once.
fn calm_delivers_once(evidence: &Evidence, found: &mut Vec<Violation>) {
    for (run, tokens) in repeated(evidence).into_iter().take(10) {
        let detail = format!("{run} was delivered under {tokens:?}");
        found.push(broken("calm_delivers_once", detail));
    }
}

/// Runs that were delivered more than once in a run without a fault.
pub fn repeated(evidence: &Evidence) -> BTreeMap<RunId, Vec<Token>> {
    let orderly = evidence.windows.iter().all(|window| !window.kind.loses_attempts());
    if !evidence.bulk.calm || !orderly {
        return BTreeMap::new();
    }
    let mut got: Vec<(RunId, Token)> =
        evidence.pages.got.iter().map(|got| (got.run, got.token)).collect();
    got.sort_unstable();
    got.dedup();
    let mut twice: BTreeMap<RunId, Vec<Token>> = BTreeMap::new();
    for pair in got.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let tokens = twice.entry(pair[0].0).or_insert_with(|| vec![pair[0].1]);
        tokens.push(pair[1].1);
    }
    twice
}

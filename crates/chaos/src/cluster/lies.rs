//! Lies told about a run that kept its promises: each must be noticed, or the verdict is worth
//! nothing.

use super::{Evidence, judge};
use model::row::Key;
use model::{Cause, Epoch, JobId, RunId, Slot, Span, Status, Time, Token};
use shard::command::{Answer, Command, Refused, SettleAnswer};
use std::collections::{BTreeMap, BTreeSet};

pub type Lie = fn(&mut Evidence) -> Option<()>;

/// What is changed, and who must notice.
const LIES: [(&str, &str, Lie); 15] = [
    ("an answered submission is gone", "answered_submissions_are_stored", submission_gone),
    ("an occurrence has no verdict", "every_instant_has_one_verdict", verdict_gone),
    ("a webhook came before its time", "nothing_starts_early", early),
    ("a webhook came twice under one token", "one_webhook_per_token", delivered_twice),
    ("a stale settle was recorded", "stale_was_not_recorded", stale_accepted),
    ("a settle that was answered is lost", "settled_ok_is_recorded", settle_gone),
    ("a token was given twice", "no_token_twice", token_twice),
    ("an attempt was lost in calm", "attempts_are_lost_by_deaths_only", lost_in_calm),
    ("a stalled database moved a shard", "faults_without_a_death_move_no_shard", shard_moved),
    ("a shard went away and came back", "faults_without_a_death_move_no_shard", shard_came_back),
    ("a refused submission is stored", "refused_submissions_leave_nothing", refused_and_stored),
    ("a node that was not hit lost an attempt", "only_the_node_hit_loses_attempts", other_lost),
    ("a promotion was not said aloud", "promotions_are_alarmed", no_alarm),
    ("epochs did not jump after a promotion", "promotions_are_alarmed", no_jump),
    ("a calm run delivered twice", "calm_delivers_once", calm_twice),
];

/// True if every lie was noticed by the check that is there for it.
pub fn told(evidence: &Evidence) -> bool {
    let all = match evidence.strict {
        Some(_) => &super::strict_lies::LIES[..],
        None => &LIES[..],
    };
    let mut noticed = 0;
    for (words, invariant, lie) in all {
        let mut told = evidence.clone();
        let found = match lie(&mut told) {
            Some(()) => judge(told).iter().any(|violation| violation.invariant == *invariant),
            None => false,
        };
        noticed += usize::from(found);
        println!("chaos: lie: {words}: {}", if found { "noticed" } else { "NOT noticed" });
    }
    println!("chaos: lies: {noticed} of {} noticed", all.len());
    noticed == all.len()
}

/// The one-offs that clients were told about.
fn answered(evidence: &Evidence) -> BTreeSet<RunId> {
    let told = evidence.pages.ops.iter().filter_map(|op| match (&op.command, &op.heard) {
        (Command::Submit(list), Some((_, Answer::Submitted(_)))) => {
            let new = list.first()?;
            (!new.spec.schedule.is_recurring()).then(|| RunId::new(new.id, Cause::OneOff))
        }
        _ => None,
    });
    told.collect()
}

fn submission_gone(evidence: &mut Evidence) -> Option<()> {
    let run = answered(evidence).pop_last()?;
    for shard in &mut evidence.dump.shards {
        shard.rows.retain(|key, _| *key != Key::Run(run) && *key != Key::Lease(run));
        shard.history.retain(|row| row.run != run);
    }
    evidence.pages.got.retain(|got| got.run != run);
    evidence.pages.said.retain(|said| said.run != run);
    Some(())
}

fn verdict_gone(evidence: &mut Evidence) -> Option<()> {
    let jobs: BTreeSet<_> = evidence.pages.recurring.iter().copied().collect();
    let rows = evidence.dump.shards.iter().flat_map(|shard| &shard.history);
    let run = rows.filter(|row| jobs.contains(&row.run.job) && row.status == Status::Succeeded);
    let run = run.map(|row| row.run).find(|run| matches!(run.cause(), Cause::Occurrence(_)))?;
    for shard in &mut evidence.dump.shards {
        shard.history.retain(|row| row.run != run);
    }
    evidence.pages.got.retain(|got| got.run != run);
    evidence.pages.said.retain(|said| said.run != run);
    Some(())
}

fn early(evidence: &mut Evidence) -> Option<()> {
    let mut got = evidence.pages.got.iter_mut();
    let got = got.find(|got| matches!(got.run.cause(), Cause::Occurrence(_)))?;
    got.at = got.nominal?.minus(Span::from_millis(1));
    Some(())
}

fn delivered_twice(evidence: &mut Evidence) -> Option<()> {
    let got = evidence.pages.got.iter().find(|got| got.worker.is_none())?.clone();
    evidence.pages.got.push(got);
    Some(())
}

fn stale_accepted(evidence: &mut Evidence) -> Option<()> {
    let ok =
        |heard: &Option<(_, SettleAnswer)>| matches!(heard, Some((_, SettleAnswer::Ok { .. })));
    let said = evidence.pages.said.iter_mut().find(|said| ok(&said.heard))?;
    said.heard = said.heard.map(|(at, _)| (at, SettleAnswer::Stale));
    Some(())
}

fn settle_gone(evidence: &mut Evidence) -> Option<()> {
    let mut ok = evidence.pages.said.iter().rev().filter_map(|said| match said.heard {
        Some((_, SettleAnswer::Ok { .. })) => Some((said.run, said.token)),
        _ => None,
    });
    let (run, token) = ok.next()?;
    for row in evidence.dump.shards.iter_mut().flat_map(|shard| &mut shard.history) {
        if (row.run, row.token) == (run, token) {
            row.status = Status::Lost;
        }
    }
    Some(())
}

fn token_twice(evidence: &mut Evidence) -> Option<()> {
    for shard in &mut evidence.dump.shards {
        let mut tokens = shard.history.iter().filter(|row| row.attempt > 0);
        let Some((first, run)) = tokens.next().map(|row| (row.token, row.run)) else { continue };
        if let Some(row) = shard.history.iter_mut().find(|row| row.attempt > 0 && row.run != run) {
            row.token = first;
            return Some(());
        }
    }
    None
}

/// Before the first fault there was calm.
fn lost_in_calm(evidence: &mut Evidence) -> Option<()> {
    let calm = evidence.windows.first().map_or(evidence.healed_at, |window| window.begin);
    let calm = calm.minus(Span::from_secs(1));
    let row = evidence.dump.shards.iter_mut().flat_map(|shard| &mut shard.history).find(|row| {
        row.attempt > 0
            && row.finished < calm
            && row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http")
    })?;
    row.status = Status::Lost;
    Some(())
}

fn shard_moved(evidence: &mut Evidence) -> Option<()> {
    let window = evidence.windows.iter_mut().find(|window| window.kind.moves_nothing())?;
    let shard = window.after.first_mut()?;
    shard.1 = None;
    Some(())
}

fn shard_came_back(evidence: &mut Evidence) -> Option<()> {
    let window = evidence.windows.iter_mut().find(|window| window.kind.moves_nothing())?;
    window.moved = 1;
    Some(())
}

fn refused_and_stored(evidence: &mut Evidence) -> Option<()> {
    let delivered: BTreeSet<_> = evidence.pages.got.iter().map(|got| got.run.job).collect();
    // Of a job that was sent once, so that nobody else may have made it.
    let op = evidence.pages.ops.iter_mut().find(|op| match (&op.command, &op.heard) {
        (Command::Submit(list), Some((_, Answer::Submitted(_)))) => list
            .first()
            .is_some_and(|new| list.len() == 1 && new.key.is_none() && delivered.contains(&new.id)),
        _ => false,
    })?;
    op.heard = op.heard.as_ref().map(|(at, _)| (*at, Answer::Refused(Refused::TooLate)));
    // Who is refused hears of no id: the job is found by its payload.
    if let Command::Submit(list) = &mut op.command {
        let new = list.first_mut()?;
        let slot = Slot::of(new.spec.namespace, &new.spec.queue, 0);
        new.id = JobId::mint(Time::MIN, slot, 1);
    }
    Some(())
}

/// The attempt of another node's shard is lost in the middle of a fault that hit one node alone.
fn other_lost(evidence: &mut Evidence) -> Option<()> {
    let windows = evidence.windows.clone();
    let alone: Vec<_> = windows
        .iter()
        .filter(|window| window.kind.loses_attempts() && window.node.is_some())
        .collect();
    let history = evidence.dump.shards.iter_mut().flat_map(|shard| &mut shard.history);
    for row in history.filter(|row| row.attempt > 0) {
        let webhook = row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http");
        let shard = row.run.job.shard();
        let of = |owners: &super::Owners| {
            let owner =
                owners.iter().find(|(known, ..)| *known == shard).and_then(|(_, id, _)| *id);
            owner.map(|id| id.node)
        };
        let during = alone.iter().any(|window| {
            let begun = row.started.unwrap_or(row.finished);
            let within = begun >= window.begin && row.finished <= window.end;
            within && of(&window.before) != window.node && of(&window.after) != window.node
        });
        if webhook && during {
            row.status = Status::Lost;
            return Some(());
        }
    }
    None
}

fn no_alarm(evidence: &mut Evidence) -> Option<()> {
    evidence.windows.iter().find(|window| window.kind.is_promotion())?;
    evidence.alarms = 0;
    Some(())
}

fn no_jump(evidence: &mut Evidence) -> Option<()> {
    let window = evidence.windows.iter_mut().find(|window| window.kind.is_promotion())?;
    let (before, after) = (window.before.first()?.2, window.after.first_mut()?);
    after.2 = Epoch(before.0 + 1);
    Some(())
}

/// The same history, told of a run in which there was no fault.
fn calm_twice(evidence: &mut Evidence) -> Option<()> {
    evidence.windows.clear();
    evidence.bulk.calm = true;
    let mut deliveries: BTreeMap<RunId, usize> = BTreeMap::new();
    for got in &evidence.pages.got {
        *deliveries.entry(got.run).or_default() += 1;
    }
    evidence.pages.got.retain(|got| deliveries.get(&got.run) == Some(&1));
    let mut got = evidence.pages.got.first()?.clone();
    got.token = Token(got.token.0 + 1);
    got.attempt += 1;
    evidence.pages.got.push(got);
    Some(())
}

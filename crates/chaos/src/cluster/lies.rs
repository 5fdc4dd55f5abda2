//! Lies told about a run that kept its promises: each must be noticed, or the verdict is worth
//! nothing.

use super::{Evidence, judge};
use model::row::Key;
use model::{Cause, RunId, Span, Status};
use shard::command::{Answer, Command, SettleAnswer};
use std::collections::BTreeSet;

type Lie = fn(&mut Evidence) -> Option<()>;

/// What is changed, and who must notice.
const LIES: [(&str, &str, Lie); 9] = [
    ("an answered submission is gone", "answered_submissions_are_stored", submission_gone),
    ("an occurrence has no verdict", "every_instant_has_one_verdict", verdict_gone),
    ("a webhook came before its time", "nothing_starts_early", early),
    ("a webhook came twice under one token", "one_webhook_per_token", delivered_twice),
    ("a stale settle was recorded", "stale_was_not_recorded", stale_accepted),
    ("a settle that was answered is lost", "settled_ok_is_recorded", settle_gone),
    ("a token was given twice", "no_token_twice", token_twice),
    ("an attempt was lost in calm", "attempts_are_lost_by_deaths_only", lost_in_calm),
    ("a stalled database moved a shard", "faults_without_a_death_move_no_shard", shard_moved),
];

/// True if every lie was noticed by the check that is there for it.
pub fn told(evidence: &Evidence) -> bool {
    let mut noticed = 0;
    for (words, invariant, lie) in LIES {
        let mut told = evidence.clone();
        let found = match lie(&mut told) {
            Some(()) => judge(told).iter().any(|violation| violation.invariant == invariant),
            None => false,
        };
        noticed += usize::from(found);
        println!("chaos: lie: {words}: {}", if found { "noticed" } else { "NOT noticed" });
    }
    println!("chaos: lies: {noticed} of {} noticed", LIES.len());
    noticed == LIES.len()
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

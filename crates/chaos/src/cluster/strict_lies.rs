//! Lies about a run that kept its limits; each must be noticed.

use super::lies::Lie;
use super::{Evidence, strict::Strict};
use crate::book::Execution;
use model::{RunId, Span, Time, Token};
use std::collections::BTreeSet;

/// What is changed, and who must notice.
pub const LIES: [(&str, &str, Lie); 6] = [
    ("a lease more than the limit was given", "limits_hold_by_leases", lease_more),
    ("two webhooks ran where one may", "limits_hold_at_work", |told| two_at_once(told, true)),
    ("two workers ran where one may", "limits_hold_at_work", |told| two_at_once(told, false)),
    ("eight of a group ran where seven may", "limits_hold_at_work", eight_of_a_group),
    ("a node that lived lost an attempt", "no_lease_is_taken_from_a_living_node", no_lapse),
    ("somebody ran without a lease", "every_execution_has_a_lease", no_lease),
];

fn lease_more(told: &mut Evidence) -> Option<()> {
    let strict = told.strict.as_mut()?;
    let one =
        strict.queues.iter().find(|limited| limited.most == 1 && limited.groups.is_empty())?;
    let given = strict.watched.given.iter_mut().find(|given| given.queue == one.queue)?;
    given.of_queue = 2;
    Some(())
}

/// Places among the executions, of these queues, in the order in which they began.
fn of(
    strict: &Strict,
    executions: &[Execution],
    wanted: impl Fn(&crate::limited::Limited) -> bool,
) -> Vec<(Time, usize)> {
    let Some(queue) = strict.queues.iter().find(|limited| wanted(limited)) else {
        return Vec::new();
    };
    let runs: BTreeSet<(RunId, Token)> = strict
        .watched
        .given
        .iter()
        .filter(|given| given.queue == queue.queue)
        .map(|given| (given.run, given.token))
        .collect();
    let of = executions.iter().enumerate();
    let of = of.filter(|(_, one)| one.end.is_some() && runs.contains(&(one.run, one.token)));
    let mut places: Vec<(Time, usize)> = of.map(|(place, one)| (one.begin, place)).collect();
    places.sort_unstable();
    places
}

/// One goes on until the next has begun.
fn two_at_once(told: &mut Evidence, webhook: bool) -> Option<()> {
    let strict = told.strict.as_ref()?;
    let places = of(strict, &told.pages.executions, |limited| {
        limited.most == 1 && limited.groups.is_empty() && limited.webhook == webhook
    });
    // Of one whose lease ended with its node only the time before that counts.
    let lost: BTreeSet<(RunId, Token)> =
        super::planned::lost(told).map(|row| (row.run, row.token)).collect();
    let counts = |place: usize| {
        let one = told.pages.executions.get(place);
        one.is_some_and(|one| !lost.contains(&(one.run, one.token)))
    };
    let pair = places.windows(2).find(|pair| counts(pair[0].1) && counts(pair[1].1))?;
    let begin = told.pages.executions.get(pair[1].1)?.begin;
    told.pages.executions.get_mut(pair[0].1)?.end = Some(begin.plus(Span::from_micros(1)));
    Some(())
}

fn eight_of_a_group(told: &mut Evidence) -> Option<()> {
    let strict = told.strict.as_ref()?;
    let places = of(strict, &told.pages.executions, |limited| {
        limited.most == 7 && !limited.groups.is_empty()
    });
    let one = *told.pages.executions.get(places.first()?.1)?;
    told.pages.executions.extend([one; 7]);
    Some(())
}

fn no_lapse(told: &mut Evidence) -> Option<()> {
    let lost: Vec<(RunId, Token)> =
        super::planned::lost(told).map(|row| (row.run, row.token)).collect();
    let watched = &mut told.strict.as_mut()?.watched;
    let ended = watched.ended.iter_mut().find(|row| lost.contains(&(row.run, row.token)))?;
    ended.expires = Some(ended.at.plus(Span::from_micros(1)));
    watched.lapses.clear();
    Some(())
}

fn no_lease(told: &mut Evidence) -> Option<()> {
    let one = told.pages.executions.first()?;
    let attempt = (one.run, one.token);
    let given = &mut told.strict.as_mut()?.watched.given;
    given.retain(|given| (given.run, given.token) != attempt);
    Some(())
}

//! Claims and heartbeats: what a holder is told about what it holds.

use super::Report;
use super::settles::ended_by_owner;
use super::view::View;
use crate::log::Start;
use model::row::Holder;
use model::{RunId, ShardId, Time, Token};
use std::collections::BTreeMap;

/// **Rule.** A claim that is asked again gets the leases it got before; it gets new ones only when
/// none of those holds any more.
///
/// **Why.** A worker asks again because the answer was lost on the way.
/// **Without it** the leases of the lost answer are nobody's until they are rescued, and a worker
/// on a bad line takes more than it can do.
///
/// Tokens from before a lost tail are forgiven.
pub(super) fn repeated_claims_get_the_same_leases(view: &View<'_>, report: &mut Report) {
    let mut requests: BTreeMap<(&Holder, u64, ShardId), Vec<&Start>> = BTreeMap::new();
    for start in &view.log.starts {
        if !view.loss.forgives_token(start.run, start.token) {
            let key = (&start.holder, start.request, start.run.job.shard());
            requests.entry(key).or_default().push(start);
        }
    }
    for ((holder, request, _), mut starts) in requests {
        starts.sort_by_key(|start| start.at);
        // Until when leases of decisions before this one certainly held, and when they were made and heard of.
        let mut held: Option<(Time, Time, Time)> = None;
        for start in starts {
            let Some((decided, end)) = held_between(view, start.run, start.token) else { continue };
            // What is heard at the same moment is one answer, which may be put together from several decisions.
            if let Some((_, until, _)) = held.filter(|(first, until, heard)| {
                decided > *first && start.at < *until && start.at > *heard
            }) {
                let run = start.run;
                report.add(format!(
                    "{holder:?} request {request} got {run} while it held others until {until:?}"
                ));
            }
            held = match held {
                Some((first, until, heard)) => Some((first.min(decided), until.max(end), heard)),
                None => Some((decided, end, start.at)),
            };
        }
    }
}

/// When a lease was recorded as given, and the earliest time at which it can have ended.
fn held_between(view: &View<'_>, run: RunId, token: Token) -> Option<(Time, Time)> {
    if let Some(lease) = view.leases.get(&run).filter(|lease| lease.token == token) {
        return Some((lease.started, Time::MAX));
    }
    let row = view.attempt(run, token)?;
    let settles = view.settles.get(&(run, token)).map(Vec::as_slice).unwrap_or_default();
    let reported = settles.iter().map(|settle| settle.sent).min();
    let reported = reported.filter(|_| !ended_by_owner(row)).unwrap_or(Time::MIN);
    Some((row.started?, row.finished.max(reported)))
}

/// **Rule.** A heartbeat is not answered "ok" after a later attempt of the run has begun.
///
/// **Why.** "Ok" tells a holder to go on. An owner that may have been replaced must not say it: it
/// trusts its own lease for less time than the store does.
/// **Without it** two honest workers work on one run, and neither is told.
///
/// Tokens from before a lost tail are forgiven.
pub(super) fn replaced_holders_are_told(view: &View<'_>, report: &mut Report) {
    for (sent, beat) in &view.log.beats {
        if view.loss.forgives_token(beat.run, beat.token) {
            continue;
        }
        let starts = view.starts.get(&beat.run).map(Vec::as_slice).unwrap_or_default();
        let later = starts.iter().find(|start| start.token > beat.token && start.at < *sent);
        if let Some(later) = later {
            let (run, token) = (beat.run, beat.token);
            report.add(format!("{run} {token:?} was told to go on at {sent:?} after {later:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, RunId};
    use shard::command::Beat;

    fn run(number: u64) -> RunId {
        RunId::new(job_id(number), Cause::OneOff)
    }

    #[test]
    fn a_repeated_claim_that_got_more_is_found() {
        const NAME: &str = "repeated_claims_get_the_same_leases";
        let mut world = World::new();
        for number in [1, 2] {
            world.start(run(number), number as u16, |start| start.at = at(111));
            world.attempt(run(number), number as u16, |row| {
                (row.started, row.finished) = (Some(at(110)), at(120));
            });
        }
        assert!(!world.broken(NAME), "one claim, two leases");
        world.shard().history[1].started = Some(at(112));
        world.log.starts[1].at = at(113);
        assert!(world.broken(NAME), "decided again while the first one held");
        world.log.starts[1].at = at(121);
        assert!(!world.broken(NAME), "the first one was over");
        world.settle(run(1), 1, succeeded(), None);
        assert!(world.broken(NAME), "it reported only at 200");
        world.log.starts[1].request = 2;
        assert!(!world.broken(NAME), "another request");
    }

    #[test]
    fn a_replaced_holder_that_was_told_to_go_on_is_found() {
        const NAME: &str = "replaced_holders_are_told";
        let mut world = World::new();
        world.start(run(1), 1, |start| start.at = at(100));
        world.start(run(1), 2, |start| start.at = at(200));
        let beat = Beat { run: run(1), token: token(1), checkpoint: None };
        world.log.beats.push((at(199), beat));
        assert!(!world.broken(NAME));
        world.log.beats[0].0 = at(201);
        assert!(world.broken(NAME));
        world.log.tail_lost.push(at(500));
        assert!(!world.broken(NAME));
    }
}

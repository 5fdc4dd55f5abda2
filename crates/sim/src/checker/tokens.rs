//! Tokens: each is given once, to one attempt, and they grow.

use super::Report;
use super::view::View;
use model::{RunId, ShardId, Token};
use std::collections::BTreeMap;

/// Every attempt that anybody saw: the run, its number and its token.
fn seen<'a>(view: &'a View<'_>) -> impl Iterator<Item = (RunId, u16, Token)> + 'a {
    let ended = view.history.values().flatten();
    let ended = ended.filter(|row| row.token != Token::NONE);
    let ended = ended.map(|row| (row.run, row.attempt, row.token));
    let leased = view.leases.values().map(|row| (row.run, row.attempt, row.token));
    let started = view.log.starts.iter().map(|start| (start.run, start.attempt, start.token));
    ended.chain(leased).chain(started)
}

/// **Rule.** A token of a shard belongs to one attempt of one run, for ever.
///
/// **Why.** Users fence their own writes with it; it is the one thing that must survive even a
/// store that forgot what it acknowledged. A lost tail forgives nothing here: epochs jump.
/// **Without it** a zombie's token is valid again, and its write lands over the new holder's.
pub(super) fn no_token_twice(view: &View<'_>, report: &mut Report) {
    let mut owners: BTreeMap<(ShardId, Token), (RunId, u16)> = BTreeMap::new();
    for (run, attempt, token) in seen(view) {
        let first = owners.entry((run.job.shard(), token)).or_insert((run, attempt));
        if *first != (run, attempt) {
            let (other, number) = *first;
            report.add(format!("{token:?}: {other} attempt {number}, {run} attempt {attempt}"));
        }
    }
}

/// **Rule.** A later attempt of a run has the larger token and the larger number.
///
/// **Why.** `WHERE fence < $token` keeps out the past only if the future is larger.
/// **Without it** the new holder's writes are refused and the zombie's accepted.
///
/// Starts that a lost tail may have swallowed are left out: their numbers are given again.
pub(super) fn tokens_and_attempts_grow(view: &View<'_>, report: &mut Report) {
    let mut attempts: BTreeMap<RunId, BTreeMap<u16, Token>> = BTreeMap::new();
    for (run, attempt, token) in seen(view) {
        let stored = view.attempt(run, token).is_some()
            || view.leases.get(&run).is_some_and(|lease| lease.token == token);
        if stored || !view.loss.forgives_token(run, token) {
            let known = attempts.entry(run).or_default().entry(attempt).or_insert(token);
            if *known != token {
                report.add(format!("{run} attempt {attempt} has {known:?} and {token:?}"));
            }
        }
    }
    for (run, tokens) in attempts {
        let tokens: Vec<(u16, Token)> = tokens.into_iter().collect();
        for pair in tokens.windows(2).filter(|pair| pair[0].1 >= pair[1].1) {
            report.add(format!("{run}: tokens do not grow: {pair:?}"));
        }
    }
}

/// **Rule.** If an attempt was started twice under one token, it was the same holder's, for the
/// same request: a claim that was answered again.
///
/// **Why.** At most one holder has a valid token.
/// **Without it** two workers believe that the run is theirs.
pub(super) fn one_holder_per_token(view: &View<'_>, report: &mut Report) {
    for (run, starts) in &view.starts {
        for pair in starts.windows(2).filter(|pair| pair[0].token == pair[1].token) {
            let who = |n: usize| (&pair[n].holder, pair[n].request);
            if who(0) != who(1) {
                report.add(format!("{run} {:?}: {:?} and {:?}", pair[0].token, who(0), who(1)));
            }
        }
        for start in starts {
            if let Some(lease) = view.leases.get(run).filter(|lease| lease.token == start.token)
                && (&lease.holder, lease.request) != (&start.holder, start.request)
            {
                report.add(format!("{run} {:?}: leased to {:?}", start.token, lease.holder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::{Cause, RunId};

    fn run(number: u64) -> RunId {
        RunId::new(job_id(number), Cause::OneOff)
    }

    #[test]
    fn a_token_given_twice_is_found_whoever_saw_it_also_after_a_lost_tail() {
        let mut world = World::new();
        world.log.tail_lost.push(at(1_000));
        world.attempt(run(1), 1, |_| {});
        world.start(run(2), 1, |start| start.token = token(2));
        assert!(!world.broken("no_token_twice"));
        world.start(run(3), 1, |start| start.token = token(1));
        assert!(world.broken("no_token_twice"));
    }

    #[test]
    fn tokens_must_grow_with_attempts() {
        let mut world = World::new();
        world.attempt(run(1), 1, |row| row.token = token(5));
        world.attempt(run(1), 2, |row| row.token = token(6));
        assert!(!world.broken("tokens_and_attempts_grow"));
        world.shard().history[1].token = token(4);
        assert!(world.broken("tokens_and_attempts_grow"));
    }

    #[test]
    fn an_attempt_number_given_twice_is_found_unless_a_tail_was_lost() {
        let mut world = World::new();
        world.start(run(1), 1, |start| start.token = token(5));
        world.attempt(run(1), 1, |row| row.token = token(6));
        assert!(world.broken("tokens_and_attempts_grow"));
        world.log.tail_lost.push(at(1_000));
        assert!(!world.broken("tokens_and_attempts_grow"));
    }

    #[test]
    fn two_holders_of_one_token_are_found() {
        let mut world = World::new();
        world.start(run(1), 1, |_| {});
        world.start(run(1), 1, |_| {});
        assert!(!world.broken("one_holder_per_token"));
        world.start(run(1), 1, |start| start.request = 99);
        assert!(world.broken("one_holder_per_token"));
    }
}

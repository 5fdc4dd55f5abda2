//! The life of a run, in one table. Every verb asks it before it moves a run; the drawing in
//! docs/state_machine.md is made from it by a test.

use model::RunState::{self, *};

/// What moves a run from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    Fire,
    Claim,
    Succeed,
    Fail,
    Exhaust,
    Lose,
    Release,
    Snooze,
    Cancel,
    Unblock,
    Replay,
    Discard,
    Expire,
}

/// (from, move, to). What is not here cannot happen.
pub const TABLE: &[(RunState, Move, RunState)] = &[
    (Scheduled, Move::Fire, Ready),
    (Scheduled, Move::Claim, Running),
    (Scheduled, Move::Cancel, Cancelled),
    (Blocked, Move::Unblock, Ready),
    (Blocked, Move::Cancel, Cancelled),
    (Ready, Move::Claim, Running),
    (Ready, Move::Cancel, Cancelled),
    (Running, Move::Succeed, Succeeded),
    (Running, Move::Fail, Retrying),
    (Running, Move::Exhaust, Dead),
    (Running, Move::Lose, Ready),
    (Running, Move::Lose, Retrying),
    (Running, Move::Release, Ready),
    (Running, Move::Snooze, Retrying),
    (Running, Move::Cancel, Cancelled),
    (Retrying, Move::Fire, Ready),
    (Retrying, Move::Claim, Running),
    (Retrying, Move::Cancel, Cancelled),
    (Scheduled, Move::Expire, Expired),
    (Ready, Move::Expire, Expired),
    (Running, Move::Expire, Expired),
    (Retrying, Move::Expire, Expired),
    (Dead, Move::Replay, Ready),
    (Dead, Move::Discard, Failed),
    (Dead, Move::Cancel, Cancelled),
];

/// May a run go from `from` to `to` by this move?
pub fn allowed(from: RunState, by: Move, to: RunState) -> bool {
    TABLE.contains(&(from, by, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_run_stays_finished() {
        for (from, by, _) in TABLE {
            assert!(!from.is_final(), "{from:?} is final but {by:?} leaves it");
        }
    }

    #[test]
    fn every_state_is_reached_and_every_unfinished_one_can_end() {
        for state in RunState::ALL {
            if matches!(state, Scheduled | Blocked) {
                continue;
            }
            assert!(TABLE.iter().any(|(_, _, to)| *to == state), "{state:?} is never reached");
        }
        for state in RunState::ALL.into_iter().filter(|s| !s.is_final()) {
            let mut reach = vec![state];
            let mut at = 0;
            while at < reach.len() {
                for (from, _, to) in TABLE {
                    if *from == reach[at] && !reach.contains(to) {
                        reach.push(*to);
                    }
                }
                at += 1;
            }
            assert!(reach.iter().any(|s| s.is_final()), "{state:?} can never end");
        }
    }
}

//! Answers to settles, remembered for a while: the same settle twice gets the same answer without
//! a read. Older ones are found in the history.

use crate::command::SettleAnswer;
use crate::limits::RECENT_MAX;
use model::{RunId, Token};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub struct Recent {
    answers: BTreeMap<(RunId, Token), SettleAnswer>,
    order: VecDeque<(RunId, Token)>,
}

impl Recent {
    pub fn put(&mut self, run: RunId, token: Token, answer: SettleAnswer) {
        if self.order.len() >= RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.order.push_back((run, token));
        self.answers.insert((run, token), answer);
    }

    pub fn get(&self, run: RunId, token: Token) -> Option<SettleAnswer> {
        self.answers.get(&(run, token)).copied()
    }
}

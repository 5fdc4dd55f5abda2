//! Which attempts a finished run had, for stores that cannot search their history by run: the tokens
//! of recent runs. An index over rows, never truth. After a restart, or past the bound, a finished
//! occurrence still tells how it ended (`Read::Outcomes`), without its attempts.

use crate::limits::FINISHED_MAX;
use model::row::{Commit, Key};
use model::{RunId, Token};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub struct Finished {
    tokens: BTreeMap<RunId, Vec<Token>>,
    order: VecDeque<RunId>,
}

impl Finished {
    pub fn commits(&mut self, commits: &[Commit]) {
        for change in commits.iter().flat_map(|commit| commit.changes.iter()) {
            if let (Key::History(run, token), Some(_)) = (&change.key, &change.row) {
                self.note(*run, *token);
            }
        }
    }

    fn note(&mut self, run: RunId, token: Token) {
        if !self.tokens.contains_key(&run) {
            if self.order.len() >= FINISHED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.tokens.remove(&oldest);
            }
            self.order.push_back(run);
        }
        let tokens = self.tokens.entry(run).or_default();
        // A commit that is sent again names the same attempt again.
        if !tokens.contains(&token) && tokens.len() < usize::from(shard::limits::ATTEMPTS_MAX) {
            tokens.push(token);
        }
    }

    pub fn tokens(&self, run: RunId) -> Vec<Token> {
        self.tokens.get(&run).cloned().unwrap_or_default()
    }
}

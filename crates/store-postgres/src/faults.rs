//! Why calls failed, in words, until somebody logs it: the same words once, with how often. What
//! does not fit is counted, so that a database that is away for an hour fills no memory.

use crate::limits::FAULTS_MAX;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    last: Option<String>,
    waiting: Vec<(String, u64)>,
    others: u64,
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, words: String) {
        let mut noted = self.lock();
        noted.last = Some(words.clone());
        if let Some((_, times)) = noted.waiting.iter_mut().find(|(other, _)| *other == words) {
            *times += 1;
        } else if noted.waiting.len() < FAULTS_MAX {
            noted.waiting.push((words, 1));
        } else {
            noted.others += 1;
        }
    }

    pub fn last(&self) -> Option<String> {
        self.lock().last.clone()
    }

    /// A line for each, since the last time this was asked.
    pub fn take(&self) -> Vec<String> {
        let mut noted = self.lock();
        let line = |(words, times)| match times {
            1 => words,
            times => format!("{words} ({times} times)"),
        };
        let mut lines: Vec<String> = noted.waiting.drain(..).map(line).collect();
        match std::mem::take(&mut noted.others) {
            0 => {}
            others => lines.push(format!("{others} other faults")),
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_one_line_and_what_does_not_fit_is_counted() {
        let faults = Faults::default();
        assert_eq!((faults.take(), faults.last()), (vec![], None));
        for words in ["away", "full", "away"] {
            faults.note(words.into());
        }
        assert_eq!(faults.take(), ["away (2 times)", "full"]);
        assert_eq!(faults.last().as_deref(), Some("away"), "for whoever asks for it");
        assert_eq!(faults.take(), Vec::<String>::new(), "each is said once");
        (0..FAULTS_MAX + 3).for_each(|n| faults.note(n.to_string()));
        let lines = faults.take();
        assert_eq!(lines.len(), FAULTS_MAX + 1);
        assert_eq!(lines.last().map(String::as_str), Some("3 other faults"));
    }
}

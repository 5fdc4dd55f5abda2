//! The end of history: a thread removes what is too old, in slices that are short enough for the
//! hot path not to notice, with a pause after each. A pass begins at the oldest row and ends at the
//! first that is young enough.

use crate::limits::{PRUNE_AGAIN, PRUNE_LOOK, PRUNE_PAUSE, PRUNE_SLICE};
use crate::{NodeHandle, tasks};
use model::Span;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::search::Prune;

/// How long what happened is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub history: Span,
    /// Attempts that did not succeed: somebody will ask for them.
    pub failures: Span,
    /// When all that is stored takes more than this, the oldest history goes, however young.
    pub bytes: Option<u64>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            history: Span::from_secs(30 * 86_400),
            failures: Span::from_secs(90 * 86_400),
            bytes: None,
        }
    }
}

impl NodeHandle {
    /// Keeps history short for the life of the process.
    pub fn keep_history(&self, retention: Retention) {
        let node = self.clone();
        self.shared.kept.store(retention.history.micros(), Ordering::Relaxed);
        let mut after = 0;
        // Short times to keep are kept shortly: nothing stays a tenth longer than it was asked to.
        let tenth = Duration::from_micros(retention.history.micros().unsigned_abs() / 10);
        let again = tenth.clamp(PRUNE_PAUSE, PRUNE_AGAIN);
        tasks::every_now_and_then("retention", move || {
            // One node of a cluster does it for all.
            if !node.is_mine("retention") {
                return again.min(PRUNE_LOOK);
            }
            let now = node.now();
            let too_much = retention
                .bytes
                .is_some_and(|most| node.store.used_bytes().is_ok_and(|used| used > most));
            let (before, failures_before) = match too_much {
                true => (now, now),
                false => {
                    let failures = retention.failures.max(retention.history);
                    (now.minus(retention.history), now.minus(failures))
                }
            };
            // What is too much begins with the oldest, wherever the last slice ended.
            let after_this = if too_much { 0 } else { after };
            let prune = Prune { before, failures_before, after: after_this, limit: PRUNE_SLICE };
            // A store that does not answer is asked again later; old rows do no harm.
            let next = node.store.prune(&prune).ok().and_then(|pruned| pruned.next);
            after = next.unwrap_or(0);
            if too_much || next.is_some() { PRUNE_PAUSE } else { again }
        });
    }
}

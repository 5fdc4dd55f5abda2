//! The end of history: a thread removes what is too old, in slices that are short enough for the
//! hot path not to notice, with a pause after each. A pass begins at the oldest row and ends at the
//! first that is young enough.

use crate::limits::{PRUNE_AGAIN, PRUNE_PAUSE, PRUNE_SLICE};
use crate::{NodeHandle, tasks};
use model::Span;
use store::search::Prune;

/// How long what happened is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub history: Span,
    /// Attempts that did not succeed: somebody will ask for them.
    pub failures: Span,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { history: Span::from_secs(30 * 86_400), failures: Span::from_secs(90 * 86_400) }
    }
}

impl NodeHandle {
    /// Keeps history short for the life of the process.
    pub fn keep_history(&self, retention: Retention) {
        let node = self.clone();
        let mut after = 0;
        tasks::every_now_and_then("retention", move || {
            let now = node.now();
            let prune = Prune {
                before: now.minus(retention.history),
                failures_before: now.minus(retention.failures.max(retention.history)),
                after,
                limit: PRUNE_SLICE,
            };
            // A store that does not answer is asked again later; old rows do no harm.
            let next = node.store.prune(&prune).ok().and_then(|pruned| pruned.next);
            after = next.unwrap_or(0);
            if next.is_some() { PRUNE_PAUSE } else { PRUNE_AGAIN }
        });
    }
}

//! The task that follows one source for the life of the process.

use super::deliver::{Round, deliver};
use super::{Source, State};
use crate::Api;
use crate::limits::{
    OUTBOX_BACKOFF_FIRST, OUTBOX_BACKOFF_LAST, OUTBOX_BLOCKED_MAX, OUTBOX_BUSY_PAUSE, OUTBOX_BYTES,
    OUTBOX_ERROR_AGAIN, OUTBOX_LOOK_EVERY, OUTBOX_PAUSE, OUTBOX_ROWS,
};
use crate::quota::Submitter;
use crate::tenant::{Caller, Tenant};
use model::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::outbox::{Ask, Page, Settle};

/// Ends when the process does.
pub async fn follow(api: Arc<Api>, source: Source, state: Arc<State>) {
    let mut reader = Reader { api, source, state, blocked: BTreeMap::new(), failures: 0 };
    let what = format!("outbox/{}", reader.source.name);
    reader.api.node.ready().await;
    loop {
        let mine = reader.api.node.is_mine(&what);
        reader.state.seen().reading = mine;
        let pause = match mine {
            true => reader.round().await,
            false => OUTBOX_PAUSE,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = reader.api.node.events().closed() => return,
        }
    }
}

struct Reader {
    api: Arc<Api>,
    source: Source,
    state: Arc<State>,
    /// Queues whose shard did not take a row, until when they are left alone, and how often in a row.
    blocked: BTreeMap<String, (Time, u32)>,
    /// Of the source's database, in a row.
    failures: u32,
}

impl Reader {
    /// One page. Says how long to wait before the next.
    async fn round(&mut self) -> Duration {
        match self.try_round().await {
            Ok(pause) => {
                if self.failures > 0 {
                    tracing::info!(outbox = self.source.name, "the outbox is read again");
                }
                self.failures = 0;
                pause
            }
            Err(why) => {
                self.failures = self.failures.saturating_add(1);
                self.note(&why);
                backoff(self.failures)
            }
        }
    }

    async fn try_round(&mut self) -> Result<Duration, String> {
        let now = self.api.node.now();
        self.look(now)?;
        let without: Vec<String> = self
            .blocked
            .iter()
            .filter(|(_, (until, _))| *until > now)
            .map(|(queue, _)| queue.clone())
            .collect();
        let ask = Ask { without, rows: OUTBOX_ROWS, bytes: OUTBOX_BYTES };
        let page = self.source.outbox.page(&ask)?;
        if page.rows.is_empty() {
            return Ok(OUTBOX_PAUSE);
        }
        let namespace = self.api.namespaces.find_or_make(&self.source.namespace).await;
        let namespace = namespace.map_err(|_| "duly's own store does not answer".to_string())?;
        let submitter = Submitter {
            tenant: Tenant(namespace),
            name: self.source.namespace.as_str().into(),
            caller: Caller::default(),
        };
        let round = deliver(&self.api, &submitter, &self.source.name, &page.rows, now).await;
        self.settle(&page, &round, now)?;
        self.block(&round);
        if let Some(why) = &round.over_quota {
            self.note(why);
            return Ok(OUTBOX_PAUSE);
        }
        Ok(match (round.delivered.is_empty() && round.refused.is_empty(), page.more) {
            (true, _) => OUTBOX_PAUSE,
            (false, true) => Duration::ZERO,
            (false, false) => OUTBOX_BUSY_PAUSE,
        })
    }

    /// How much is there, now and then.
    fn look(&self, now: Time) -> Result<(), String> {
        let last = self.state.seen().looked_at;
        if last.is_some_and(|last| now.since(last) < OUTBOX_LOOK_EVERY) {
            return Ok(());
        }
        let look = self.source.outbox.look()?;
        let mut seen = self.state.seen();
        (seen.look, seen.looked_at) = (Some(look), Some(now));
        Ok(())
    }

    fn settle(&self, page: &Page, round: &Round, began: Time) -> Result<(), String> {
        if round.delivered.is_empty() && round.refused.is_empty() {
            return Ok(());
        }
        for one in &round.refused {
            tracing::warn!(
                outbox = self.source.name,
                id = one.id,
                problem = one.problem,
                "a job of the outbox was refused and moved aside"
            );
        }
        let settle = Settle { delivered: round.delivered.clone(), refused: round.refused.clone() };
        let settled = self.source.outbox.settle(&settle)?;
        let now = self.api.node.now();
        self.state.delivered.add(settled.delivered);
        self.state.refused.add(settled.refused);
        let took = now.since(began).micros().max(0);
        for row in page.rows.iter().filter(|row| round.delivered.contains(&row.id)) {
            self.state.latency.observe(Span::from_micros(row.age.micros().saturating_add(took)));
        }
        let mut seen = self.state.seen();
        seen.delivered_at = Some(now).filter(|_| settled.delivered > 0).or(seen.delivered_at);
        if settled.refused > 0 {
            // Somebody may wait to see it.
            seen.looked_at = None;
        }
        Ok(())
    }

    /// Leaves queues alone for a while whose rows were not taken; the others go on.
    fn block(&mut self, round: &Round) {
        let now = self.api.node.now();
        self.blocked.retain(|queue, (until, _)| *until > now || round.stuck.contains_key(queue));
        for (queue, why) in &round.stuck {
            if self.blocked.len() >= OUTBOX_BLOCKED_MAX && !self.blocked.contains_key(queue) {
                break;
            }
            let entry = self.blocked.entry(queue.clone()).or_insert((now, 0));
            entry.1 = entry.1.saturating_add(1);
            let pause = backoff(entry.1);
            entry.0 = now.plus(Span::from_micros(pause.as_micros() as i64));
            let why = format!("queue {queue}: {why}");
            self.note(&why);
        }
    }

    /// What went wrong, for whoever looks; a line in the log when it is new.
    fn note(&self, why: &str) {
        let now = self.api.node.now();
        let mut seen = self.state.seen();
        let known = seen.error.as_deref() == Some(why);
        let recent = seen.error_at.is_some_and(|at| now.since(at) < OUTBOX_ERROR_AGAIN);
        if !known || !recent {
            tracing::warn!(outbox = self.source.name, why, "the outbox waits");
            seen.error_at = Some(now);
        }
        seen.error = Some(why.to_string());
    }
}

/// Doubling from the first to the last.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    OUTBOX_BACKOFF_FIRST.saturating_mul(1 << doublings).min(OUTBOX_BACKOFF_LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        assert_eq!(backoff(1), OUTBOX_BACKOFF_FIRST);
        assert_eq!(backoff(2), 2 * OUTBOX_BACKOFF_FIRST);
        assert_eq!(backoff(u32::MAX), OUTBOX_BACKOFF_LAST);
    }
}

//! Settles: says how runs ended, as many at once as there are, until the server has answered.

use super::Engine;
use super::held::Held;
use crate::clock;
use crate::end::{Outcome, Said};
use crate::error::Error;
use crate::limits::{BODY_BYTES_MAX, ITEMS_MAX, SETTLE_TRIES_FOR};
use crate::transport::{Call, read};
use crate::types::SettledRun;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

type Ended = (Arc<Held>, Said);

#[derive(Deserialize)]
struct Settled {
    results: Vec<SettledRun>,
}

impl Engine {
    pub(super) async fn settles(self: Arc<Engine>) {
        while !self.closed.is_cancelled() {
            let batch = self.batch();
            if batch.is_empty() {
                tokio::select! {
                    () = self.closed.cancelled() => return,
                    () = self.settle_wanted.notified() => {}
                }
                continue;
            }
            self.settle_each(batch).await;
        }
    }

    fn batch(&self) -> Vec<Ended> {
        let mut state = self.state();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < ITEMS_MAX && bytes < BODY_BYTES_MAX {
            let Some(one) = state.ended.pop_front() else { break };
            bytes += one.1.text.len();
            batch.push(one);
        }
        batch
    }

    /// A request that is refused whole: one of its runs is at fault. Each is said alone, then as a failure.
    async fn settle_each(&self, batch: Vec<Ended>) {
        let Err(error) = self.settle(&batch).await else { return };
        if error.may_pass() {
            return self.unsettled(&batch, &error);
        }
        let mut refused = (batch.len() == 1).then_some(error);
        for one in batch {
            let one = [one];
            // One that was alone has its answer already.
            let answer = match refused.take() {
                Some(error) => Err(error),
                None => self.settle(&one).await,
            };
            if let Err(error) = answer {
                self.settle_as_failure(one, error).await;
            }
        }
    }

    async fn settle_as_failure(&self, one: [Ended; 1], error: Error) {
        if error.may_pass() || one[0].1.outcome == Outcome::Failed {
            return self.unsettled(&one, &error);
        }
        let [(held, _)] = one;
        let failed = [(held, Said::failed(&format!("its end was refused: {error}"), false))];
        if let Err(error) = self.settle(&failed).await {
            self.unsettled(&failed, &error);
        }
    }

    async fn settle(&self, batch: &[Ended]) -> Result<(), Error> {
        let worker = Value::from(self.options.name.as_str());
        let mut body = format!("{{\"worker\":{worker},\"runs\":[");
        for (index, (held, said)) in batch.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (run, token) = (&held.run.run_id, held.run.token);
            body.push_str(&format!(
                "{comma}{{\"run_id\":\"{run}\",\"token\":{token}{}}}",
                said.text
            ));
        }
        body.push_str("]}");
        let call = Call::post("/v1/work/settle").raw(body);
        let give_up = clock::now() + SETTLE_TRIES_FOR;
        let mut failures = 0;
        let settled: Settled = loop {
            let answer = tokio::select! {
                () = self.closed.cancelled() => {
                    return Err(Error::Transport("the worker has gone".to_string()));
                }
                answer = self.transport.once(&call) => answer,
            };
            let answer = answer.and_then(|body| read::<Settled>("a settle", &body));
            let answer = answer.and_then(|settled| {
                let fits = settled.results.len() == batch.len();
                let wrong = || Error::unreadable("a settle", "it has another number of runs");
                fits.then_some(settled).ok_or_else(wrong)
            });
            match answer {
                Ok(settled) => break settled,
                Err(error) if error.may_pass() && clock::now() < give_up => {
                    failures += 1;
                    self.pause(self.transport.backoff.pause(&error, failures)).await;
                }
                Err(error) => return Err(error),
            }
        };
        let mut state = self.state();
        for ((held, said), result) in batch.iter().zip(&settled.results) {
            self.settled(held, said.outcome, &result.status);
            state.held.remove(&held.serial);
        }
        drop(state);
        self.room.notify_one();
        self.changed.notify_one();
        Ok(())
    }

    fn settled(&self, held: &Held, outcome: Outcome, status: &str) {
        if status != "ok" {
            let run = &held.run.run_id;
            tracing::warn!("{run}: its settle was refused; it belongs to another attempt by now");
        }
        self.count(|stats| {
            *match outcome {
                _ if status != "ok" => &mut stats.refused,
                Outcome::Succeeded => &mut stats.succeeded,
                Outcome::Failed => &mut stats.failed,
                Outcome::Snoozed => &mut stats.snoozed,
                Outcome::Released => &mut stats.released,
            } += 1;
        });
    }

    fn unsettled(&self, batch: &[Ended], error: &Error) {
        tracing::error!("{} ended runs could not be settled: {error}", batch.len());
        let mut state = self.state();
        for (held, _) in batch {
            self.drop_held(&mut state, held);
        }
    }
}

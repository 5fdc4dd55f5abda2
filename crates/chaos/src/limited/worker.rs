//! A pull worker that holds many attempts at once and keeps the rule of the protocol: it stops an
//! attempt at nine tenths of its lease, counted from the last heartbeat that was answered, when that
//! was *sent* (at first: from when its claim was sent).
//!
//! What it "runs" takes no thread: an attempt works from the claim's answer until its time is over, or
//! until it is no longer trusted, whichever comes first; a request that hangs makes no attempt longer.

use super::Limited;
use crate::book::{Book, Execution, now};
use crate::bulk::settle_once;
use crate::http::ask_within;
use crate::limits::{LIMITED_CLAIM, LIMITED_PATIENCE};
use crate::worker::{REQUEST_SEED, failed, got};
use model::{RunId, Span, Time, Token};
use serde_json::{Value, json};
use shard::command::End;
use sim::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

const AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct LimitedWorker {
    pub book: Arc<Book>,
    pub name: Arc<str>,
    pub rng: Rng,
    /// Of every claim: short ones end before a takeover does, long ones live through it.
    pub lease_seconds: i64,
    pub queues: Arc<Vec<Limited>>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    run: RunId,
    token: Token,
    /// Its place among the executions.
    place: usize,
    /// When its work is done, if it is trusted until then.
    done: Time,
    trusted: Time,
    beat: Time,
}

impl LimitedWorker {
    pub fn run(mut self) {
        let (mut claims, mut asked_at) = (0_u64, None);
        let (mut held, mut ends): (Vec<Held>, Vec<(RunId, Token, End)>) = Default::default();
        while !self.book.is_over() {
            self.claim(&mut claims, &mut asked_at, &mut held);
            self.beat(&mut held);
            self.finish(&mut held, &mut ends);
            if !ends.is_empty() {
                settle_once(&self.book, &self.name, &mut ends, LIMITED_PATIENCE);
            }
        }
    }

    /// From `asked_at` on a claim without an answer is asked again under its own id.
    fn claim(&mut self, claims: &mut u64, asked_at: &mut Option<Time>, held: &mut Vec<Held>) {
        let Some(server) = self.book.server(false) else { return };
        if asked_at.is_none() {
            *claims += 1;
        }
        let sent = *asked_at.get_or_insert_with(now);
        let request = format!("claim-{claims}");
        let pull = self.queues.iter().filter(|queue| !queue.webhook).map(|queue| &*queue.queue);
        let body = json!({
            "worker": &*self.name, "queues": pull.collect::<Vec<&str>>(), "max": LIMITED_CLAIM,
            "wait": "100ms", "lease": format!("{}s", self.lease_seconds), "request_id": request,
        });
        let call = ("POST", "/v1/work/claim");
        let reply = ask_within(LIMITED_PATIENCE, server, call, &body.to_string(), None);
        let Some(reply) = reply.ok().filter(|reply| reply.status < 300) else {
            return self.book.pause(AGAIN);
        };
        *asked_at = None;
        let named = format!("{}\0{request}", self.name);
        let id = model::hash::hash(REQUEST_SEED, named.as_bytes()) >> 1;
        let trusted = sent.plus(self.trust());
        // One answer is heard at one instant, which is how the checker knows it for one.
        let heard = now();
        for run in reply.body["runs"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let at = now();
            let Some(got) = got(run, heard, (self.name.clone(), id)) else { continue };
            let (run, token, payload) = (got.run, got.token, &run["payload"]);
            self.book.begun(run, payload);
            let mut pages = self.book.pages();
            pages.got.push(got);
            // An answer that came when its lease was over is no reason to begin.
            if at >= trusted {
                continue;
            }
            let done = at.plus(Span::from_millis(payload["ms"].as_i64().unwrap_or(0)));
            let end = done.min(trusted);
            pages.executions.push(Execution { run, token, begin: at, end: Some(end) });
            let place = pages.executions.len() - 1;
            held.push(Held { run, token, place, done, trusted, beat: at });
        }
    }

    fn trust(&self) -> Span {
        Span::from_millis(self.lease_seconds * 900)
    }

    /// Every third of the lease, for all that it holds.
    fn beat(&mut self, held: &mut [Held]) {
        let third = Span::from_millis(self.lease_seconds * 333);
        let at = now();
        let due = |held: &Held| at >= held.beat.plus(third) && at < held.trusted;
        let items = held.iter().filter(|held| due(held));
        let items: Vec<Value> = items
            .map(|held| json!({"run_id": held.run.to_string(), "token": held.token.0}))
            .collect();
        let Some(server) = self.book.server(false).filter(|_| !items.is_empty()) else { return };
        let asked = json!({"worker": &*self.name, "runs": items}).to_string();
        let reply =
            ask_within(LIMITED_PATIENCE, server, ("POST", "/v1/work/heartbeat"), &asked, None);
        let reply = reply.ok().filter(|reply| reply.status < 300);
        let Some(results) = reply.as_ref().and_then(|reply| reply.body["results"].as_array())
        else {
            return;
        };
        let heard = now();
        for (held, result) in held.iter_mut().filter(|held| due(held)).zip(results) {
            let mut pages = self.book.pages();
            let Some(execution) = pages.executions.get_mut(held.place) else { continue };
            if result["status"] != "ok" {
                // It is told that the lease is another's: it stops.
                held.done = held.done.min(heard);
            } else if heard < held.trusted {
                (held.beat, held.trusted) = (at, at.plus(self.trust()));
            }
            execution.end = Some(held.done.min(held.trusted));
        }
    }

    /// What is done is settled; what is not trusted any more is given up without a word.
    fn finish(&mut self, held: &mut Vec<Held>, ends: &mut Vec<(RunId, Token, End)>) {
        let at = now();
        held.retain(|held| {
            if held.done.min(held.trusted) > at {
                return true;
            }
            if held.done <= held.trusted {
                let end = match self.rng.below(20) {
                    0 => failed(true),
                    1 => End::Released,
                    _ => End::Succeeded { output: None },
                };
                ends.push((held.run, held.token, end));
            }
            false
        });
    }
}

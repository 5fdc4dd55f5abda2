//! A pull worker: claims, beats, settles, now and then twice, and now and then vanishes and comes
//! back as a zombie when its lease is over.

use crate::book::{Book, Got, Said, now};
use crate::client::state;
use crate::http::ask;
use crate::limits::{KNOWN_MAX, TRIES_MAX};
use crate::receiver::number;
use model::{Bytes, RunId, Span, Text, Time, Token};
use serde_json::{Value, json};
use shard::command::{Beat, End, SettleAnswer};
use sim::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

/// How the server numbers a request of a worker (`http/src/work.rs`).
pub const REQUEST_SEED: u64 = 0x636c_6169;
/// Pause after a request that nobody answered.
const AGAIN: Duration = Duration::from_millis(20);
/// Longer than the lease that is asked for, by more than a tenth.
const LAPSE: Span = Span::from_millis(1_300);

#[derive(Debug)]
pub struct Worker {
    pub book: Arc<Book>,
    pub name: Arc<str>,
    pub rng: Rng,
    /// Attempts whose lease was let go: they are settled when it is over.
    pub zombies: Vec<(Time, RunId, Token)>,
    pub queues: Vec<String>,
}

impl Worker {
    pub fn run(mut self) {
        let mut claims: u64 = 0;
        let mut unanswered = false;
        while let Some(server) = self.book.server(false) {
            // A claim whose answer was lost is asked again under its own id.
            if !unanswered {
                claims += 1;
            }
            let request = format!("claim-{claims}");
            let asked = json!({
                "worker": &*self.name, "queues": self.queues, "max": 5, "wait": "100ms",
                "lease": "1s", "request_id": request,
            });
            let reply = ask(server, "POST", "/v1/work/claim", &asked.to_string(), None);
            unanswered = !matches!(&reply, Ok(reply) if reply.status < 300);
            let at = now();
            let runs = match reply {
                Ok(reply) if reply.status < 300 => reply.body["runs"].as_array().cloned(),
                _ => {
                    self.book.pause(AGAIN);
                    continue;
                }
            };
            let named = format!("{}\0{request}", self.name);
            let id = model::hash::hash(REQUEST_SEED, named.as_bytes()) >> 1;
            for run in runs.unwrap_or_default() {
                if let Some(got) = got(&run, at, (self.name.clone(), id)) {
                    let (run, token) = (got.run, got.token);
                    self.book.pages().got.push(got);
                    self.work(run, token);
                }
            }
            self.come_back();
        }
    }

    fn work(&mut self, run: RunId, token: Token) {
        if self.rng.below(4) == 0 {
            self.beat(run, token);
        }
        if self.rng.below(20) == 0 {
            self.zombies.push((now().plus(LAPSE), run, token));
            return;
        }
        let end = match self.rng.below(20) {
            0..14 => End::Succeeded { output: None },
            14..16 => failed(true),
            16 => failed(false),
            17 => {
                let until = now().plus(Span::from_millis(100)).micros().div_euclid(1_000) * 1_000;
                End::Snoozed { until: Time::from_micros(until) }
            }
            18 => End::Released,
            // A token that nobody was given: it must change nothing.
            _ => {
                let made_up = Token(token.0 + 1_000_000);
                self.settle(run, made_up, &End::Succeeded { output: None });
                End::Succeeded { output: None }
            }
        };
        if end == failed(false) && self.book.pages().dead.len() < KNOWN_MAX {
            self.book.pages().dead.push(run);
        }
        self.settle(run, token, &end);
        if self.rng.below(5) == 0 {
            self.settle(run, token, &end);
        }
    }

    /// Sends it until it is answered; each try is written down.
    fn settle(&mut self, run: RunId, token: Token, end: &End) {
        let item = item(run, token, end);
        let asked = json!({"worker": &*self.name, "runs": [item]}).to_string();
        for _ in 0..TRIES_MAX {
            let Some(server) = self.book.server(false) else { return };
            let place = {
                let mut pages = self.book.pages();
                pages.said.push(Said { sent: now(), run, token, end: end.clone(), heard: None });
                pages.said.len() - 1
            };
            let reply = ask(server, "POST", "/v1/work/settle", &asked, None);
            let answer = reply.ok().filter(|reply| reply.status < 300);
            if let Some(answer) = answer.and_then(|reply| told(&reply.body["results"][0])) {
                self.book.pages().said[place].heard = Some((now(), answer));
                return;
            }
            self.book.pause(AGAIN);
        }
    }

    fn beat(&mut self, run: RunId, token: Token) {
        let Some(server) = self.book.server(false) else { return };
        let text = format!("{{\"at\":{}}}", self.rng.below(1_000_000));
        let checkpoint: Value = serde_json::from_str(&text).unwrap_or_default();
        let item = json!({"run_id": run.to_string(), "token": token.0, "checkpoint": checkpoint});
        let asked = json!({"worker": &*self.name, "runs": [item]}).to_string();
        let sent = now();
        let reply = ask(server, "POST", "/v1/work/heartbeat", &asked, None);
        if let Ok(reply) = reply
            && reply.body["results"][0]["status"] == "ok"
        {
            let checkpoint = Some(Bytes::from(text.as_bytes()));
            self.book.pages().beats.push((sent, Beat { run, token, checkpoint }));
        }
    }

    fn come_back(&mut self) {
        let (over, wait) =
            std::mem::take(&mut self.zombies).into_iter().partition(|(at, ..)| *at <= now());
        self.zombies = wait;
        let over: Vec<(Time, RunId, Token)> = over;
        for (_, run, token) in over {
            self.settle(run, token, &End::Succeeded { output: None });
        }
    }
}

/// What a claim says about one run.
pub fn got(run: &Value, at: Time, worker: (Arc<str>, u64)) -> Option<Got> {
    let time = |name: &str| {
        let micros = run[name].as_str().and_then(|text| wire::timestamp::parse(text).ok());
        micros.map(Time::from_micros)
    };
    Some(Got {
        at,
        run: RunId::parse(run["run_id"].as_str()?)?,
        token: Token(run["token"].as_u64()?),
        attempt: u16::try_from(run["attempt"].as_u64()?).ok()?,
        nominal: time("scheduled_for"),
        due: time("due_at"),
        worker: Some(worker),
        number: number(&run["payload"]),
    })
}

/// How a settle says it.
pub fn item(run: RunId, token: Token, end: &End) -> Value {
    let mut item = json!({"run_id": run.to_string(), "token": token.0});
    match end {
        End::Succeeded { .. } => item["outcome"] = json!("succeeded"),
        End::Failed { retryable, .. } => {
            item["outcome"] = json!("failed");
            item["error"] = json!({"message": "the worker said so"});
            item["retryable"] = json!(retryable);
        }
        End::Snoozed { until } => {
            item["outcome"] = json!("snoozed");
            item["until"] = json!(wire::timestamp::format(until.micros()));
        }
        _ => item["outcome"] = json!("released"),
    }
    item
}

pub fn failed(retryable: bool) -> End {
    let error = Text::from("the worker said so");
    End::Failed { error, code: None, retryable, retry_after: None }
}

pub fn told(result: &Value) -> Option<SettleAnswer> {
    match result["status"].as_str()? {
        "ok" => {
            let next = result["next_attempt_at"].as_str();
            let next = next.and_then(|text| wire::timestamp::parse(text).ok());
            let state = state(result["run_status"].as_str()?)?;
            Some(SettleAnswer::Ok { state, next: next.map(Time::from_micros) })
        }
        "stale" => Some(SettleAnswer::Stale),
        _ => None,
    }
}

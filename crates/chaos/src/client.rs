//! A client: submits with and without keys, cancels, pauses, triggers, replays, holds; remembers
//! what it was answered. A submission with a key is sent again until it is answered, as a real
//! client would; one without a key is never repeated.

use crate::book::{Book, now};
use crate::http::{Reply, ask};
use crate::limits::{KNOWN_MAX, RECURRING_MAX, TRIES_MAX};
use model::row::{Made, Scope};
use model::{
    Bytes, CatchUp, JobId, Namespace, Overlap, Policy, RunId, RunState, ScheduleSpec, Slot, Span,
    Spec, Target, Text, Time, When,
};
use serde_json::{Value, json};
use shard::command::{Answer, Command, CommandId, KeyOf, NewJob, Refused, Submitted};
use sim::log::Op;
use sim::rng::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers of ops and payloads, over all clients of all worlds.
pub static LAST: AtomicU64 = AtomicU64::new(0);

/// Pause after a request that nobody answered.
const AGAIN: Duration = Duration::from_millis(10);
pub const DEFAULT: Namespace = Namespace(0);

#[derive(Debug)]
pub struct Client {
    pub book: Arc<Book>,
    pub hooks: SocketAddr,
    pub rng: Rng,
    pub load: Load,
}

/// How much clients ask for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Queues with webhooks, and as many for workers.
    pub queues: u64,
    pub recurring_max: usize,
    /// Between two requests of one client.
    pub pace: Duration,
}

impl Default for Load {
    fn default() -> Load {
        Load { queues: 2, recurring_max: RECURRING_MAX, pace: Duration::ZERO }
    }
}

impl Client {
    pub fn run(mut self) {
        while let Some(server) = self.book.server(true) {
            match self.rng.below(100) {
                0..55 => drop(self.submit(server, None)),
                55..72 => self.submit_keyed(),
                72..78 => self.submit_recurring(server),
                78..84 => self.trigger(server),
                84..90 => self.cancel(server),
                90..94 => self.pause(server),
                94..97 => self.replay(server),
                _ => self.hold(server),
            }
            if !self.load.pace.is_zero() {
                self.book.pause(self.load.pace);
            }
        }
    }

    /// A one-off: now, in a moment, or at an instant; a webhook or for a worker.
    fn one_off(&mut self) -> (Value, Spec, u64) {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let millis = self.rng.below(600) as i64;
        let (schedule, when) = match self.rng.below(4) {
            0 | 1 => (Value::Null, When::Now),
            2 => (json!({"delay": format!("{millis}ms")}), When::Delay(Span::from_millis(millis))),
            _ => {
                let at = now().plus(Span::from_millis(millis)).micros().div_euclid(1_000) * 1_000;
                (json!({"at": wire::timestamp::format(at)}), When::At(Time::from_micros(at)))
            }
        };
        let (body, spec) = self.definition(number, schedule, when);
        (body, spec, number)
    }

    fn definition(&mut self, number: u64, schedule: Value, when: When) -> (Value, Spec) {
        let recurring = matches!(when, When::Every(_));
        let webhook = recurring || self.rng.below(3) > 0;
        let queue =
            format!("{}{}", if webhook { "h" } else { "w" }, self.rng.below(self.load.queues));
        let url = format!("http://{}/hook", self.hooks);
        let (target, stored) = match webhook {
            true => {
                let stored = Target::Http {
                    url: Text::from(url.as_str()),
                    method: Text::from("POST"),
                    headers: Vec::new(),
                };
                (json!({"http": {"url": url}}), stored)
            }
            false => (json!({"worker": {"kind": "k"}}), Target::Worker { kind: Text::from("k") }),
        };
        let (overlap, overlap_text) = match self.rng.below(4) {
            0 => (Overlap::QueueOne, "queue_one"),
            1 => (Overlap::Skip, "skip"),
            2 => (Overlap::Allow, "allow"),
            _ => (Overlap::CancelRunning, "cancel_running"),
        };
        let policy = Policy {
            max_retries: 2,
            initial: Span::from_millis(50),
            factor: 2,
            cap: Span::from_millis(200),
            timeout: Span::from_secs(if webhook { 30 } else { 3_600 }),
            ..Policy::default()
        };
        let mut body = json!({
            "target": target, "payload": {"n": number}, "queue": queue, "overlap": overlap_text,
            "retry": {"max_retries": 2, "initial": "50ms", "factor": 2, "cap": "200ms"},
        });
        if !schedule.is_null() {
            body["schedule"] = schedule;
        }
        let spec = Spec {
            namespace: DEFAULT,
            name: None,
            owner: None,
            tags: Vec::new(),
            schedule: ScheduleSpec::new(when),
            target: stored,
            payload: Bytes::from(format!("{{\"n\":{number}}}").as_bytes()),
            content_type: Text::from("application/json"),
            queue: Text::from(queue),
            group: None,
            priority: 5,
            policy,
            overlap,
            permanent: None,
            within: model::Within::default(),
            request_id: None,
            api_key: None,
            origin: model::Origin::default(),
            catch_up: CatchUp::default(),
        };
        (body, spec)
    }

    fn submit(&mut self, server: SocketAddr, given: Option<(Value, Spec, u64)>) -> Option<JobId> {
        let (body, spec, number) = given.unwrap_or_else(|| self.one_off());
        self.send_job(server, &body, Arc::new(spec), number, None)
    }

    fn submit_keyed(&mut self) {
        let (body, spec, number) = self.one_off();
        let spec = Arc::new(spec);
        let key = format!("key-{number}");
        let mut answered = 0;
        for _ in 0..TRIES_MAX {
            let Some(server) = self.book.server(true) else { return };
            let made = self.send_job(server, &body, spec.clone(), number, Some(&key));
            answered += u32::from(made.is_some());
            // Sometimes a client that was answered asks again: it must hear the same.
            if answered > 1 || (answered == 1 && self.rng.below(3) > 0) {
                break;
            }
        }
        if let (Some(server), 0) = (self.book.server(true), self.rng.below(10)) {
            // Another body under the same key, which must be refused.
            let mut other = body;
            other["priority"] = json!(9);
            let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            self.send_job(server, &other, spec, number, Some(&key));
        }
    }

    fn send_job(
        &mut self,
        server: SocketAddr,
        body: &Value,
        spec: Arc<Spec>,
        number: u64,
        key: Option<&str>,
    ) -> Option<JobId> {
        let text = body.to_string();
        let hash = model::hash::hash(0, text.as_bytes());
        let one_off = !spec.schedule.is_recurring();
        // The server mints the id. Until somebody sees it, it stands for one that does not exist.
        let id = JobId::mint(Time::MIN, Slot::of(DEFAULT, &spec.queue, 0), number << 2);
        let key_of = key.map(|key| KeyOf { key: Text::from(key), body: hash });
        let command = Command::Submit(vec![NewJob { id, spec, key: key_of, paused: false }]);
        let place = self.begin(command);
        self.book.pages().numbers.push((place, number));
        let reply = ask(server, "POST", "/v1/jobs", &text, key);
        let answer = answer_of(reply, |reply| {
            let job = JobId::parse(reply.body["id"].as_str()?)?;
            let next = reply.body["next_run_at"].as_str();
            let next = next.and_then(|text| wire::timestamp::parse(text).ok());
            let next = next.map(Time::from_micros);
            let made = Submitted { made: Made::Job(job), next, replayed: reply.replayed };
            Some(Answer::Submitted(vec![Ok(made)]))
        });
        let made = match &answer {
            Some(Answer::Submitted(list)) => match list.first() {
                Some(Ok(Submitted { made: Made::Job(job), .. })) => Some(*job),
                _ => None,
            },
            _ => None,
        };
        self.end(place, answer);
        let mut pages = self.book.pages();
        if let (Some(job), Command::Submit(list)) = (made, &mut pages.ops[place].command) {
            list[0].id = job;
            if one_off && pages.runs.len() < KNOWN_MAX {
                pages.runs.push(RunId::new(job, model::Cause::OneOff));
            }
        }
        made
    }

    fn submit_recurring(&mut self, server: SocketAddr) {
        if self.book.pages().recurring.len() >= self.load.recurring_max {
            return;
        }
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let when = When::Every(Span::from_secs(1));
        let (body, spec) = self.definition(number, json!({"every": "1s"}), when);
        if let Some(job) = self.submit(server, Some((body, spec, number))) {
            self.book.pages().recurring.push(job);
        }
    }

    fn a_job(&mut self) -> Option<JobId> {
        let pages = self.book.pages();
        self.rng.pick(&pages.recurring).copied()
    }

    fn trigger(&mut self, server: SocketAddr) {
        let Some(job) = self.a_job() else { return };
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let key = (self.rng.below(2) == 0).then(|| format!("trigger-{number}"));
        let key_of = key.as_ref().map(|key| KeyOf { key: Text::from(key.as_str()), body: 0 });
        // The server mints the id here, too.
        let place = self.begin(Command::Trigger { job, id: number, payload: None, key: key_of });
        let path = format!("/v1/jobs/{job}/trigger");
        let answer = answer_of(ask(server, "POST", &path, "{}", key.as_deref()), |reply| {
            Some(Answer::Made(Made::Run(RunId::parse(reply.body["run_id"].as_str()?)?)))
        });
        if let Some(Answer::Made(Made::Run(run))) = &answer
            && let model::Cause::Trigger(found) = run.cause()
            && let Command::Trigger { id, .. } = &mut self.book.pages().ops[place].command
        {
            *id = found;
        }
        self.end(place, answer);
    }

    /// A run that waits or runs; now and then a whole recurring job.
    fn cancel(&mut self, server: SocketAddr) {
        if self.rng.below(12) == 0
            && let Some(job) = self.a_job()
        {
            self.book.pages().recurring.retain(|known| *known != job);
            let place = self.begin(Command::CancelJob(job));
            let reply = ask(server, "DELETE", &format!("/v1/jobs/{job}"), "", None);
            let answer = answer_of(reply, changed);
            return self.end(place, answer);
        }
        let run = self.book.pages().runs.pop();
        let Some(run) = run else { return };
        let place = self.begin(Command::CancelRun(run));
        let reply = ask(server, "POST", &format!("/v1/runs/{run}/cancel"), "{}", None);
        let answer = answer_of(reply, changed);
        self.end(place, answer);
    }

    fn pause(&mut self, server: SocketAddr) {
        let Some(job) = self.a_job() else { return };
        let (command, verb) = match self.rng.below(2) {
            0 => (Command::Pause { job, reason: Text::from("chaos"), until: None }, "pause"),
            _ => (Command::Resume(job), "resume"),
        };
        let body = if verb == "pause" { "{\"reason\":\"chaos\"}" } else { "{}" };
        let place = self.begin(command);
        let reply = ask(server, "POST", &format!("/v1/jobs/{job}/{verb}"), body, None);
        let answer = answer_of(reply, changed);
        self.end(place, answer);
    }

    fn replay(&mut self, server: SocketAddr) {
        let run = self.book.pages().dead.pop();
        let Some(run) = run else { return };
        let place = self.begin(Command::Replay { run, payload: None });
        let reply = ask(server, "POST", &format!("/v1/runs/{run}/replay"), "{}", None);
        let answer = answer_of(reply, changed);
        self.end(place, answer);
    }

    fn hold(&mut self, server: SocketAddr) {
        let queue = ["h0", "w1"][self.rng.below(2) as usize];
        let scope = Scope::Queue(DEFAULT, Text::from(queue));
        let asked = json!({"scope": {"queue": queue}, "reason": "chaos"});
        let reason = Text::from("chaos");
        let place = self.begin(Command::Hold { scope, reason, until: None });
        let reply = ask(server, "POST", "/v1/hold", &asked.to_string(), None);
        self.end(place, answer_of(reply, |_| Some(Answer::Done)));
        self.release(server, queue);
    }

    /// Also called at the end for every queue, so that nothing is left behind a hold.
    pub fn release(&mut self, server: SocketAddr, queue: &str) {
        let scope = Scope::Queue(DEFAULT, Text::from(queue));
        let place = self.begin(Command::Release(scope));
        let asked = json!({"scope": {"queue": queue}}).to_string();
        let reply = ask(server, "POST", "/v1/release", &asked, None);
        self.end(place, answer_of(reply, |_| Some(Answer::Done)));
    }

    fn begin(&self, command: Command) -> usize {
        let id = CommandId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let mut pages = self.book.pages();
        pages.ops.push(Op { id, command, sent: now(), heard: None });
        pages.ops.len() - 1
    }

    fn end(&self, place: usize, answer: Option<Answer>) {
        if answer.is_none() {
            // Most likely nobody listens there any more.
            self.book.pause(AGAIN);
        }
        self.book.pages().ops[place].heard = answer.map(|answer| (now(), answer));
    }
}

/// None where nobody answered, or nothing that could be read.
fn answer_of(
    reply: std::io::Result<Reply>,
    read: impl FnOnce(&Reply) -> Option<Answer>,
) -> Option<Answer> {
    let reply = reply.ok()?;
    if reply.status < 300 { read(&reply) } else { Some(Answer::Refused(refused(&reply.body))) }
}

/// What a problem says.
pub fn refused(problem: &Value) -> Refused {
    match problem["code"].as_str().unwrap_or_default() {
        "not_found" => Refused::NotFound,
        "idempotency_key_reused" => Refused::KeyReused,
        "taken" => Refused::Taken,
        "conflict" | "run_final" => Refused::Conflict,
        "busy" => Refused::Busy,
        "store_full" => Refused::Full,
        "store_unavailable" => Refused::TooLate,
        "not_storable" => Refused::Poison,
        "invalid" => Refused::Invalid("told by the server"),
        // Also what this code does not know: it may have been done.
        _ => Refused::Unknown,
    }
}

/// The answers of verbs on jobs and runs.
fn changed(reply: &Reply) -> Option<Answer> {
    let body = &reply.body;
    if let Some(version) = body["version"].as_u64() {
        let job = JobId::parse(body["id"].as_str()?)?;
        return Some(Answer::Job(job, u32::try_from(version).ok()?));
    }
    let run = body["run_id"].as_str().or(body["id"].as_str()).and_then(RunId::parse)?;
    if body["cancel_requested"] == true {
        return Some(Answer::Stopping(run));
    }
    match body["status"].as_str().and_then(state) {
        Some(state) => Some(Answer::Run(run, state)),
        None => Some(Answer::Done),
    }
}

pub fn state(name: &str) -> Option<RunState> {
    RunState::ALL.into_iter().find(|state| format!("{state:?}").eq_ignore_ascii_case(name))
}

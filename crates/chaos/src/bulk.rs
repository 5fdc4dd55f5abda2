//! Load in bulk: clients that submit many jobs in one request (NDJSON), and pull workers that claim
//! and settle many at once. Every job of every batch stands in the book and is judged like the others.
//!
//! A batch with an `Idempotency-Key` is sent again until each of its items was answered; one without
//! is never repeated. What cannot be sent in time is sent a little later, and beyond that not at all:
//! a cluster that was away is not buried by what it missed.

use crate::book::{Book, Got, Said, now};
use crate::client::{DEFAULT, LAST, refused};
use crate::http::{Reply, ask_within, post_lines};
use crate::limits::{
    BULK_AWAIT, BULK_BATCH_LEAST, BULK_BATCH_MAX, BULK_CLAIM, BULK_DEBT, BULK_QUEUES, KNOWN_MAX,
    REQUEST_PATIENCE, TRIES_MAX,
};
use crate::worker::{REQUEST_SEED, failed, got, item, told};
use model::row::Made;
use model::{
    Bytes, CatchUp, Cause, JobId, Overlap, Policy, RunId, ScheduleSpec, Slot, Span, Spec, Target,
    Text, Time, Token, When,
};
use serde_json::{Value, json};
use shard::command::{Answer, Command, CommandId, End, KeyOf, NewJob, Refused, Submitted};
use sim::log::Op;
use sim::rng::Rng;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pause after a request that nobody answered.
const AGAIN: Duration = Duration::from_millis(50);
/// A worker that forgets an attempt settles it after so long, too late by more than a tenth.
const LEASE: &str = "5s";
const LAPSE: Span = Span::from_millis(5_700);
/// Batches go to so many queues at once: each shard of a batch is a commit of its own.
const QUEUES_PER_BATCH: u64 = 3;
/// A description is looked for among the last of them: webhooks and others of these queues.
const KNOWN_SPECS: usize = 8;

/// How much is asked for in bulk, over all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// Submissions per second; 0: none.
    pub rate: u64,
    /// Of a hundred jobs so many are webhooks, the others are for pull workers.
    pub webhooks: u64,
    /// Jobs are due so long after they are sent, one after the other; none: at once, most of them.
    pub ahead: Option<Span>,
    /// Nobody fails, forgets or snoozes: whatever is delivered twice is delivered twice by duly.
    pub calm: bool,
}

#[derive(Debug)]
pub struct BulkClient {
    pub book: Arc<Book>,
    pub hooks: SocketAddr,
    pub rng: Rng,
    pub bulk: Bulk,
    /// Jobs per second of this client.
    pub rate: u64,
    /// The only queue it uses: who submits to several is held up in all by a node that is gone.
    pub only: Option<u64>,
}

/// The jobs of one request.
struct Batch {
    lines: String,
    first: u64,
    specs: Vec<Arc<Spec>>,
    key: Option<String>,
}

impl BulkClient {
    pub fn run(mut self) {
        let (mut since, mut sent) = (Instant::now(), 0_u64);
        while let Some(server) = self.book.server(true) {
            let due = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX) * self.rate;
            let mut owed = (due / 1_000).saturating_sub(sent);
            if owed > self.rate.saturating_mul(BULK_DEBT.as_secs()) {
                (since, sent, owed) = (Instant::now(), 0, BULK_BATCH_MAX);
            }
            if owed < BULK_BATCH_LEAST {
                self.book.pause(BULK_AWAIT);
                continue;
            }
            let count = owed.min(BULK_BATCH_MAX);
            sent += count;
            let batch = self.batch(count);
            self.submit(server, &batch);
        }
    }

    fn batch(&mut self, count: u64) -> Batch {
        let first = LAST.fetch_add(count, Ordering::Relaxed) + 1;
        let url = format!("http://{}/hook", self.hooks);
        let near = match self.bulk.ahead {
            None if self.rng.below(3) > 0 => None,
            None => Some(Span::from_millis(self.rng.below(2_000) as i64)),
            ahead => ahead,
        };
        let base = self.only.unwrap_or_else(|| self.rng.below(BULK_QUEUES));
        let queues = if self.only.is_some() { 1 } else { QUEUES_PER_BATCH };
        let mut batch = Batch {
            lines: String::new(),
            first,
            specs: Vec::new(),
            key: (self.rng.below(2) == 0).then(|| format!("bulk-{first}")),
        };
        // Jobs of one queue, target and instant share their description: only payloads differ, which
        // the checker finds by their numbers.
        let mut known: Vec<(Text, When, Arc<Spec>)> = Vec::new();
        let spread = i64::try_from(count.saturating_mul(1_000) / self.rate.max(1)).unwrap_or(0);
        for at in 0..count {
            let webhook = self.rng.below(100) < self.bulk.webhooks;
            let place = (base + at % queues) % BULK_QUEUES;
            let queue = format!("{}{place}", if webhook { "c" } else { "b" });
            let when = match (near, self.bulk.ahead) {
                (None, _) => When::Now,
                // One after the other, so that they fire as evenly as they are sent.
                (Some(near), Some(_)) => {
                    let later = Span::from_millis(spread * at as i64 / count as i64);
                    When::At(whole(now().plus(near).plus(later)))
                }
                (Some(near), None) => When::At(whole(now().plus(near))),
            };
            let target = match webhook {
                true => format!("{{\"http\":{{\"url\":\"{url}\"}}}}"),
                false => "{\"worker\":{\"kind\":\"k\"}}".to_string(),
            };
            let schedule = match when {
                When::At(at) => {
                    let at = wire::timestamp::format(at.micros());
                    format!(",\"schedule\":{{\"at\":\"{at}\"}}")
                }
                _ => String::new(),
            };
            let _ = writeln!(
                batch.lines,
                "{{\"target\":{target},\"payload\":{{\"n\":{}}},\"queue\":\"{queue}\",\"retry\":{{\"max_retries\":2,\
                 \"initial\":\"50ms\",\"factor\":2,\"cap\":\"200ms\"}}{schedule}}}",
                first + at
            );
            let queue = Text::from(queue);
            let spec = known
                .iter()
                .rev()
                .take(KNOWN_SPECS)
                .find(|(name, then, _)| *name == queue && *then == when);
            let spec = match spec {
                Some((_, _, spec)) => spec.clone(),
                None => {
                    let spec = Arc::new(description(&queue, &when, webhook.then_some(&*url)));
                    known.push((queue, when, spec.clone()));
                    spec
                }
            };
            batch.specs.push(spec);
        }
        batch
    }

    fn submit(&mut self, server: SocketAddr, batch: &Batch) {
        let mut server = Some(server);
        for _ in 0..TRIES_MAX {
            let Some(at) = server else { return };
            let whole = self.send(at, batch);
            if whole || batch.key.is_none() {
                return;
            }
            self.book.pause(AGAIN);
            server = self.book.server(true);
        }
    }

    /// One try; true if every item was answered with a job.
    fn send(&mut self, server: SocketAddr, batch: &Batch) -> bool {
        let hash = model::hash::hash(0, batch.lines.as_bytes());
        let items = batch.specs.iter().enumerate().map(|(at, spec)| {
            let number = batch.first + at as u64;
            // The server mints the id. Until somebody sees it, it stands for one that does not exist.
            let id = JobId::mint(Time::MIN, Slot::of(DEFAULT, &spec.queue, 0), number << 2);
            let key = batch.key.as_ref().map(|key| {
                let key = Text::from(format!("{key}#{at}"));
                KeyOf { key, body: hash }
            });
            NewJob { id, spec: spec.clone(), key, paused: false }
        });
        let command = Command::Submit(items.collect());
        let id = CommandId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let place = {
            let mut pages = self.book.pages();
            pages.ops.push(Op { id, command, sent: now(), heard: None });
            let place = pages.ops.len() - 1;
            pages.numbers.push((place, batch.first));
            place
        };
        let reply = post_lines(server, "/v1/jobs/batch", &batch.lines, batch.key.as_deref());
        let answer = reply.ok().and_then(|reply| answer_of(&reply, batch.specs.len()));
        let mut pages = self.book.pages();
        let pages = &mut *pages;
        let Some(op) = pages.ops.get_mut(place) else { return false };
        let mut made = 0;
        if let (Some(Answer::Submitted(results)), Command::Submit(list)) =
            (&answer, &mut op.command)
        {
            for (new, result) in list.iter_mut().zip(results) {
                if let Ok(Submitted { made: Made::Job(job), .. }) = result {
                    new.id = *job;
                    made += 1;
                }
            }
            // One of them may be cancelled by somebody.
            if let Some(new) = list.first().filter(|_| !self.bulk.calm && made > 0)
                && pages.runs.len() < KNOWN_MAX
            {
                pages.runs.push(RunId::new(new.id, Cause::OneOff));
            }
        }
        op.heard = answer.map(|answer| (now(), answer));
        let whole = made == batch.specs.len();
        if whole || batch.key.is_none() {
            self.book.made.fetch_add(made as u64, Ordering::Relaxed);
        }
        whole
    }
}

fn whole(time: Time) -> Time {
    Time::from_micros(time.micros().div_euclid(1_000) * 1_000)
}

fn answer_of(reply: &Reply, count: usize) -> Option<Answer> {
    if reply.status >= 300 {
        return Some(Answer::Refused(refused(&reply.body)));
    }
    let results = reply.body["results"].as_array().filter(|list| list.len() == count)?;
    let each = results.iter().map(|result| match result["id"].as_str().and_then(JobId::parse) {
        Some(job) if result["status"] == 202 => {
            Ok(Submitted { made: Made::Job(job), next: None, replayed: false })
        }
        _ => Err(refused(&result["error"])),
    });
    Some(Answer::Submitted(each.collect::<Vec<Result<Submitted, Refused>>>()))
}

fn description(queue: &Text, when: &When, url: Option<&str>) -> Spec {
    let target = match url {
        Some(url) => {
            Target::Http { url: Text::from(url), method: Text::from("POST"), headers: Vec::new() }
        }
        None => Target::Worker { kind: Text::from("k") },
    };
    Spec {
        namespace: DEFAULT,
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(when.clone()),
        target,
        payload: Bytes::from(&b"{}"[..]),
        content_type: Text::from("application/json"),
        queue: queue.clone(),
        group: None,
        priority: 5,
        policy: Policy {
            max_retries: 2,
            initial: Span::from_millis(50),
            factor: 2,
            cap: Span::from_millis(200),
            timeout: Span::from_secs(if url.is_some() { 30 } else { 3_600 }),
            ..Policy::default()
        },
        overlap: Overlap::default(),
        permanent: None,
        within: model::Within::default(),
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
        catch_up: CatchUp::default(),
    }
}

#[derive(Debug)]
pub struct BulkWorker {
    pub book: Arc<Book>,
    pub name: Arc<str>,
    pub rng: Rng,
    pub calm: bool,
}

impl BulkWorker {
    pub fn run(mut self) {
        let (mut claims, mut unanswered) = (0_u64, false);
        let queues: Vec<String> = (0..BULK_QUEUES).map(|queue| format!("b{queue}")).collect();
        let mut late: Vec<(Time, RunId, Token)> = Vec::new();
        while let Some(server) = self.book.server(false) {
            // A claim whose answer was lost is asked again under its own id.
            if !unanswered {
                claims += 1;
            }
            let request = format!("claim-{claims}");
            let asked = json!({
                "worker": &*self.name, "queues": queues, "max": BULK_CLAIM, "wait": "200ms",
                "lease": LEASE, "request_id": request,
            });
            let reply =
                crate::http::ask(server, "POST", "/v1/work/claim", &asked.to_string(), None);
            let at = now();
            let reply = reply.ok().filter(|reply| reply.status < 300);
            unanswered = reply.is_none();
            let Some(reply) = reply else {
                self.book.pause(AGAIN);
                continue;
            };
            let named = format!("{}\0{request}", self.name);
            let id = model::hash::hash(REQUEST_SEED, named.as_bytes()) >> 1;
            let list = reply.body["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
            let all: Vec<Got> =
                list.iter().filter_map(|run| got(run, at, (self.name.clone(), id))).collect();
            let held: Vec<(RunId, Token)> = all.iter().map(|got| (got.run, got.token)).collect();
            self.book.pages().got.extend(all);
            let mut ends: Vec<(RunId, Token, End)> = Vec::new();
            for (run, token) in held {
                match self.end() {
                    Some(end) => ends.push((run, token, end)),
                    None => late.push((now().plus(LAPSE), run, token)),
                }
            }
            let over = now();
            late.retain(|(at, run, token)| {
                let waits = *at > over;
                if !waits {
                    ends.push((*run, *token, End::Succeeded { output: None }));
                }
                waits
            });
            self.settle(ends);
        }
    }

    /// How it went; none: it is forgotten until its lease is over.
    fn end(&mut self) -> Option<End> {
        if self.calm {
            return Some(End::Succeeded { output: None });
        }
        match self.rng.below(200) {
            0 => None,
            1..5 => Some(failed(true)),
            5 => Some(failed(false)),
            6 => Some(End::Released),
            7 => Some(End::Snoozed { until: whole(now().plus(Span::from_millis(100))) }),
            _ => Some(End::Succeeded { output: None }),
        }
    }

    /// Sends them until each is answered.
    fn settle(&mut self, mut ends: Vec<(RunId, Token, End)>) {
        for _ in 0..TRIES_MAX {
            if ends.is_empty() || self.book.is_over() {
                return;
            }
            settle_once(&self.book, &self.name, &mut ends, REQUEST_PATIENCE);
            if !ends.is_empty() {
                self.book.pause(AGAIN);
            }
        }
    }
}

/// Sends them and forgets those that were answered; the try is written down.
pub fn settle_once(
    book: &Book,
    worker: &str,
    ends: &mut Vec<(RunId, Token, End)>,
    patience: Duration,
) {
    let Some(server) = book.server(false) else { return };
    let items: Vec<Value> = ends.iter().map(|(run, token, end)| item(*run, *token, end)).collect();
    let asked = json!({"worker": worker, "runs": items}).to_string();
    let first = {
        let mut pages = book.pages();
        let (first, sent) = (pages.said.len(), now());
        pages.said.extend(ends.iter().map(|(run, token, end)| Said {
            sent,
            run: *run,
            token: *token,
            end: end.clone(),
            heard: None,
        }));
        first
    };
    let reply = ask_within(patience, server, ("POST", "/v1/work/settle"), &asked, None);
    let at = now();
    let reply = reply.ok().filter(|reply| reply.status < 300);
    let results = reply.as_ref().and_then(|reply| reply.body["results"].as_array());
    let mut pages = book.pages();
    let mut place = 0;
    ends.retain(|_| {
        let answer = results.and_then(|list| told(list.get(place)?));
        if let (Some(answer), Some(said)) = (answer, pages.said.get_mut(first + place)) {
            said.heard = Some((at, answer));
        }
        place += 1;
        answer.is_none()
    });
}

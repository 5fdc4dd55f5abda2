//! The load of queues with strict limits: 1 and 7 at once, for a queue and for each group of one, worked
//! on by pull workers and by webhooks. The queues always have more waiting than may run, so that every
//! place that a failover could give twice is wanted. `cluster/strict.rs` judges.

mod worker;

use crate::book::{Book, now};
use crate::client::{DEFAULT, LAST, refused};
use crate::http::ask;
use crate::limits::{LIMITED_PATIENCE, LIMITED_SETS, LIMITED_WAITING, TRIES_MAX};
use model::row::Made;
use model::{
    Bytes, CatchUp, JobId, Overlap, Policy, ScheduleSpec, Slot, Span, Spec, Target, Text, Time,
    When,
};
use serde_json::{Value, json};
use shard::command::{Answer, Command, CommandId, KeyOf, NewJob, Submitted};
use sim::log::Op;
use sim::rng::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
pub use worker::LimitedWorker;

/// Pause after a request that nobody answered, and when nothing is wanted.
const AGAIN: Duration = Duration::from_millis(20);
/// How long an attempt works, in milliseconds. One in eight is long: most failovers find some of those.
const SHORT_MILLIS: (i64, i64) = (300, 1_200);
const LONG_MILLIS: (i64, i64) = (2_000, 5_000);

/// A queue and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    pub queue: Text,
    pub webhook: bool,
    /// At most so many of the queue at once, or of each group.
    pub most: u32,
    /// The groups that are limited; none: the queue is.
    pub groups: &'static [&'static str],
}

/// Every queue of the load. Several of each sort, because each lies in a shard of its own.
pub fn queues() -> Vec<Limited> {
    let mut all = Vec::new();
    for set in 0..LIMITED_SETS {
        for (sort, webhook) in [("pull", false), ("hook", true)] {
            for most in [1, 7] {
                let queue = |of: &str| Text::from(format!("{sort}-{of}{most}-{set}"));
                all.push(Limited { queue: queue("queue"), webhook, most, groups: &[] });
                let groups = &["red", "blue"];
                all.push(Limited { queue: queue("group"), webhook, most, groups });
            }
        }
    }
    all
}

impl Limited {
    fn settings(&self) -> Value {
        match self.groups {
            [] => json!({"max_running": self.most}),
            _ => json!({"groups": {"max_running": self.most}}),
        }
    }

    /// How many of it can run at once.
    fn places(&self) -> usize {
        self.most as usize * self.groups.len().max(1)
    }
}

/// Tells the cluster what each queue allows; the load begins when it has said yes to all.
pub fn limit(servers: &[SocketAddr], queues: &[Limited]) -> Result<(), String> {
    let tries = servers.iter().cycle().take(TRIES_MAX as usize);
    for queue in queues {
        let (path, body) = (format!("/v1/queues/{}", queue.queue), queue.settings().to_string());
        let done = tries.clone().any(|server| {
            let reply = ask(*server, "PUT", &path, &body, None);
            reply.is_ok_and(|reply| reply.status == 200)
        });
        if !done {
            return Err(format!("no node limits the queue {}", queue.queue));
        }
    }
    Ok(())
}

#[derive(Debug)]
pub struct LimitedClient {
    pub book: Arc<Book>,
    pub hooks: SocketAddr,
    pub rng: Rng,
    pub queues: Arc<Vec<Limited>>,
}

impl LimitedClient {
    pub fn run(mut self) {
        while let Some(server) = self.book.server(true) {
            let at = self.rng.below(self.queues.len() as u64) as usize;
            let Some(queue) = self.queues.get(at).cloned() else { return };
            if self.book.waiting(&queue.queue) < queue.places() + LIMITED_WAITING {
                self.submit(server, &queue);
            }
            self.book.pause(AGAIN);
        }
    }

    /// With a key, until it is answered: nothing may be lost.
    fn submit(&mut self, mut server: SocketAddr, queue: &Limited) {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let span = if self.rng.below(8) == 0 { LONG_MILLIS } else { SHORT_MILLIS };
        let millis = self.rng.range(span.0, span.1);
        let group = self.rng.pick(queue.groups).copied();
        let url = format!("http://{}/hook", self.hooks);
        let target = match queue.webhook {
            true => json!({"http": {"url": url}}),
            false => json!({"worker": {"kind": "k"}}),
        };
        let mut body = json!({
            "target": target, "payload": {"n": number, "ms": millis, "q": &*queue.queue}, "queue": &*queue.queue,
            "retry": {"max_retries": 3, "initial": "50ms", "factor": 2, "cap": "200ms"},
        });
        if let Some(group) = group {
            body["group"] = json!(group);
        }
        let spec = Arc::new(description(queue, group, &url, &body["payload"]));
        let key = format!("limited-{number}");
        self.book.wanted(&queue.queue);
        for _ in 0..TRIES_MAX {
            if self.send(server, (&body, spec.clone()), number, &key) {
                return;
            }
            self.book.pause(AGAIN);
            let Some(next) = self.book.server(true) else { return };
            server = next;
        }
    }

    /// One try; true if it was answered with a job.
    fn send(
        &mut self,
        server: SocketAddr,
        (body, spec): (&Value, Arc<Spec>),
        number: u64,
        key: &str,
    ) -> bool {
        let text = body.to_string();
        let hash = model::hash::hash(0, text.as_bytes());
        let id = JobId::mint(Time::MIN, Slot::of(DEFAULT, &spec.queue, 0), number << 2);
        let key_of = Some(KeyOf { key: Text::from(key), body: hash });
        let command = Command::Submit(vec![NewJob { id, spec, key: key_of, paused: false }]);
        let op = CommandId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let place = {
            let mut pages = self.book.pages();
            pages.ops.push(Op { id: op, command, sent: now(), heard: None });
            let place = pages.ops.len() - 1;
            pages.numbers.push((place, number));
            place
        };
        let reply = crate::http::ask_within(
            LIMITED_PATIENCE,
            server,
            ("POST", "/v1/jobs"),
            &text,
            Some(key),
        );
        let Ok(reply) = reply else { return false };
        let job = reply.body["id"].as_str().and_then(JobId::parse).filter(|_| reply.status < 300);
        let answer = match job {
            Some(job) => {
                let made = Made::Job(job);
                Answer::Submitted(vec![Ok(Submitted {
                    made,
                    next: None,
                    replayed: reply.replayed,
                })])
            }
            None => Answer::Refused(refused(&reply.body)),
        };
        let mut pages = self.book.pages();
        if let Some(op) = pages.ops.get_mut(place) {
            op.heard = Some((now(), answer));
            if let (Some(job), Command::Submit(list)) = (job, &mut op.command) {
                list.iter_mut().for_each(|new| new.id = job);
            }
        }
        job.is_some()
    }
}

fn description(queue: &Limited, group: Option<&str>, url: &str, payload: &Value) -> Spec {
    let target = match queue.webhook {
        true => {
            Target::Http { url: Text::from(url), method: Text::from("POST"), headers: Vec::new() }
        }
        false => Target::Worker { kind: Text::from("k") },
    };
    Spec {
        namespace: DEFAULT,
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(When::Now),
        target,
        payload: Bytes::from(payload.to_string().as_bytes()),
        content_type: Text::from("application/json"),
        queue: queue.queue.clone(),
        group: group.map(Text::from),
        priority: 5,
        policy: Policy {
            max_retries: 3,
            initial: Span::from_millis(50),
            factor: 2,
            cap: Span::from_millis(200),
            timeout: Span::from_secs(if queue.webhook { 30 } else { 3_600 }),
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

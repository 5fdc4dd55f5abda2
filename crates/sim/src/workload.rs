//! Clients: every verb, on jobs of every kind, with and without idempotency keys.

use crate::event::{Asker, Happens};
use crate::log::Op;
use crate::rng::Rng;
use crate::world::World;
use model::row::{BacklogId, Change, Made, Only, Row, Scope};
use model::{
    Bytes, CatchUp, Cause, Dialect, JobId, Namespace, Overlap, Policy, RunId, ScheduleSpec, Slot,
    Span, Spec, Target, Text, Time, When, Within,
};
use shard::Event;
use shard::command::{Answer, Command, CommandId, KeyOf, NewJob, Refused};
use std::sync::Arc;

pub const NAMESPACES: [Namespace; 2] = [Namespace(1), Namespace(2)];
const POISON: &[u8] = b"poison";

/// The queues of a shard. Real queues find their shard by a hash; here it is in the name.
pub fn queues(shard: u16) -> Vec<Text> {
    vec![Text::from(format!("q{shard}a")), Text::from(format!("q{shard}b"))]
}

/// A row that the store cannot keep.
pub fn is_poison(change: &Change) -> bool {
    matches!(&change.row, Some(Row::Run(run)) if run.body.as_ref().is_some_and(|b| *b.payload == *POISON))
}

#[derive(Debug)]
pub struct Workload {
    rng: Rng,
    jobs: Vec<(JobId, Arc<Spec>)>,
    recurring: Vec<(JobId, Arc<Spec>)>,
    runs: Vec<RunId>,
    keyed: Vec<NewJob>,
    backfills: Vec<BacklogId>,
    holds: Vec<(u16, Scope)>,
    ids: u64,
}

/// How many of each the clients remember.
const REMEMBERED: usize = 64;

impl Workload {
    pub fn new(rng: Rng) -> Workload {
        Workload {
            rng,
            jobs: Vec::new(),
            recurring: Vec::new(),
            runs: Vec::new(),
            keyed: Vec::new(),
            backfills: Vec::new(),
            holds: Vec::new(),
            ids: 0,
        }
    }

    pub fn seen(&mut self, run: RunId) {
        remember(&mut self.runs, run, &mut self.rng);
    }

    fn id(&mut self, now: Time, shard: u16) -> JobId {
        self.ids += 1;
        JobId::mint(now, Slot::from_bits(shard * 16), (self.rng.draw() << 20 | self.ids) << 2)
    }
}

fn remember<T>(list: &mut Vec<T>, item: T, rng: &mut Rng) {
    if list.len() < REMEMBERED {
        list.push(item);
    } else {
        let at = rng.below(REMEMBERED as u64) as usize;
        list[at] = item;
    }
}

impl World {
    pub(crate) fn client_step(&mut self) {
        if self.healed {
            return;
        }
        if self.is_limited() {
            let limited =
                self.log.ops.iter().any(|op| matches!(op.command, Command::SetQueue { .. }));
            if !limited {
                self.draw_limits();
            } else if self.rng.per_mille(10) {
                self.change_limits();
            }
        }
        let (shard, command) = self.draw_command();
        self.client_asks(shard, command);
        let every = self.options.client_every.micros();
        let wait = Span::from_micros(self.workload.rng.range(1, 2 * every));
        self.after(wait, Happens::Client);
    }

    pub(crate) fn client_asks(&mut self, shard: u16, command: Command) {
        let op = self.log.ops.len();
        let id = CommandId(self.last_command + 1);
        self.log.ops.push(Op { id, command: command.clone(), sent: self.now, heard: None });
        self.ask(Asker::Client { op }, shard, command, None);
    }

    fn draw_command(&mut self) -> (u16, Command) {
        let what = self.workload.rng.below(100);
        let job = self.pick_recurring();
        let run = self.workload.rng.clone().pick(&self.workload.runs).copied();
        let rng = &mut self.workload.rng;
        match (what, job, run) {
            (0..=4, _, Some(run)) => (run.job.shard().0, Command::CancelRun(run)),
            (5, Some((job, _)), _) => (job.shard().0, Command::CancelJob(job)),
            (6, Some((job, _)), _) => (job.shard().0, Command::DeleteJob(job)),
            (7..=9, Some((job, _)), _) => {
                let until = rng
                    .per_mille(500)
                    .then(|| self.now.plus(Span::from_millis(rng.range(500, 20_000))));
                let reason = Text::from("quiet");
                (job.shard().0, Command::Pause { job, reason, until })
            }
            (10..=13, Some((job, _)), _) => (job.shard().0, Command::Resume(job)),
            (14..=17, Some((job, spec)), _) => {
                let id = rng.draw();
                let payload = rng.per_mille(500).then(|| Bytes::from(&b"other"[..]));
                let key = rng.per_mille(300).then(|| KeyOf {
                    key: Text::from(format!("t{}", rng.below(20))),
                    body: job.bits().1 ^ u64::from(payload.is_some()),
                });
                let _ = spec;
                (job.shard().0, Command::Trigger { job, id, payload, key })
            }
            (18..=20, Some((job, spec)), _) => {
                let mut spec = (*spec).clone();
                spec.payload = Bytes::from(format!("v{}", rng.below(1_000)).as_bytes());
                if rng.per_mille(500) {
                    spec.schedule.when = When::Every(Span::from_millis(rng.range(1_000, 9_000)));
                }
                let if_version = rng.per_mille(200).then_some(1);
                let spec = Arc::new(spec);
                (job.shard().0, Command::Update { job, spec, if_version })
            }
            (21, _, _) => self.update_one_off(),
            (22..=25, _, Some(run)) => {
                let payload = rng.per_mille(300).then(|| Bytes::from(&b"mended"[..]));
                (run.job.shard().0, Command::Replay { run, payload })
            }
            (26, _, Some(run)) => (run.job.shard().0, Command::Discard(run)),
            (27..=28, _, Some(run)) => (run.job.shard().0, Command::Rerun { run }),
            (29..=31, Some((job, _)), _) => {
                let to = self.now.minus(Span::from_millis(rng.range(0, 5_000)));
                let from = to.minus(Span::from_millis(rng.range(1_000, 40_000)));
                let only = match rng.below(3) {
                    0 => Only::Missing,
                    1 => Only::Failed,
                    _ => Only::All,
                };
                let per_second = rng.range(5, 60) as u32;
                let key = None;
                (job.shard().0, Command::Backfill { job, from, to, only, per_second, key })
            }
            (32, _, _) if !self.workload.backfills.is_empty() => {
                let id = self.workload.backfills[0];
                (id.job.shard().0, Command::CancelBackfill(id))
            }
            (33, _, _) => self.draw_hold(),
            (34..=36, _, _) if !self.workload.holds.is_empty() => {
                let (shard, scope) = self.workload.holds.remove(0);
                (shard, Command::Release(scope))
            }
            (37..=42, _, _) if !self.workload.keyed.is_empty() => self.resubmit(),
            _ => self.submit(),
        }
    }

    fn pick_recurring(&mut self) -> Option<(JobId, Arc<Spec>)> {
        let at = self.workload.rng.below(self.workload.recurring.len().max(1) as u64) as usize;
        self.workload.recurring.get(at).cloned()
    }

    fn draw_hold(&mut self) -> (u16, Command) {
        let shard = self.workload.rng.below(u64::from(self.options.shards)) as u16;
        let namespace = NAMESPACES[self.workload.rng.below(2) as usize];
        let scope = match self.workload.rng.below(3) {
            0 => Scope::All,
            1 => Scope::Namespace(namespace),
            _ => Scope::Queue(namespace, queues(shard)[0].clone()),
        };
        let until = self
            .workload
            .rng
            .per_mille(500)
            .then(|| self.now.plus(Span::from_millis(self.workload.rng.range(100, 5_000))));
        self.workload.holds.push((shard, scope.clone()));
        (shard, Command::Hold { scope, reason: Text::from("stop"), until })
    }

    /// The same key again: with the same body (a retry of a caller who heard nothing), or with
    /// another one (a mistake that must be refused).
    fn resubmit(&mut self) -> (u16, Command) {
        let at = self.workload.rng.below(self.workload.keyed.len() as u64) as usize;
        let mut job = self.workload.keyed[at].clone();
        let shard = job.id.shard().0;
        job.id = self.workload.id(self.now, shard);
        if self.workload.rng.per_mille(200)
            && let Some(key) = &mut job.key
        {
            key.body ^= 1;
        }
        (shard, Command::Submit(vec![job]))
    }

    fn update_one_off(&mut self) -> (u16, Command) {
        let Some((job, spec)) = self.workload.rng.clone().pick(&self.workload.jobs).cloned() else {
            return self.submit();
        };
        let mut spec = (*spec).clone();
        spec.payload = Bytes::from(&b"changed"[..]);
        let at = self.now.plus(Span::from_millis(self.workload.rng.range(0, 4_000)));
        spec.schedule = ScheduleSpec::new(When::At(at));
        (job.shard().0, Command::Update { job, spec: Arc::new(spec), if_version: None })
    }

    fn submit(&mut self) -> (u16, Command) {
        let shard = self.workload.rng.below(u64::from(self.options.shards)) as u16;
        let herd = self.workload.rng.per_mille(self.options.herd);
        let count = if herd { 120 } else { self.workload.rng.range(1, self.options.batch) };
        let instant = self.now.plus(Span::from_secs(2));
        let jobs = (0..count)
            .map(|_| {
                let mut job = self.draw_job(shard);
                if herd {
                    let mut spec = (*job.spec).clone();
                    spec.namespace = NAMESPACES[0];
                    spec.schedule = ScheduleSpec::new(When::At(instant));
                    job.spec = Arc::new(spec);
                    job.key = None;
                }
                job
            })
            .collect::<Vec<_>>();
        for job in &jobs {
            let entry = (job.id, job.spec.clone());
            let rng = &mut self.workload.rng;
            if job.spec.schedule.is_recurring() {
                remember(&mut self.workload.recurring, entry, rng);
            } else {
                remember(&mut self.workload.jobs, entry, rng);
                remember(&mut self.workload.runs, RunId::new(job.id, Cause::OneOff), rng);
            }
            if job.key.is_some() {
                remember(&mut self.workload.keyed, job.clone(), rng);
            }
        }
        (shard, Command::Submit(jobs))
    }

    fn draw_job(&mut self, shard: u16) -> NewJob {
        let now = self.now;
        let (options, limited) = (&self.options, self.is_limited());
        let id = self.workload.id(now, shard);
        let rng = &mut self.workload.rng;
        let recurring = rng.per_mille(options.recurring) && self.workload.recurring.len() < 12;
        let mut schedule = if recurring {
            ScheduleSpec::new(match rng.below(3) {
                0 => When::Cron {
                    expression: format!("*/{} * * * * *", rng.range(1, 9)),
                    dialect: Dialect::Cron,
                },
                _ => When::Every(Span::from_millis(rng.range(1_000, 8_000))),
            })
        } else {
            ScheduleSpec::new(match rng.below(4) {
                0 => When::Now,
                1 => When::Delay(Span::from_millis(rng.range(0, 45_000))),
                2 => When::At(now.plus(Span::from_micros(rng.range(-1_000_000, 20_000_000)))),
                _ => When::Now,
            })
        };
        if recurring && rng.per_mille(200) {
            schedule.jitter = Some(Span::from_millis(rng.range(1, 3_000)));
        }
        if recurring && rng.per_mille(100) {
            schedule.max_runs = Some(rng.below(20) + 1);
        }
        let poison = options.poison && !recurring && rng.per_mille(30);
        let target = match rng.below(3) {
            0 => Target::Http {
                url: Text::from("http://127.0.0.1/"),
                method: Text::from("POST"),
                headers: Vec::new(),
            },
            1 => Target::Worker { kind: Text::from("a") },
            _ => Target::Worker { kind: Text::from("b") },
        };
        let spec = Spec {
            namespace: NAMESPACES[rng.below(2) as usize],
            name: None,
            owner: None,
            tags: Vec::new(),
            schedule,
            target,
            payload: if poison { Bytes::from(POISON) } else { Bytes::from(&b"{}"[..]) },
            content_type: Text::from("application/json"),
            queue: queues(shard)[rng.below(2) as usize].clone(),
            group: rng.per_mille(300).then(|| Text::from(format!("g{}", rng.below(3)))),
            priority: [5, 5, 5, 0, 9][rng.below(5) as usize],
            policy: Policy {
                max_retries: rng.below(4) as u16,
                initial: Span::from_millis(rng.range(20, 1_000)),
                factor: rng.range(1, 4) as u16,
                cap: Span::from_millis(rng.range(1_000, 3_000)),
                max_lost: rng.below(4) as u16,
                timeout: Span::from_millis(rng.range(3_000, 15_000)),
            },
            overlap: [Overlap::QueueOne, Overlap::Skip, Overlap::Allow, Overlap::CancelRunning]
                [rng.below(4) as usize],
            catch_up: match rng.below(3) {
                0 => CatchUp::Once,
                1 => CatchUp::Skip,
                _ => CatchUp::All {
                    window: Span::from_secs(rng.range(10, 300)),
                    max: rng.range(1, 40) as u32,
                    per_second: rng.range(1, 30) as u32,
                },
            },
            permanent: None,
            within: if limited { draw_within(rng) } else { Within::default() },
            request_id: None,
            api_key: crate::fires::key_of(self.seed, id),
            origin: model::Origin::default(),
        };
        let key = (rng.per_mille(options.keyed) && !poison)
            .then(|| KeyOf { key: Text::from(format!("k{}", rng.below(100_000))), body: 7 });
        NewJob { id, spec: Arc::new(spec), key, paused: recurring && rng.per_mille(50) }
    }

    pub(crate) fn client_hears(&mut self, op: usize, answer: Answer) {
        if let Answer::Made(Made::Backlog(id)) = &answer {
            remember(&mut self.workload.backfills, *id, &mut self.workload.rng);
        }
        self.count_replays(&answer);
        // A definite refusal because of where it was sent or when: the client asks again.
        let again =
            matches!(answer, Answer::Refused(Refused::NotOwner | Refused::Busy | Refused::TooLate));
        self.log.ops[op].heard = Some((self.now, answer));
        if again && !self.healed && self.workload.rng.per_mille(500) {
            let command = self.log.ops[op].command.clone();
            if let Some(shard) = shard_of(&command) {
                self.client_asks(shard, command);
            }
        }
    }

    /// Was a key asked again after its job's only run had ended?
    fn count_replays(&mut self, answer: &Answer) {
        let Answer::Submitted(items) = answer else { return };
        for item in items.iter().flatten().filter(|item| item.replayed) {
            if let Made::Job(job) = item.made
                && self.finished.contains(&RunId::new(job, Cause::OneOff))
            {
                self.log.count(Event::KeyReplayedAfterEnd);
            }
        }
    }

    /// No answer: with a key the client may safely ask again, as a new request for the same thing.
    pub(crate) fn client_gives_up(&mut self, op: usize) {
        let Command::Submit(jobs) = &self.log.ops[op].command else { return };
        let keyed: Vec<NewJob> = jobs.iter().filter(|job| job.key.is_some()).cloned().collect();
        if self.healed || keyed.is_empty() {
            return;
        }
        let shard = keyed[0].id.shard().0;
        let jobs = keyed
            .into_iter()
            .map(|mut job| {
                job.id = self.workload.id(self.now, shard);
                job
            })
            .collect();
        self.client_asks(shard, Command::Submit(jobs));
    }

    /// Ends the story: nothing is held, and no job fires any more.
    pub fn quieten(&mut self) {
        for shard in 0..self.options.shards {
            let mut scopes = vec![Scope::All];
            for namespace in NAMESPACES {
                scopes.push(Scope::Namespace(namespace));
                let queue = queues(shard)[0].clone();
                scopes.push(Scope::Queue(namespace, queue));
            }
            for scope in scopes {
                self.client_asks(shard, Command::Release(scope));
            }
        }
        if self.is_limited() {
            self.loosen_limits();
        }
    }

    pub fn pause_all(&mut self) {
        let mut jobs: Vec<JobId> = self
            .store
            .inner()
            .dump()
            .shards
            .iter()
            .flat_map(|shard| shard.rows.values())
            .filter_map(|row| match row {
                Row::Job(job) => Some(job.id),
                _ => None,
            })
            .collect();
        jobs.sort();
        for job in jobs {
            let reason = Text::from("the end");
            self.client_asks(job.shard().0, Command::Pause { job, reason, until: None });
        }
    }
}

fn draw_within(rng: &mut Rng) -> Within {
    let mut some = |least: i64, most: i64| {
        rng.per_mille(150).then(|| Span::from_millis(rng.range(least, most)))
    };
    Within { start: some(1_000, 15_000), finish: some(2_000, 40_000) }
}

fn shard_of(command: &Command) -> Option<u16> {
    match command {
        Command::Submit(jobs) => jobs.first().map(|job| job.id.shard().0),
        Command::CancelRun(run) | Command::Discard(run) => Some(run.job.shard().0),
        Command::Replay { run, .. } | Command::Rerun { run } => Some(run.job.shard().0),
        Command::Trigger { job, .. } | Command::Update { job, .. } => Some(job.shard().0),
        _ => None,
    }
}

//! Pull workers: they claim, work, beat and settle, and some of them die, freeze and come back as
//! zombies, answer late, or settle twice.

use crate::event::{Asked, Asker, Happens};
use crate::log::{SettleSeen, Start};
use crate::rng::Rng;
use crate::workload::{NAMESPACES, queues};
use crate::world::World;
use model::row::Holder;
use model::{Bytes, RunId, Span, Text, Time, Token};
use shard::command::{Answer, Beat, BeatAnswer, Claim, Command, End, Leased, SettleAnswer};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Worker {
    name: Text,
    number: usize,
    pub life: u64,
    pub frozen_until: Time,
    request: u64,
    /// A claim whose answer never came is asked again as it was.
    unanswered: Option<(u16, Claim)>,
    held: BTreeMap<RunId, Leased>,
    beating: bool,
}

/// How often a settle without an answer is sent again.
const SETTLE_TRIES: u8 = 8;

impl Worker {
    pub fn new(number: usize, rng: &mut Rng) -> Worker {
        Worker {
            name: Text::from(format!("w{number}.0")),
            number,
            life: 0,
            frozen_until: Time::MIN,
            request: rng.draw(),
            unanswered: None,
            held: BTreeMap::new(),
            beating: false,
        }
    }

    fn die(&mut self) {
        self.life += 1;
        self.name = Text::from(format!("w{}.{}", self.number, self.life));
        self.held.clear();
        self.unanswered = None;
        self.beating = false;
    }
}

impl World {
    pub(crate) fn worker_claims(&mut self, at: usize) {
        if !self.healed && self.rng.per_mille(self.options.worker_dies) {
            self.workers[at].die();
        }
        if !self.healed && self.rng.per_mille(self.options.worker_freezes) {
            let span = Span::from_millis(self.rng.range(1_000, 15_000));
            self.workers[at].frozen_until = self.now.plus(span);
        }
        let (shard, claim) = match self.workers[at].unanswered.take() {
            Some(again) => again,
            None => self.new_claim(at),
        };
        self.workers[at].unanswered = Some((shard, claim.clone()));
        let (life, request) = (self.workers[at].life, claim.request);
        let asker = Asker::Worker { worker: at, life, what: Asked::Claim { request } };
        let (node, id) = self.ask(asker, shard, Command::Claim(claim), None);
        if !self.healed && self.rng.per_mille(self.options.hang_up) {
            let wait = Span::from_micros(self.rng.range(100, 30_000));
            self.after(wait, Happens::HangUp { node, id });
        }
    }

    fn new_claim(&mut self, at: usize) -> (u16, Claim) {
        let mut shard = self.rng.below(u64::from(self.options.shards)) as u16;
        let mut namespace = NAMESPACES[self.rng.below(NAMESPACES.len() as u64) as usize];
        let mut kinds = match self.rng.below(4) {
            0 => Some(vec![Text::from("worker:a")]),
            _ => None,
        };
        let mut wait = self.rng.range(0, 1_500);
        if self.healed {
            // Everything must get done: every queue in turn, without lingering.
            let turn = self.workers[at].request;
            shard = (turn % u64::from(self.options.shards)) as u16;
            namespace = NAMESPACES
                [(turn / u64::from(self.options.shards) % NAMESPACES.len() as u64) as usize];
            (kinds, wait) = (None, 0);
        }
        let worker = &mut self.workers[at];
        worker.request += 1;
        let claim = Claim {
            holder: Holder::Worker(worker.name.clone()),
            namespace,
            queues: queues(shard),
            kinds,
            max: if self.healed { 50 } else { 1 + self.rng.below(12) as usize },
            lease: Span::from_millis(self.rng.range(1_500, 6_000)),
            request: worker.request,
            // In the store's time, which a worker does not know: the node that hears it does.
            wait_until: self.now.plus(Span::from_millis(wait)),
            reserve: worker.request % 4 != 3,
        };
        (shard, claim)
    }

    pub(crate) fn worker_hears(&mut self, at: usize, life: u64, what: Asked, answer: Answer) {
        if self.workers[at].life != life {
            return;
        }
        match (what, answer) {
            (Asked::Claim { request }, Answer::Claimed(leases)) => {
                self.workers[at].unanswered = None;
                let empty = leases.is_empty();
                for leased in leases {
                    self.begin_work(at, leased, request);
                }
                self.next_claim(at, empty);
            }
            (Asked::Claim { .. }, _) => {
                let wait = Span::from_millis(self.rng.range(50, 800));
                self.after(wait, Happens::Claim { worker: at });
            }
            (Asked::Beat { sent, beats }, Answer::Beats(answers)) => {
                for (beat, (run, answer)) in beats.into_iter().zip(answers) {
                    match answer {
                        BeatAnswer::Ok { .. } => self.log.beats.push((sent, beat)),
                        BeatAnswer::Cancel => {
                            let wait = Span::from_millis(self.rng.range(1, 200));
                            let token = beat.token;
                            let ends = Happens::WorkEnds { worker: at, life, run, token };
                            self.after(wait, ends);
                        }
                        // Told to stop: an honest worker does.
                        BeatAnswer::Stale => {
                            if self.rng.per_mille(700) {
                                self.workers[at].held.remove(&run);
                            }
                        }
                    }
                }
            }
            (Asked::Settle { run, token, end, seen, .. }, Answer::Settled(answers)) => {
                if let Some((_, answer)) = answers.first() {
                    self.heard_settle(seen, *answer);
                }
                self.workers[at].held.remove(&run);
                if self.rng.per_mille(100) {
                    let tries = SETTLE_TRIES - 1;
                    let again = Happens::SettleAgain { worker: at, life, run, token, end, tries };
                    let wait = Span::from_millis(self.rng.range(1, 4_000));
                    self.after(wait, again);
                }
            }
            (settle @ Asked::Settle { .. }, _) => self.worker_gives_up(at, life, settle),
            _ => {}
        }
    }

    pub(crate) fn worker_gives_up(&mut self, at: usize, life: u64, what: Asked) {
        if self.workers[at].life != life {
            return;
        }
        match what {
            Asked::Claim { .. } => self.after(Span::from_millis(10), Happens::Claim { worker: at }),
            Asked::Beat { .. } => {}
            Asked::Settle { run, token, end, tries, .. } => {
                if tries < SETTLE_TRIES {
                    let tries = tries + 1;
                    let again = Happens::SettleAgain { worker: at, life, run, token, end, tries };
                    let wait = Span::from_millis(self.rng.range(50, 900));
                    self.after(wait, again);
                } else {
                    self.workers[at].held.remove(&run);
                }
            }
        }
    }

    fn next_claim(&mut self, at: usize, empty: bool) {
        let wait = match self.workers[at].held.len() {
            _ if self.healed && empty => self.rng.range(100, 400),
            _ if self.healed => self.rng.range(1, 30),
            0..=30 => self.rng.range(1, 120),
            _ => self.rng.range(500, 2_000),
        };
        self.after(Span::from_millis(wait), Happens::Claim { worker: at });
    }

    fn begin_work(&mut self, at: usize, leased: Leased, request: u64) {
        let worker = &mut self.workers[at];
        let same = |held: &Leased| held.token == leased.token;
        if worker.held.get(&leased.run).is_some_and(same) {
            return;
        }
        worker.held.insert(leased.run, leased);
        let (life, holder) = (worker.life, Holder::Worker(worker.name.clone()));
        let beating = std::mem::replace(&mut worker.beating, true);
        self.log_start(leased, holder, request);
        let longest = if self.rng.per_mille(150) && !self.healed { 9_000 } else { 400 };
        let span = Span::from_millis(self.rng.range(1, longest));
        let (run, token) = (leased.run, leased.token);
        self.after(span, Happens::WorkEnds { worker: at, life, run, token });
        if !beating {
            let third = Span::from_micros(leased.lease.micros() / 3);
            self.after(third, Happens::Beat { worker: at, life });
        }
    }

    pub(crate) fn log_start(&mut self, leased: Leased, holder: Holder, request: u64) {
        self.note(leased.token.0);
        self.workload.seen(leased.run);
        self.log.starts.push(Start {
            at: self.now,
            run: leased.run,
            token: leased.token,
            attempt: leased.attempt,
            version: leased.version,
            nominal: leased.nominal,
            due: leased.due,
            holder,
            request,
        });
    }

    pub(crate) fn worker_beats(&mut self, at: usize, life: u64) {
        if self.workers[at].life != life {
            return;
        }
        if self.workers[at].held.is_empty() {
            self.workers[at].beating = false;
            return;
        }
        // Runs of one shard per call; the others follow with the next beat.
        let mut by_shard: BTreeMap<u16, Vec<Beat>> = BTreeMap::new();
        let mut shortest = Span::from_secs(6);
        for (run, leased) in &self.workers[at].held {
            shortest = shortest.min(leased.lease);
            let checkpoint = (leased.token.0 ^ self.steps).is_multiple_of(5).then(|| {
                Bytes::from(format!("{}@{}", leased.attempt, self.now.micros()).as_bytes())
            });
            let beat = Beat { run: *run, token: leased.token, checkpoint };
            by_shard.entry(run.job.shard().0).or_default().push(beat);
        }
        for (shard, beats) in by_shard {
            let what = Asked::Beat { sent: self.now, beats: beats.clone() };
            let asker = Asker::Worker { worker: at, life, what };
            self.ask(asker, shard, Command::Heartbeat(beats), None);
        }
        let third = Span::from_micros(shortest.micros() / 3);
        self.after(third, Happens::Beat { worker: at, life });
    }

    pub(crate) fn work_ends(&mut self, at: usize, life: u64, run: RunId, token: Token) {
        let held = self.workers[at].held.get(&run).is_some_and(|l| l.token == token);
        if self.workers[at].life == life && held {
            let end = self.draw_end();
            self.worker_settles(at, life, run, token, end, 0);
        }
    }

    pub(crate) fn draw_end(&mut self) -> End {
        if self.healed || !self.rng.per_mille(self.options.worker_fails) {
            return End::Succeeded { output: Some(Bytes::from(&b"done"[..])) };
        }
        match self.rng.below(8) {
            0 => End::TimedOut,
            1 => {
                End::Snoozed { until: self.now.plus(Span::from_millis(self.rng.range(10, 4_000))) }
            }
            2 => End::Released,
            kind => End::Failed {
                error: Text::from("no luck"),
                code: Some(500),
                retryable: kind != 3,
                retry_after: (kind == 4).then(|| Span::from_millis(self.rng.range(0, 3_000))),
            },
        }
    }

    pub(crate) fn worker_settles(
        &mut self,
        at: usize,
        life: u64,
        run: RunId,
        token: Token,
        end: End,
        tries: u8,
    ) {
        if self.workers[at].life != life {
            return;
        }
        let (seen, command) = self.log_settle(run, token, &end);
        let what = Asked::Settle { run, token, end, seen, tries };
        let asker = Asker::Worker { worker: at, life, what };
        self.ask(asker, run.job.shard().0, command, None);
    }

    pub(crate) fn log_settle(&mut self, run: RunId, token: Token, end: &End) -> (usize, Command) {
        let seen = SettleSeen { sent: self.now, run, token, end: end.clone(), heard: None };
        self.log.settles.push(seen);
        let settle = shard::command::Settle { run, token, end: end.clone() };
        (self.log.settles.len() - 1, Command::Settle(vec![settle]))
    }

    pub(crate) fn heard_settle(&mut self, seen: usize, answer: SettleAnswer) {
        self.log.settles[seen].heard = Some((self.now, answer));
        if let SettleAnswer::Ok { state, .. } = answer
            && state.is_final()
        {
            self.finished.insert(self.log.settles[seen].run);
        }
    }
}

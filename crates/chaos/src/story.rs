//! From what was seen to what the simulator's checker reads, and its verdict.
//!
//! **What the checker is told as it was seen**: every request and its answer, every attempt that a
//! receiver or worker got (run, token, number, when), every settle, every checkpoint.
//!
//! **What nobody outside can see is taken from the final store**: the id of a job whose submission
//! was never answered (found by the number in its payload), the version of an attempt, microseconds
//! where the interface tells milliseconds (compared first), which life of the node held a webhook's
//! lease. So for webhooks `one_holder_per_token` and `repeated_claims_get_the_same_leases` say
//! nothing here; a webhook that arrives twice under one token is looked for below instead.
//!
//! **Which invariants say nothing here, and why**: `poison_is_isolated` (no store of ours refuses a
//! payload); `memory_and_store_agree` judges what the server wrote on standard error. What a lost
//! tail forgives is forgiven only where a fault made one. All others are in force.

use crate::book::{Got, Pages};
use crate::cluster::Losses;
use model::row::{Holder, Key, LeaseRow, Row, RunRow};
use model::{Cause, JobId, NodeId, RunId, Span, Status, Time, Token};
use shard::Event;
use shard::command::{Answer, Command, End, SettleAnswer};
use sim::checker::{CheckSettings, Violation, check};
use sim::log::{Log, SettleSeen, Start};
use std::collections::{BTreeMap, BTreeSet};
use store::memory::Dump;

/// What became due later than so long before the end need not be done.
const SLACK: Span = Span::from_millis(1_500);

/// Several processes on two cores, each with its own way to the database.
const CLUSTER_SLACK: Span = Span::from_secs(4);

/// The final store, by what is looked for.
struct Stored<'a> {
    dump: &'a Dump,
    runs: BTreeMap<RunId, &'a RunRow>,
    leases: BTreeMap<RunId, &'a LeaseRow>,
}

impl<'a> Stored<'a> {
    fn new(dump: &'a Dump) -> Stored<'a> {
        let mut stored = Stored { dump, runs: BTreeMap::new(), leases: BTreeMap::new() };
        for row in dump.shards.iter().flat_map(|shard| shard.rows.values()) {
            match row {
                Row::Run(row) => drop(stored.runs.insert(row.id, row)),
                Row::Lease(row) => drop(stored.leases.insert(row.run, row)),
                _ => {}
            }
        }
        stored
    }

    /// Version, nominal and due instant of an attempt.
    fn attempt(&self, run: RunId, token: Token) -> Option<(u32, Time, Time)> {
        let shard = self.dump.shards.get(usize::from(run.job.shard().0))?;
        let key = (run, token);
        if let Ok(at) = shard.history.binary_search_by_key(&key, |row| (row.run, row.token)) {
            let row = &shard.history[at];
            return Some((row.version, row.nominal, row.due));
        }
        self.leases.get(&run).filter(|lease| lease.token == token)?;
        self.runs.get(&run).map(|row| (row.version, row.nominal, row.due))
    }

    /// When the next attempt was due after this one.
    fn next(&self, run: RunId, token: Token) -> Option<Time> {
        let shard = self.dump.shards.get(usize::from(run.job.shard().0))?;
        let found = shard.history.binary_search_by_key(&(run, token), |row| (row.run, row.token));
        found.ok().and_then(|at| shard.history[at].next)
    }
}

/// Every promise that was broken. `divergences`: how often the server said that its memory and its
/// store disagree.
pub fn judge(
    pages: Pages,
    dump: &Dump,
    divergences: u64,
    losses: &Losses,
    settings: &CheckSettings,
) -> Vec<Violation> {
    let stored = Stored::new(dump);
    let named = jobs_by_number(&pages.got, dump);
    let mut violations = own_checks(&pages, dump, &named, losses.number);
    let mut log = Log {
        settles: settles(&pages, &stored),
        starts: pages.got.iter().map(|got| start(got, &stored)).collect(),
        ops: pages.ops,
        beats: pages.beats,
        tail_lost: losses.times.clone(),
        lost_epochs: losses.epochs.clone(),
        ..Log::default()
    };
    name_unanswered(&mut log, &pages.numbers, &named);
    if divergences > 0 {
        log.events.insert(Event::Divergence, divergences);
    }
    violations.extend(check(&log, dump, settings));
    violations
}

/// One process with its store inside: little is forgiven.
pub fn embedded(healed_at: Time) -> CheckSettings {
    CheckSettings {
        healed: true,
        healed_at,
        slack: SLACK,
        clock_lag: Span::from_secs(1),
        recovery: Span::from_secs(1),
        ..CheckSettings::default()
    }
}

/// Nodes that freeze and a database that is away: an answer may be on its way for long, and a dead
/// node's lease has to run out. `since_stop`: so long before the end the nodes were told to stop.
pub fn cluster(healed_at: Time, since_stop: Span) -> CheckSettings {
    CheckSettings {
        healed: true,
        healed_at,
        slack: Span::from_micros(CLUSTER_SLACK.micros().saturating_add(since_stop.micros().max(0))),
        clock_lag: Span::from_secs(30),
        recovery: Span::from_secs(15),
        // Every commit names the timeline it expects: who has not noticed commits nothing.
        loss_grace: Span::from_secs(10),
        ..CheckSettings::default()
    }
}

/// `told` is in whole milliseconds, rounded up: is it what is stored?
fn same(told: Option<Time>, stored: Time) -> bool {
    let up = stored.micros().div_euclid(1_000) + i64::from(stored.micros().rem_euclid(1_000) != 0);
    told.is_none_or(|told| told.micros() == up * 1_000)
}

fn start(got: &Got, stored: &Stored<'_>) -> Start {
    let (mut version, mut nominal, mut due) = (1, got.nominal, got.due);
    if let Some((found, at, ready)) = stored.attempt(got.run, got.token) {
        version = found;
        // What was told and is not what is stored stays, for the checker to find.
        nominal = if same(got.nominal, at) { Some(at) } else { got.nominal };
        due = if same(got.due, ready) { Some(ready) } else { got.due };
    }
    let lease = stored.leases.get(&got.run).filter(|lease| lease.token == got.token);
    let (holder, request) = match (&got.worker, lease) {
        // A shard is asked again under another number for what is left of a claim.
        (Some((name, request)), lease) => {
            let holder = Holder::Worker(name.clone());
            let lease = lease.filter(|lease| lease.holder == holder);
            (holder, lease.map_or(*request, |lease| lease.request))
        }
        (None, Some(lease)) => (lease.holder.clone(), lease.request),
        // A number of its own for every attempt; tokens are a shard's.
        (None, None) => (Holder::Node(NodeId { node: 1, boot: 0 }), one_of(got)),
    };
    Start {
        at: got.at,
        run: got.run,
        token: got.token,
        attempt: got.attempt,
        version,
        nominal: nominal.unwrap_or(Time::MIN),
        due: due.unwrap_or(Time::MIN),
        holder,
        request,
    }
}

fn one_of(got: &Got) -> u64 {
    model::hash::hash(got.token.0, got.run.to_string().as_bytes())
}

fn settles(pages: &Pages, stored: &Stored<'_>) -> Vec<SettleSeen> {
    let mut all: Vec<SettleSeen> = Vec::new();
    for said in &pages.said {
        let heard = said.heard.map(|(at, answer)| match answer {
            SettleAnswer::Ok { state, next: Some(next) } => {
                let exact = stored.next(said.run, said.token).filter(|at| same(Some(next), *at));
                (at, SettleAnswer::Ok { state, next: exact.or(Some(next)) })
            }
            other => (at, other),
        });
        let (sent, run, token) = (said.sent, said.run, said.token);
        all.push(SettleSeen { sent, run, token, end: said.end.clone(), heard });
    }
    // What a node says about attempts of its own nobody outside hears: it hands back a claim that
    // nobody got (which is cancelled, if that was asked meanwhile), and it stops a webhook whose run
    // was cancelled. That somebody asked for the cancel is checked (`cancelled_only_if_asked`). And it
    // puts a webhook off whose destination has no room or fails, which the receiver never sees.
    let got: BTreeSet<(RunId, Token)> = pages.got.iter().map(|got| (got.run, got.token)).collect();
    for row in stored.dump.shards.iter().flat_map(|shard| &shard.history) {
        let webhook = row.flow.as_ref().is_some_and(|flow| &*flow.kind == "http");
        let unheard = row.token != Token::NONE && !got.contains(&(row.run, row.token));
        let end = match row.status {
            Status::Released if unheard => End::Released,
            Status::Snoozed if unheard && webhook => {
                End::Snoozed { until: row.next.unwrap_or(row.finished) }
            }
            Status::Cancelled if unheard || webhook => End::Released,
            // Its host had no room: it comes again, and nothing was sent.
            Status::Snoozed if unheard && webhook => match row.next {
                Some(until) => End::Snoozed { until },
                None => continue,
            },
            _ => continue,
        };
        let (run, token) = (row.run, row.token);
        all.push(SettleSeen { sent: row.finished, run, token, end, heard: None });
    }
    all
}

/// Numbers of payloads and the jobs that carry them, in order.
type Numbered = Vec<(u64, JobId)>;

/// Which jobs carry which payload, whoever saw it.
fn jobs_by_number(got: &[Got], dump: &Dump) -> Numbered {
    let number = |payload: &[u8]| {
        crate::receiver::number(&serde_json::from_slice(payload).unwrap_or_default())
    };
    let mut found: Numbered =
        got.iter().filter_map(|got| Some((got.number?, got.run.job))).collect();
    for (key, row) in dump.shards.iter().flat_map(|shard| &shard.rows) {
        let (job, spec) = match (key, row) {
            (Key::Run(run), Row::Run(row)) => (run.job, row.body.as_ref()),
            (Key::Spec(job, _), Row::Spec(spec)) => (*job, Some(spec)),
            _ => continue,
        };
        if let Some(n) = spec.and_then(|spec| number(&spec.payload)) {
            found.push((n, job));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn job_of(jobs: &Numbered, number: u64) -> Option<JobId> {
    let at = jobs.partition_point(|(known, _)| *known < number);
    jobs.get(at).filter(|(known, _)| *known == number).map(|(_, job)| *job)
}

/// A submission that was not answered, or refused, may have made a job all the same: the checker
/// shall know it, and say of a refused one that it should not be there.
fn name_unanswered(log: &mut Log, numbers: &[(usize, u64)], jobs: &Numbered) {
    for (place, first) in numbers {
        let Some(op) = log.ops.get_mut(*place) else { continue };
        let Command::Submit(list) = &mut op.command else { continue };
        for (at, new) in list.iter_mut().enumerate() {
            let made = match &op.heard {
                Some((_, Answer::Submitted(results))) => results.get(at).is_some_and(Result::is_ok),
                _ => false,
            };
            if let (false, Some(job)) = (made, job_of(jobs, first + at as u64)) {
                new.id = job;
            }
        }
    }
}

/// What the simulator's checker cannot ask, because there clients choose ids.
///
/// A request from before a loss of the database's tail may have made a job that was then forgotten,
/// and another when it was repeated.
fn own_checks(pages: &Pages, dump: &Dump, named: &Numbered, forgotten: u64) -> Vec<Violation> {
    let mut found = Vec::new();
    let twice = named.windows(2).filter(|two| two[0].0 == two[1].0 && two[0].0 > forgotten);
    for pair in twice {
        let ((number, job), (_, other)) = (pair[0], pair[1]);
        let detail = format!("the request with payload {number} made {job} and {other}");
        found.push(Violation { invariant: "one_job_per_request", detail });
    }
    let mut seen = BTreeSet::new();
    for got in pages.got.iter().filter(|got| got.worker.is_none()) {
        if !seen.insert((got.run, got.token)) {
            let detail = format!("{} came twice under {:?}", got.run, got.token);
            found.push(Violation { invariant: "one_webhook_per_token", detail });
        }
    }
    // A job that was never sent: nothing makes jobs by itself.
    let mut known: BTreeSet<JobId> = BTreeSet::new();
    for (place, first) in &pages.numbers {
        let Some(Command::Submit(list)) = pages.ops.get(*place).map(|op| &op.command) else {
            continue;
        };
        known.extend(list.iter().map(|new| new.id));
        known.extend((0..list.len() as u64).filter_map(|at| job_of(named, first + at)));
    }
    for (key, _) in dump.shards.iter().flat_map(|shard| &shard.rows) {
        let job = match key {
            Key::Job(job) => *job,
            Key::Run(run) if run.cause() == Cause::OneOff => run.job,
            _ => continue,
        };
        if !known.contains(&job) {
            let detail = format!("{job} is stored and nobody sent it");
            found.push(Violation { invariant: "jobs_were_sent", detail });
        }
    }
    found
}

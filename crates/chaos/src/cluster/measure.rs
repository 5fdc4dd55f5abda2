//! What a run measured: how long takeovers took, how many submissions succeeded, how late firing was.

use super::{Evidence, Kind, Window, planned};
use crate::book::Got;
use model::{JobId, ShardId, Time, Token};
use shard::command::{Answer, Command, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Measured {
    pub faults: usize,
    pub kinds: usize,
    /// Each time a job was sent.
    pub submissions: usize,
    /// Jobs that somebody was told of.
    pub jobs: usize,
    pub succeeded: usize,
    pub attempts: usize,
    pub recurring_fires: usize,
    pub lost: usize,
    /// Milliseconds from the fault to the first fire of a moved shard under its new owner.
    pub takeovers: BTreeMap<Kind, Vec<i64>>,
    /// Those that took longer than is asked, in words; only where fires are planned, others are too rare to tell.
    pub slow: Vec<String>,
    /// Faults before whose first fire nothing had fallen due for a while in the shards that moved: whoever was stuck with a
    /// dead node submitted nothing that would be due now. How long such a takeover took is not known.
    pub unmeasured: usize,
    /// Milliseconds from the fault until everything that fell due before the first fire was out.
    pub gaps: BTreeMap<Kind, Vec<i64>>,
    /// Runs that were delivered more than once where there was no fault.
    pub repeated: usize,
    /// Shards that changed their owner while nothing should have moved one.
    pub moved: usize,
    /// How long a submission that succeeded took, in milliseconds.
    pub took: Vec<i64>,
    /// What submissions heard that did not succeed.
    pub refusals: BTreeMap<String, usize>,
    pub refusals_in_restarts: BTreeMap<String, usize>,
    /// How late first attempts were, in milliseconds: over everything, and during rolling restarts.
    pub late: Vec<i64>,
    pub late_in_restarts: Vec<i64>,
    /// Submissions during rolling restarts, and those that succeeded.
    pub restarts: (usize, usize),
    /// Of all proxies: connections made, bytes passed, connections reset.
    pub proxies: (u64, u64, u64),
}

/// One line about a fault as it was done.
pub fn line(window: &Window) -> String {
    let moved = moved(window);
    let renewed = window.before.iter().zip(&window.after).filter(|(was, is)| was.2 != is.2).count();
    let millis = |from: Time, to: Time| to.since(from).micros() / 1_000;
    let node = window.node.map_or("all".to_string(), |node| format!("node {node}"));
    format!(
        "{:<18} {node:<7} lasted {:>5} ms, whole again after {:>5} ms; {moved:>3} shards moved, {renewed:>3} epochs",
        format!("{:?}", window.kind),
        millis(window.begin, window.end),
        millis(window.end, window.recovered),
    )
}

#[derive(Default)]
struct Submissions {
    sent: usize,
    succeeded: usize,
    took: Vec<i64>,
    refusals: BTreeMap<String, usize>,
}

/// Every submission but those that must be refused; the jobs of a batch are as many.
fn submissions(evidence: &Evidence, from: Time, until: Time) -> Submissions {
    let mut all = Submissions::default();
    for op in evidence.pages.ops.iter().filter(|op| op.sent >= from && op.sent < until) {
        let Command::Submit(jobs) = &op.command else { continue };
        let (words, count) = match &op.heard {
            Some((_, Answer::Refused(Refused::KeyReused))) => continue,
            Some((at, Answer::Submitted(list))) => {
                let made = list.iter().filter(|item| item.is_ok()).count();
                all.succeeded += made;
                all.sent += made;
                if made == list.len() {
                    all.took.push(at.since(op.sent).micros() / 1_000);
                    continue;
                }
                let first = list.iter().find_map(|item| item.err());
                (first.map_or(String::new(), |why| format!("{why:?}")), list.len() - made)
            }
            Some((_, Answer::Refused(refused))) => (format!("{refused:?}"), jobs.len()),
            Some(_) => ("another answer".to_string(), jobs.len()),
            None => ("no answer".to_string(), jobs.len()),
        };
        all.sent += count;
        *all.refusals.entry(words).or_default() += count;
    }
    all.took.sort_unstable();
    all
}

/// How many jobs clients were told of.
fn jobs(evidence: &Evidence) -> usize {
    let told = evidence.pages.ops.iter().filter_map(|op| match (&op.command, &op.heard) {
        (Command::Submit(jobs), Some((_, Answer::Submitted(list)))) => Some(jobs.iter().zip(list)),
        _ => None,
    });
    let made = told.flatten().filter(|(_, item)| item.is_ok()).map(|(job, _)| job.id);
    let mut made: Vec<JobId> = made.collect();
    made.sort_unstable();
    made.dedup();
    made.len()
}

/// How late the first attempts were that became due in this time.
fn lateness(evidence: &Evidence, from: Time, until: Time) -> Vec<i64> {
    let mut late: Vec<i64> = Vec::new();
    let mut seen = BTreeSet::new();
    for got in evidence.pages.got.iter().filter(|got| got.worker.is_none() && got.attempt == 1) {
        // Webhooks tell the nominal instant; only occurrences fire at it.
        let model::Cause::Occurrence(due) = got.run.cause() else { continue };
        if due >= from && due < until && seen.insert(got.run) {
            late.push(got.at.since(due).micros() / 1_000);
        }
    }
    late.sort_unstable();
    late
}

fn takeover(window: &Window, got: &[Got]) -> Option<i64> {
    let moved: BTreeMap<ShardId, _> = (window.before.iter().zip(&window.after))
        .filter(|(was, is)| was.1 != is.1)
        .map(|(was, _)| (was.0, was.2))
        .collect();
    let first = got.iter().filter(|got| {
        got.at > window.begin
            && moved.get(&got.run.job.shard()).is_some_and(|epoch| epoch_of(got.token) > *epoch)
    });
    let first = first.map(|got| got.at).min()?;
    Some(first.since(window.begin).micros() / 1_000)
}

/// What is asked of 99 in 100 takeovers under a steady load, in milliseconds.
const FIRST_FIRE_MOST: i64 = 4_500;

fn slow(number: usize, window: &Window, took: i64) -> Option<String> {
    let begin = wire::timestamp::format(window.begin.micros());
    let (kind, node) = (window.kind, window.node.unwrap_or(0));
    let words = format!("{number} {kind:?} of node {node} at {begin}: first fire after {took} ms");
    (took > FIRST_FIRE_MOST).then_some(words)
}

/// How many shards have another owner than before.
fn moved(window: &Window) -> usize {
    window.before.iter().zip(&window.after).filter(|(was, is)| was.1 != is.1).count()
}

/// When each one-off of the load in bulk was due, and when it was first delivered; in order.
fn due(evidence: &Evidence) -> Vec<(Time, JobId, Option<Time>)> {
    if evidence.bulk.ahead.is_none() {
        return Vec::new();
    }
    let mut first: BTreeMap<JobId, Time> = BTreeMap::new();
    for got in &evidence.pages.got {
        let at = first.entry(got.run.job).or_insert(got.at);
        *at = got.at.min(*at);
    }
    let mut due = Vec::new();
    for op in &evidence.pages.ops {
        let (Command::Submit(jobs), Some((_, Answer::Submitted(list)))) = (&op.command, &op.heard)
        else {
            continue;
        };
        for (job, _) in jobs.iter().zip(list).filter(|(_, item)| item.is_ok()) {
            // What was sent too late to be in the store before its time says nothing.
            if let model::When::At(at) = job.spec.schedule.when
                && op.heard.as_ref().is_some_and(|(heard, _)| *heard < at)
            {
                due.push((at, job.id, first.get(&job.id).copied()));
            }
        }
    }
    due.sort_unstable();
    due.dedup();
    due
}

/// The shards that changed their owner.
fn moved_shards(window: &Window) -> BTreeSet<ShardId> {
    let both = window.before.iter().zip(&window.after);
    both.filter(|(was, is)| was.1 != is.1).map(|(was, _)| was.0).collect()
}

/// What fires so soon after its time was not held up by a takeover.
const OVERDUE_LEAST: model::Span = model::Span::from_secs(1);

/// Was nothing overdue when the first one fired? For loads whose fires are all planned, and known.
fn is_idle(window: &Window, took: i64, due: &[(Time, JobId, Option<Time>)]) -> bool {
    let until = window.begin.plus(model::Span::from_millis(took - OVERDUE_LEAST.micros() / 1_000));
    let shards = moved_shards(window);
    let from = due.partition_point(|(at, ..)| *at < window.begin);
    let mut overdue = due[from..].iter().take_while(|(at, ..)| *at <= until);
    !overdue.any(|(_, job, _)| shards.contains(&job.shard()))
}

/// Until the last of those was out that fell due between the fault and the first fire after it, in
/// the shards that moved.
fn gap(window: &Window, took: i64, due: &[(Time, JobId, Option<Time>)]) -> Option<i64> {
    let until = window.begin.plus(model::Span::from_millis(took));
    let shards = moved_shards(window);
    let from = due.partition_point(|(at, ..)| *at < window.begin);
    let within = due[from..].iter().take_while(|(at, ..)| *at <= until);
    let out = within.filter(|(_, job, _)| shards.contains(&job.shard()));
    let last = out.filter_map(|(_, _, out)| *out).max()?;
    Some(last.since(window.begin).micros() / 1_000)
}

fn epoch_of(token: Token) -> model::Epoch {
    token.epoch()
}

pub fn measure(evidence: &Evidence) -> Measured {
    let all = submissions(evidence, Time::MIN, evidence.healed_at);
    let kinds: BTreeSet<_> = evidence.windows.iter().map(|window| window.kind).collect();
    let mut measured = Measured {
        faults: evidence.windows.len(),
        kinds: kinds.len(),
        submissions: all.sent,
        jobs: jobs(evidence),
        succeeded: all.succeeded,
        took: all.took,
        refusals: all.refusals,
        attempts: evidence.pages.got.len(),
        late: lateness(evidence, Time::MIN, evidence.healed_at),
        ..Measured::default()
    };
    measured.recurring_fires = measured.late.len();
    measured.lost = planned::lost(evidence).count();
    measured.repeated = planned::repeated(evidence).len();
    let still = evidence.windows.iter().filter(|window| window.kind.moves_nothing());
    measured.moved = still.map(|window| window.moved + moved(window)).sum();
    let due = due(evidence);
    for (number, window) in evidence.windows.iter().enumerate() {
        if window.kind.is_takeover() {
            let took = takeover(window, &evidence.pages.got);
            let planned = evidence.bulk.ahead.is_some();
            let none = planned && took.is_some_and(|took| is_idle(window, took, &due));
            measured.unmeasured += usize::from(none);
            let took = took.filter(|_| !none);
            if planned {
                measured.slow.extend(took.and_then(|took| slow(number, window, took)));
            }
            measured.takeovers.entry(window.kind).or_default().extend(took);
            let gap = took.and_then(|took| gap(window, took, &due));
            measured.gaps.entry(window.kind).or_default().extend(gap);
        }
        if window.kind == super::Kind::RollingRestart {
            let during = submissions(evidence, window.begin, window.recovered);
            measured.restarts.0 += during.sent;
            measured.restarts.1 += during.succeeded;
            add(&mut measured.refusals_in_restarts, during.refusals);
            measured.late_in_restarts.extend(lateness(evidence, window.begin, window.recovered));
        }
    }
    measured.takeovers.values_mut().for_each(|list| list.sort_unstable());
    measured.gaps.values_mut().for_each(|list| list.sort_unstable());
    measured.late_in_restarts.sort_unstable();
    measured
}

fn add(sum: &mut BTreeMap<String, usize>, more: BTreeMap<String, usize>) {
    for (words, count) in more {
        *sum.entry(words).or_default() += count;
    }
}

/// An occurrence that fires so soon after its time is on time.
const IN_TIME_MILLIS: i64 = 1_000;

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 100.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Median, 99 of 100, and the largest.
struct Spread<'a>(&'a [i64]);

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent: usize| self.0.get((self.0.len().saturating_sub(1)) * percent / 100);
        match (at(50), at(99), self.0.last()) {
            (Some(half), Some(most), Some(last)) => {
                write!(f, "p50 {half} ms, p99 {most} ms, most {last} ms ({})", self.0.len())
            }
            _ => write!(f, "none"),
        }
    }
}

impl Measured {
    pub fn add(&mut self, other: Measured) {
        self.faults += other.faults;
        self.kinds = self.kinds.max(other.kinds);
        self.submissions += other.submissions;
        self.jobs += other.jobs;
        self.succeeded += other.succeeded;
        self.attempts += other.attempts;
        self.recurring_fires += other.recurring_fires;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.moved += other.moved;
        self.slow.extend(other.slow);
        self.unmeasured += other.unmeasured;
        for (kind, took) in other.gaps {
            self.gaps.entry(kind).or_default().extend(took);
        }
        for (kind, took) in other.takeovers {
            self.takeovers.entry(kind).or_default().extend(took);
        }
        self.took.extend(other.took);
        add(&mut self.refusals, other.refusals);
        add(&mut self.refusals_in_restarts, other.refusals_in_restarts);
        self.late.extend(other.late);
        self.late_in_restarts.extend(other.late_in_restarts);
        self.restarts.0 += other.restarts.0;
        self.restarts.1 += other.restarts.1;
        self.proxies.0 += other.proxies.0;
        self.proxies.1 += other.proxies.1;
        self.proxies.2 += other.proxies.2;
        self.takeovers.values_mut().for_each(|list| list.sort_unstable());
        self.gaps.values_mut().for_each(|list| list.sort_unstable());
        for list in [&mut self.took, &mut self.late, &mut self.late_in_restarts] {
            list.sort_unstable();
        }
    }
}

impl Measured {
    /// As a line of docs/ledger.md: seed, jobs, faults, verdict.
    pub fn row(&self, seed: u64, took: Duration, violations: usize) -> String {
        let rate = percent(self.succeeded, self.submissions);
        format!(
            "| {seed} | {} ({} sent, {rate:.1} % at the first try) | {} of {} kinds in {} s | {} attempts lost, {} delivered again without a fault; {violations} violations |",
            self.jobs,
            self.submissions,
            self.faults,
            self.kinds,
            took.as_secs(),
            self.lost,
            self.repeated
        )
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = percent(self.succeeded, self.submissions);
        writeln!(
            f,
            "chaos: cluster: {} faults of {} kinds, {} submissions ({rate:.2} % succeeded at the first try) of {} jobs, {} attempts, {} occurrences, {} attempts lost",
            self.faults,
            self.kinds,
            self.submissions,
            self.jobs,
            self.attempts,
            self.recurring_fires,
            self.lost
        )?;
        writeln!(
            f,
            "chaos: cluster: submissions took {}; others heard {:?}",
            Spread(&self.took),
            self.refusals
        )?;
        for (kind, took) in &self.takeovers {
            writeln!(f, "chaos: cluster: takeover after {kind:?}, first fire: {}", Spread(took))?;
        }
        if self.unmeasured > 0 {
            writeln!(
                f,
                "chaos: cluster: after {} faults nothing was due that could have been late",
                self.unmeasured
            )?;
        }
        for slow in &self.slow {
            writeln!(f, "chaos: cluster: slow: {slow}")?;
        }
        let whole = |all: &BTreeMap<Kind, Vec<i64>>| {
            let mut list: Vec<i64> = all.values().flatten().copied().collect();
            list.sort_unstable();
            list
        };
        if self.gaps.values().any(|gaps| !gaps.is_empty()) {
            for (kind, took) in &self.gaps {
                writeln!(f, "chaos: cluster: all out after {kind:?}: {}", Spread(took))?;
            }
            let (first, all) = (whole(&self.takeovers), whole(&self.gaps));
            writeln!(
                f,
                "chaos: cluster: all takeovers, first fire: {}; all out: {}",
                Spread(&first),
                Spread(&all)
            )?;
        }
        writeln!(
            f,
            "chaos: cluster: delivered again without a fault: {}; owners changed where nothing should move: {}",
            self.repeated, self.moved
        )?;
        // All fire, or the checker says which did not; what availability means is when.
        let in_time = self.late.partition_point(|late| *late <= IN_TIME_MILLIS);
        writeln!(
            f,
            "chaos: cluster: occurrences late by: {}; {:.2} % fired within {IN_TIME_MILLIS} ms",
            Spread(&self.late),
            percent(in_time, self.late.len())
        )?;
        let (made, bytes, torn) = self.proxies;
        writeln!(
            f,
            "chaos: cluster: through proxies: {made} connections, {bytes} bytes, {torn} resets"
        )?;
        let rate = percent(self.restarts.1, self.restarts.0);
        write!(
            f,
            "chaos: cluster: rolling restarts: {} of {} submissions succeeded at the first try ({rate:.3} %, others heard {:?}), occurrences late by: {}",
            self.restarts.1,
            self.restarts.0,
            self.refusals_in_restarts,
            Spread(&self.late_in_restarts)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Epoch, NodeId, Slot};

    #[test]
    fn a_takeover_counts_only_where_something_was_overdue() {
        let begin = Time::from_secs(1_000);
        let after = |millis| begin.plus(model::Span::from_millis(millis));
        let job = |shard: u16| {
            let mut slots = (0..u16::MAX).map(Slot::from_bits);
            let slot = slots.find(|slot| slot.shard() == ShardId(shard));
            JobId::mint(begin, slot.expect("each shard has slots"), 4)
        };
        let owners = |first: u32| -> super::super::Owners {
            let owner = |node| Some(NodeId { node, boot: 1 });
            vec![(ShardId(1), owner(first), Epoch(1)), (ShardId(2), owner(2), Epoch(1))]
        };
        let window = Window {
            kind: Kind::NodeKilled,
            node: Some(1),
            begin,
            end: after(6_000),
            recovered: after(6_000),
            before: owners(1),
            after: owners(2),
            moved: 0,
        };
        // Before it, in a shard that stayed, and on time.
        let mut due = vec![
            (after(-10), job(1), Some(after(-5))),
            (after(10), job(2), Some(after(15))),
            (after(4_500), job(1), Some(after(5_000))),
        ];
        assert!(is_idle(&window, 5_000, &due), "how long it took is not known");
        due.insert(2, (after(3_900), job(1), Some(after(5_100))));
        assert!(!is_idle(&window, 5_000, &due), "one waited for more than a second");
        assert!(slow(7, &window, 5_000).is_some_and(|words| words.contains("after 5000 ms")));
        assert_eq!(slow(7, &window, 4_500), None);
    }
}

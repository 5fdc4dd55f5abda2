//! What lies between two looks at a server: rates, how late runs began, what waits, what fails and
//! what comes next. The form of `duly top --json`.

use super::look::Look;
use crate::failure::Failure;
use crate::limits::{TOP_FAILING, TOP_NEXT};
use crate::show;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use wire::timestamp;

#[derive(Debug, Serialize)]
pub struct Frame {
    pub at: String,
    pub address: String,
    pub version: String,
    pub health: &'static str,
    /// Rates are of so long.
    pub interval_ms: i64,
    pub rates: BTreeMap<&'static str, Rate>,
    /// How late the runs of the interval began; null without any.
    pub skew: Option<Skew>,
    pub queues: Vec<Value>,
    pub failing: Vec<Failing>,
    pub next: Vec<Next>,
    /// False: only the newest jobs were looked at.
    pub next_complete: bool,
    /// Why the last look failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    pub per_second: f64,
    /// Since the server started.
    pub total: u64,
}

/// At most so many milliseconds; null: more than a minute.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Skew {
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub runs: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Failing {
    pub job_id: String,
    pub name: Option<String>,
    pub retrying: u64,
    pub dead: u64,
    /// Of the newest of its runs.
    pub error: String,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Next {
    pub job_id: String,
    pub name: Option<String>,
    pub due_at: String,
    pub in_ms: i64,
}

/// What is counted per second, and where /metrics has it.
pub const RATES: [(&str, &str); 6] = [
    ("fired", "duly_fire_skew_seconds_count"),
    ("succeeded", "duly_attempts_total{outcome=\"succeeded\"}"),
    ("failed", "duly_attempts_total{outcome=\"failed\"}"),
    ("retried", "duly_retries_total"),
    ("died", "duly_dead_letters_total"),
    ("submitted", "duly_jobs_submitted_total"),
];

const SKEW: &str = "duly_fire_skew_seconds_bucket{le=\"";

impl Frame {
    pub fn between(before: &Look, now: &Look) -> Frame {
        let elapsed = now.taken.since(before.taken).micros();
        let rate = |series: &str| {
            // A server that was started anew counts from zero: then there is nothing to compare.
            let grown = (now.series(series) - before.series(series)).max(0.0);
            let seconds = elapsed as f64 / 1_000_000.0;
            let per_second = if seconds > 0.0 { grown / seconds } else { 0.0 };
            Rate {
                per_second: (per_second * 100.0).round() / 100.0,
                total: now.series(series) as u64,
            }
        };
        let mut next: Vec<Next> = now.jobs.iter().filter_map(|job| next(job, now)).collect();
        next.sort_by(|a, b| (a.in_ms, &a.job_id).cmp(&(b.in_ms, &b.job_id)));
        next.truncate(TOP_NEXT);
        Frame {
            at: timestamp::format(now.wall.micros()),
            address: now.address.clone(),
            version: now.version.clone(),
            health: if now.ready { "ready" } else { "starting" },
            interval_ms: elapsed / 1_000,
            rates: RATES.iter().map(|(name, series)| (*name, rate(series))).collect(),
            skew: skew(before, now),
            queues: now.queues.clone(),
            failing: failing(now),
            next,
            next_complete: !now.more_jobs,
            trouble: None,
        }
    }

    pub fn json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string(self)
            .map_err(|error| Failure::failed(format!("no JSON: {error}")))?;
        Ok(text + "\n")
    }
}

/// From the histogram's buckets: each counts what is at most its bound.
fn skew(before: &Look, now: &Look) -> Option<Skew> {
    let bounds =
        now.series.range(SKEW.to_string()..).take_while(|(name, _)| name.starts_with(SKEW));
    let mut grown: Vec<(f64, f64)> = bounds
        .filter_map(|(name, value)| {
            let bound = name.strip_prefix(SKEW)?.strip_suffix("\"}")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, (value - before.series(name)).max(0.0)))
        })
        .collect();
    grown.sort_by(|a, b| a.0.total_cmp(&b.0));
    let runs = grown.last().map_or(0.0, |(_, count)| *count);
    if runs < 1.0 {
        return None;
    }
    let at = |share: f64| {
        let bound = grown.iter().find(|(_, count)| *count >= share * runs).map(|(bound, _)| *bound);
        bound.filter(|bound| bound.is_finite()).map(|bound| bound * 1_000.0)
    };
    Some(Skew { p50_ms: at(0.5), p99_ms: at(0.99), runs: runs as u64 })
}

/// Runs with an error, by job, the most first.
fn failing(now: &Look) -> Vec<Failing> {
    let mut by_job: BTreeMap<&str, Failing> = BTreeMap::new();
    for run in now.failing.iter().filter(|run| run["error"].is_string()) {
        let Some(job) = run["job_id"].as_str() else { continue };
        let one = by_job.entry(job).or_insert_with(|| Failing {
            job_id: job.to_string(),
            name: name_of(job, now),
            retrying: 0,
            dead: 0,
            error: show::plain(&run["error"]),
        });
        match run["status"].as_str() {
            Some("dead") => one.dead += 1,
            _ => one.retrying += 1,
        }
    }
    let mut all: Vec<Failing> = by_job.into_values().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.dead + one.retrying));
    all.truncate(TOP_FAILING);
    all
}

fn name_of(job: &str, now: &Look) -> Option<String> {
    let found = now.jobs.iter().find(|one| one["id"].as_str() == Some(job))?;
    found["name"].as_str().map(|_| show::plain(&found["name"]))
}

fn next(job: &Value, now: &Look) -> Option<Next> {
    let due = job["next_due_at"].as_str().or(job["next_run_at"].as_str())?;
    let in_ms = (timestamp::parse(due).ok()? - now.wall.micros()) / 1_000;
    Some(Next {
        job_id: show::plain(&job["id"]),
        name: job["name"].as_str().map(|_| show::plain(&job["name"])),
        due_at: due.to_string(),
        in_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Span, Time};
    use serde_json::json;

    fn look(second: i64, series: &[(&str, f64)]) -> Look {
        let series = series.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let taken = Time::MIN.plus(Span::from_secs(second));
        Look { taken, wall: Time::from_secs(1_800_000_000), series, ..Look::default() }
    }

    #[test]
    fn rates_are_what_grew_and_a_restart_is_not_negative() {
        let retries = "duly_retries_total";
        let frame = |a: f64, b: f64| {
            let frame = Frame::between(&look(10, &[(retries, a)]), &look(14, &[(retries, b)]));
            (frame.interval_ms, frame.rates["retried"].per_second, frame.rates["retried"].total)
        };
        assert_eq!(frame(100.0, 110.0), (4_000, 2.5, 110));
        assert_eq!(frame(100.0, 3.0), (4_000, 0.0, 3));
        let same = look(1, &[]);
        assert_eq!(Frame::between(&same, &same).rates["fired"].per_second, 0.0);
    }

    #[test]
    fn skew_is_of_the_interval_alone() {
        let names = ["0.001", "0.01", "0.1", "+Inf"].map(|le| format!("{SKEW}{le}\"}}"));
        let with = |second, counts: [f64; 4]| {
            let series: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(counts).collect();
            look(second, &series)
        };
        let before = with(0, [0.0, 0.0, 1_000.0, 1_000.0]);
        let now = with(2, [60.0, 98.0, 1_099.0, 1_100.0]);
        let skew = Frame::between(&before, &now).skew;
        assert_eq!(skew, Some(Skew { p50_ms: Some(1.0), p99_ms: Some(100.0), runs: 100 }));
        // Beyond the last bound nobody knows how late.
        let late = with(2, [0.0, 0.0, 1_000.0, 1_002.0]);
        let skew = Frame::between(&before, &late).skew;
        assert_eq!(skew, Some(Skew { p50_ms: None, p99_ms: None, runs: 2 }));
        assert_eq!(Frame::between(&before, &before).skew, None);
    }

    #[test]
    fn what_fails_is_by_job_and_what_is_next_by_time() {
        let mut now = look(1, &[]);
        now.failing = vec![
            json!({"job_id": "job_a", "status": "retrying", "error": "no\u{1b}[1m"}),
            json!({"job_id": "job_b", "status": "dead", "error": "gone"}),
            json!({"job_id": "job_b", "status": "retrying", "error": "older"}),
            json!({"job_id": "job_c", "status": "retrying", "error": null}),
        ];
        now.jobs = vec![
            json!({"id": "job_b", "name": "bills", "next_due_at": "2027-01-15T08:00:09.000Z"}),
            json!({"id": "job_d", "next_run_at": "2027-01-15T08:00:01.500Z"}),
            json!({"id": "job_e", "next_run_at": null}),
        ];
        let frame = Frame::between(&now, &now);
        let failing: Vec<_> = frame
            .failing
            .iter()
            .map(|f| (f.job_id.as_str(), f.name.as_deref(), f.retrying, f.dead, f.error.as_str()))
            .collect();
        assert_eq!(
            failing,
            [("job_b", Some("bills"), 1, 1, "gone"), ("job_a", None, 1, 0, "no [1m")]
        );
        let next: Vec<_> = frame.next.iter().map(|n| (n.job_id.as_str(), n.in_ms)).collect();
        assert_eq!(next, [("job_d", 1_500), ("job_b", 9_000)]);
    }
}

//! /metrics: what the node and the door count, in Prometheus' text format. Written by hand, because
//! every name and label is known here: a registry would only add a way to have unbounded ones. Names
//! are promises; docs/metrics.md lists them and a test compares.

mod sources;

use crate::{Shared, outbox};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use model::Time;
use node::metrics::{BUCKETS, Counter, Histogram, Metrics, OUTCOMES};
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// What the door counts, per route of the table.
#[derive(Debug)]
pub struct Requests {
    routes: Vec<Line>,
    /// Requests for the files of the dashboard, and to addresses that do not exist.
    strangers: [Counter; CLASSES.len()],
    pub in_flight: AtomicU64,
    pub unauthorized: Counter,
    /// Submissions refused because a quota is used up.
    pub over_quota: Counter,
    /// Told by the accept loop.
    pub connections: AtomicU64,
    /// Told by the executor.
    pub destinations_open: AtomicU64,
}

#[derive(Debug)]
struct Line {
    method: String,
    path: &'static str,
    classes: [Counter; CLASSES.len()],
    seconds: Histogram,
}

impl Requests {
    pub fn of(table: &[crate::Route]) -> Requests {
        let line = |route: &crate::Route| Line {
            method: route.method.to_string(),
            path: route.path,
            classes: Default::default(),
            seconds: Histogram::default(),
        };
        Requests {
            routes: table.iter().map(line).collect(),
            strangers: Default::default(),
            in_flight: AtomicU64::new(0),
            unauthorized: Counter::default(),
            over_quota: Counter::default(),
            connections: AtomicU64::new(0),
            destinations_open: AtomicU64::new(0),
        }
    }

    /// `route` is the index in the table.
    pub fn count(&self, route: Option<usize>, status: u16, took: model::Span) {
        let class = usize::from((status / 100).clamp(2, 5) - 2);
        match route.and_then(|route| self.routes.get(route)) {
            Some(line) => {
                line.classes[class].add(1);
                line.seconds.observe(took);
            }
            None => self.strangers[class].add(1),
        }
    }
}

pub async fn show(State(api): Shared) -> Response {
    api.requests.connections.store(api.open_connections(), Ordering::Relaxed);
    api.requests.destinations_open.store(api.destinations.open(), Ordering::Relaxed);
    let node = api.node.metrics();
    let text = render(node, &api.requests, api.outboxes(), api.node.now());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// The whole page.
pub fn render(
    node: &Metrics,
    requests: &Requests,
    outboxes: &[Arc<outbox::State>],
    now: Time,
) -> String {
    let mut page = Page::default();
    page.one(
        "duly_info",
        "gauge",
        "The version, as a label.",
        &[(&[("version", env!("CARGO_PKG_VERSION"))], 1)],
    );
    page.histogram(
        "duly_fire_skew_seconds",
        "From the instant a run was due until its first attempt was handed out.",
        &[(&[], &node.fire_skew)],
    );
    page.histogram(
        "duly_tick_seconds",
        "One look of the driver at its clock.",
        &[(&[], &node.tick)],
    );
    page.histogram(
        "duly_store_seconds",
        "Calls of the store, by what they did.",
        &[(&[("call", "commit")], &node.commit), (&[("call", "read")], &node.read)],
    );
    let attempts: Vec<_> = OUTCOMES
        .iter()
        .zip(&node.attempts)
        .map(|(outcome, counter)| ([("outcome", *outcome)], counter.get()))
        .collect();
    let attempts: Vec<Sample<'_>> = attempts.iter().map(|(l, v)| (l.as_slice(), *v)).collect();
    page.one("duly_attempts_total", "counter", "Attempts that ended, by outcome.", &attempts);
    for (name, help, counter) in [
        ("duly_jobs_submitted_total", "Jobs made.", &node.submitted),
        ("duly_retries_total", "Retries planned.", &node.retries),
        ("duly_dead_letters_total", "Runs that died: they wait for a person.", &node.dead),
        (
            "duly_occurrences_without_run_total",
            "Occurrences skipped, coalesced or missed by policy.",
            &node.skipped,
        ),
        (
            "duly_failovers_total",
            "Shards taken over from another node or a former life.",
            &node.takeovers,
        ),
        ("duly_shards_given_total", "Shards given to another node.", &node.given),
        (
            "duly_shards_received_total",
            "Shards taken at once because their former owner said that it had given them.",
            &node.gifts,
        ),
        (
            "duly_leases_lost_total",
            "Attempts taken back because their holder vanished.",
            &node.leases_lost,
        ),
        (
            "duly_store_divergence_total",
            "Memory and store disagreed; memory was thrown away.",
            &node.divergence,
        ),
        ("duly_store_lost_tail_total", "The store lost what it had acknowledged.", &node.lost_tail),
        ("duly_shard_reloads_total", "Shards loaded from the store.", &node.reloads),
        ("duly_store_refused_total", "Commits that the store refused whole.", &node.store_refused),
        ("duly_store_unknown_total", "Commits without an answer.", &node.store_unknown),
        ("duly_lease_renewals_total", "Renewals of this node's lease.", &node.renewals),
        (
            "duly_destinations_opened_total",
            "Destinations that began to fail, or failed their probe: their runs wait.",
            &node.destinations_opened,
        ),
        (
            "duly_destinations_closed_total",
            "Destinations that work again.",
            &node.destinations_closed,
        ),
        (
            "duly_runs_kept_back_total",
            "Claimed runs put back unsent because their destination fails.",
            &node.kept_back,
        ),
        (
            "duly_fires_delayed_total",
            "Fires of recurring jobs that came later than their time because of a quota or a service level.",
            &node.delayed,
        ),
        (
            "duly_submissions_shed_total",
            "Submissions of low priority refused because the service level of their queue was broken.",
            &node.shed,
        ),
        ("duly_http_unauthorized_total", "Requests without a good key.", &requests.unauthorized),
        (
            "duly_submissions_over_quota_total",
            "Submissions refused because a quota was used up.",
            &requests.over_quota,
        ),
    ] {
        page.one(name, "counter", help, &[(&[], counter.get())]);
    }
    let transactions = node.transactions.load(Ordering::Relaxed);
    let help = "Transactions that this node asked of PostgreSQL; 0 with other stores.";
    page.one("duly_store_transactions_total", "counter", help, &[(&[], transactions)]);
    for (name, help, value) in [
        ("duly_shards_live", "Shards that answer here.", &node.shards_live),
        ("duly_resident_entries", "Runs and leases in memory.", &node.resident),
        ("duly_http_in_flight", "Requests under way.", &requests.in_flight),
        ("duly_http_connections", "Open connections.", &requests.connections),
        (
            "duly_destinations_open",
            "Destinations that fail now, as this node sees them.",
            &requests.destinations_open,
        ),
    ] {
        page.one(name, "gauge", help, &[(&[], value.load(Ordering::Relaxed))]);
    }
    queues(&mut page, node, now);
    levels(&mut page, node);
    sources::write(&mut page, outboxes, now);
    http(&mut page, requests);
    process(&mut page);
    page.text
}

fn queues(page: &mut Page, node: &Metrics, now: Time) {
    let waiting = node.waiting();
    let labels: Vec<[(&str, String); 2]> = waiting
        .iter()
        .map(|one| [("namespace", one.namespace.0.to_string()), ("queue", one.queue.to_string())])
        .collect();
    page.head(
        "duly_queue_ready",
        "gauge",
        "Runs that wait for a claimer, in memory (the first 100 queues).",
    );
    for (one, labels) in waiting.iter().zip(&labels) {
        page.sample("duly_queue_ready", labels, one.ready);
    }
    page.head("duly_queue_more", "gauge", "1 if others of this queue wait on disk.");
    for (one, labels) in waiting.iter().zip(&labels) {
        page.sample("duly_queue_more", labels, u64::from(one.more));
    }
    page.head("duly_queue_oldest_seconds", "gauge", "How long the oldest ready run has waited.");
    for (one, labels) in waiting.iter().zip(&labels) {
        let age = one.oldest.map_or(0, |oldest| now.since(oldest).micros().max(0));
        page.sample("duly_queue_oldest_seconds", labels, seconds(age.unsigned_abs()));
    }
}

fn levels(page: &mut Page, node: &Metrics) {
    let help =
        "1 while runs of the queue wait longer than its start_within (the first 100 queues).";
    page.head("duly_queue_level_broken", "gauge", help);
    for ((namespace, queue), broken) in node.levels() {
        let labels = [("namespace", namespace.0.to_string()), ("queue", queue.to_string())];
        page.sample("duly_queue_level_broken", &labels, u64::from(broken));
    }
}

fn http(page: &mut Page, requests: &Requests) {
    page.head(
        "duly_http_requests_total",
        "counter",
        "Requests answered, by route and class of status.",
    );
    for line in &requests.routes {
        for (class, counter) in CLASSES.iter().zip(&line.classes) {
            let labels =
                [("method", line.method.as_str()), ("route", line.path), ("status", class)];
            page.sample("duly_http_requests_total", &labels, counter.get());
        }
    }
    for (class, counter) in CLASSES.iter().zip(&requests.strangers) {
        let labels = [("method", "any"), ("route", "none"), ("status", class)];
        page.sample("duly_http_requests_total", &labels, counter.get());
    }
    let labels: Vec<_> = requests
        .routes
        .iter()
        .map(|l| [("method", l.method.as_str()), ("route", l.path)])
        .collect();
    let each: Vec<(&[(&str, &str)], &Histogram)> = labels
        .iter()
        .zip(&requests.routes)
        .map(|(l, line)| (l.as_slice(), &line.seconds))
        .collect();
    page.histogram(
        "duly_http_request_seconds",
        "How long requests took; claims wait by design.",
        &each,
    );
}

/// What Linux tells of this process. Elsewhere nothing.
fn process(page: &mut Page) {
    let stat = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = stat.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    page.one(
        "process_resident_memory_bytes",
        "gauge",
        "Memory in use.",
        &[(&[], pages * PAGE_BYTES)],
    );
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
    page.one("process_open_fds", "gauge", "Open files and sockets.", &[(&[], open)]);
}

const PAGE_BYTES: u64 = 4_096;

type Sample<'a> = (&'a [(&'a str, &'a str)], u64);

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, samples: &[Sample<'_>]) {
        self.head(name, kind, help);
        samples.iter().for_each(|(labels, value)| self.sample(name, labels, value));
    }

    fn sample<V: AsRef<str>>(&mut self, name: &str, labels: &[(&str, V)], value: impl Display) {
        self.text.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    fn labels<V: AsRef<str>>(&mut self, labels: &[(&str, V)], bound: Option<&str>) {
        let given = labels.iter().map(|(name, value)| (*name, value.as_ref()));
        let mut open = "{";
        for (name, value) in given.chain(bound.map(|bound| ("le", bound))) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{open}{name}=\"{value}\"");
            open = ",";
        }
        if open == "," {
            self.text.push('}');
        }
    }

    fn histogram(&mut self, name: &str, help: &str, each: &[(&[(&str, &str)], &Histogram)]) {
        self.head(name, "histogram", help);
        for (labels, histogram) in each {
            let (counts, sum) = histogram.read();
            let mut total = 0;
            for (at, count) in counts.iter().enumerate() {
                total += count;
                let bound = BUCKETS.get(at).map_or("+Inf".to_string(), |bound| seconds(*bound));
                let _ = write!(self.text, "{name}_bucket");
                self.labels(labels, Some(&bound));
                let _ = writeln!(self.text, " {total}");
            }
            self.sample(&format!("{name}_sum"), labels, seconds(sum));
            self.sample(&format!("{name}_count"), labels, total);
        }
    }
}

fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

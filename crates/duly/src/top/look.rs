//! One look at a server: its counters and a few bounded lists, as they are at this moment.

use crate::client::Server;
use crate::clock;
use crate::failure::Failure;
use crate::limits::{TOP_JOBS_PAGE, TOP_JOBS_PAGES, TOP_RUNS};
use crate::show;
use model::Time;
use node::clock::BootClock;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Look {
    /// By the boot clock: only distances between two looks mean something.
    pub taken: Time,
    /// By the wall clock, for people.
    pub wall: Time,
    pub address: String,
    pub version: String,
    pub ready: bool,
    /// Every series of /metrics, labels and all.
    pub series: BTreeMap<String, f64>,
    pub queues: Vec<Value>,
    /// Runs that failed and are not done with: they wait for a retry or for a person.
    pub failing: Vec<Value>,
    /// Unfinished jobs, the newest of them.
    pub jobs: Vec<Value>,
    /// There are older jobs, too.
    pub more_jobs: bool,
}

impl Look {
    pub fn at(server: &Server) -> Result<Look, Failure> {
        let version: Value = server.get_json("/v1/version")?;
        let metrics = server.get("/metrics")?;
        let queues = server.get_json::<Value>("/v1/queues?limit=100")?;
        let failing = format!("/v1/runs?status=retrying,dead&limit={TOP_RUNS}");
        let failing = server.get_json::<Value>(&failing)?;
        let (jobs, more_jobs) = jobs(server)?;
        Ok(Look {
            taken: BootClock.local(),
            wall: clock::now(),
            address: server.url().to_string(),
            version: show::plain(&version["version"]),
            ready: server.get("/readyz").is_ok(),
            series: series(&metrics),
            queues: items(&queues),
            failing: items(&failing),
            jobs,
            more_jobs,
        })
    }

    pub fn series(&self, name: &str) -> f64 {
        self.series.get(name).copied().unwrap_or(0.0)
    }
}

fn jobs(server: &Server) -> Result<(Vec<Value>, bool), Failure> {
    let mut all = Vec::new();
    let limit = TOP_JOBS_PAGE.to_string();
    let mut cursor: Option<String> = None;
    for _ in 0..TOP_JOBS_PAGES {
        let query = show::query(&[
            ("status", Some("active,scheduled")),
            ("limit", Some(&limit)),
            ("cursor", cursor.as_deref()),
        ]);
        let page: Value = server.get_json(&format!("/v1/jobs{query}"))?;
        all.extend(items(&page));
        cursor = page["next_cursor"].as_str().map(str::to_string);
        if cursor.is_none() {
            return Ok((all, false));
        }
    }
    Ok((all, true))
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().cloned().unwrap_or_default()
}

/// `name{labels} value`, a line each.
fn series(metrics: &str) -> BTreeMap<String, f64> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    });
    pairs.collect()
}

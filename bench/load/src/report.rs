//! One row per work: as JSON for programs, as a table for people.

use crate::seen::Tally;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub work: String,
    pub jobs: u64,
    pub seconds: f64,
    pub per_second: f64,
    /// Lateness, or the time to the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<Millis>,
    /// The same as a curve: share of the jobs, milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, f64)>,
    pub tally: Tally,
}

/// Where a curve is looked at: close together at its upper end, which is what promises are about.
const SHARES: [f64; 14] =
    [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];

pub fn curve(micros: &Histogram<u64>) -> Vec<(f64, f64)> {
    if micros.is_empty() {
        return Vec::new();
    }
    let at = |share: f64| (share, micros.value_at_quantile(share) as f64 / 1_000.0);
    SHARES.map(at).to_vec()
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Millis {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Millis {
    pub fn of(micros: &Histogram<u64>) -> Option<Millis> {
        let millis = |micros: u64| micros as f64 / 1_000.0;
        (!micros.is_empty()).then(|| Millis {
            p50: millis(micros.value_at_quantile(0.5)),
            p99: millis(micros.value_at_quantile(0.99)),
            max: millis(micros.max()),
        })
    }
}

pub const HEADER: [&str; 9] =
    ["WORK", "JOBS", "SECONDS", "JOBS/S", "P50 MS", "P99 MS", "MAX MS", "MISSING", "REPEATED"];

impl Row {
    pub fn cells(&self) -> [String; 9] {
        let millis = |of: fn(&Millis) -> f64| {
            self.millis.as_ref().map_or(String::new(), |millis| format!("{:.1}", of(millis)))
        };
        [
            self.work.clone(),
            self.jobs.to_string(),
            format!("{:.2}", self.seconds),
            format!("{:.0}", self.per_second),
            millis(|m| m.p50),
            millis(|m| m.p99),
            millis(|m| m.max),
            self.tally.missing.to_string(),
            self.tally.repeated.to_string(),
        ]
    }

    /// Was every promise kept that this work can see?
    pub fn is_sound(&self) -> bool {
        let Tally { missing, early, .. } = self.tally;
        missing == 0 && early == 0
    }
}

pub fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&HEADER.map(|cell| cell.to_lowercase()));
    text.push_str(&line(&HEADER.map(|_| "---".to_string())));
    for row in rows {
        text.push_str(&line(&row.cells()));
    }
    text
}

//! Several repetitions of each work as one row: median and spread, beside what is wanted and what was
//! recorded last.

use crate::plot;
use crate::report::Row;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What was measured in one sitting.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// When, on what and how, in words.
    pub about: String,
    pub works: Vec<Measured>,
    #[serde(default)]
    pub idle: Option<Idle>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub work: String,
    pub jobs: u64,
    pub per_second: Spread,
    #[serde(default)]
    pub p50: Option<Spread>,
    #[serde(default)]
    pub p99: Option<Spread>,
    #[serde(default)]
    pub max: Option<Spread>,
    /// Of the repetition in the middle.
    #[serde(default)]
    pub curve: Vec<(f64, f64)>,
    /// Jobs that did not arrive, arrived early, or arrived more than once, over all repetitions.
    pub missing: u64,
    pub early: u64,
    pub repeated: u64,
}

/// A server with nothing to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Idle {
    pub cpu_percent: f64,
    pub commits_per_second: f64,
    pub rss_mib: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Spread { median, least, most })
    }
}

/// What the project wants of each work, on two cores shared with the load: at least so many jobs a
/// second, at most so many milliseconds.
struct Wanted {
    work: &'static str,
    per_second: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

const NOTHING: Wanted = Wanted { work: "", per_second: None, p50: None, p99: None, max: None };
const WANTED: [Wanted; 7] = [
    Wanted { work: "submit", per_second: Some(55_000.0), ..NOTHING },
    Wanted { work: "noop", per_second: Some(22_000.0), ..NOTHING },
    Wanted { work: "webhook", per_second: Some(10_000.0), ..NOTHING },
    Wanted { work: "single", per_second: Some(15_000.0), p99: Some(25.0), ..NOTHING },
    Wanted { work: "burst", max: Some(250.0), ..NOTHING },
    Wanted { work: "burst-webhook", max: Some(1_500.0), ..NOTHING },
    Wanted { work: "spread", p50: Some(3.0), p99: Some(15.0), ..NOTHING },
];

impl Recorded {
    /// The rows of all repetitions, in any order.
    pub fn of(about: String, rows: &[Row], idle: Option<Idle>) -> Recorded {
        let mut names: Vec<&str> = Vec::new();
        for row in rows {
            if !names.contains(&row.work.as_str()) {
                names.push(&row.work);
            }
        }
        let works = names.into_iter().filter_map(|name| {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.work == name).collect();
            Measured::of(&rows)
        });
        Recorded { about, works: works.collect(), idle }
    }

    /// A table for people, `last` beside it.
    pub fn markdown(&self, last: Option<&Recorded>) -> String {
        let mut out = String::from(
            "| work | jobs | jobs/s, median (spread) | recorded before | p50 ms | p99 ms | max ms | wanted |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for now in &self.works {
            let before = last.and_then(|last| last.works.iter().find(|old| old.work == now.work));
            let rate = |spread: Spread| {
                format!("{:.0} ({:.0}–{:.0})", spread.median, spread.least, spread.most)
            };
            // Of what is due at an instant the rate says nothing.
            let due = now.is_due_work();
            let before = before.map_or(String::new(), |old| match (due, old.p99, old.max) {
                (true, Some(p99), Some(max)) => {
                    format!("p99 {:.1}, max {:.1} ms", p99.median, max.median)
                }
                _ => format!("{:.0}", old.per_second.median),
            });
            let millis = |spread: Option<Spread>| {
                spread.map_or(String::new(), |spread| {
                    format!("{:.1} ({:.1}–{:.1})", spread.median, spread.least, spread.most)
                })
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {before} | {} | {} | {} | {} |",
                now.work,
                now.jobs,
                if due { String::new() } else { rate(now.per_second) },
                millis(now.p50),
                millis(now.p99),
                millis(now.max),
                now.judged()
            );
        }
        let (mut missing, mut early, mut repeated) = (0, 0, 0);
        for work in &self.works {
            missing += work.missing;
            early += work.early;
            repeated += work.repeated;
        }
        let _ = writeln!(
            out,
            "\nOver all repetitions {missing} jobs were missing, {early} early, {repeated} repeated."
        );
        if let Some(idle) = self.idle {
            let met =
                idle.cpu_percent <= 1.0 && idle.commits_per_second == 0.0 && idle.rss_mib <= 64.0;
            let _ = writeln!(
                out,
                "Idle: {:.2} % of a core, {:.2} commits/s, {:.1} MiB resident (wanted 1 %, 0, 64 MiB: {}).",
                idle.cpu_percent,
                idle.commits_per_second,
                idle.rss_mib,
                if met { "met" } else { "**not met**" }
            );
        }
        out
    }

    /// Lateness of what was due at a known instant.
    pub fn plot(&self) -> String {
        let due = self.works.iter().filter(|work| work.is_due_work());
        let curves: Vec<_> = due.map(|work| (work.work.clone(), work.curve.clone())).collect();
        plot::svg("Lateness, from due to arrival", &curves)
    }
}

fn p99(row: &Row) -> f64 {
    row.millis.map_or(0.0, |millis| millis.p99)
}

impl Measured {
    fn of(rows: &[&Row]) -> Option<Measured> {
        let millis = |of: fn(&crate::Millis) -> f64| {
            Spread::of(rows.iter().filter_map(|row| row.millis.as_ref().map(of)))
        };
        let mut by_p99: Vec<&Row> = rows.to_vec();
        by_p99.sort_by(|a, b| p99(a).total_cmp(&p99(b)));
        let first = rows.first()?;
        Some(Measured {
            work: first.work.clone(),
            jobs: first.jobs,
            per_second: Spread::of(rows.iter().map(|row| row.per_second))?,
            p50: millis(|millis| millis.p50),
            p99: millis(|millis| millis.p99),
            max: millis(|millis| millis.max),
            curve: by_p99.get(rows.len() / 2).map(|row| row.curve.clone()).unwrap_or_default(),
            missing: rows.iter().map(|row| row.tally.missing).sum(),
            early: rows.iter().map(|row| row.tally.early).sum(),
            repeated: rows.iter().map(|row| row.tally.repeated).sum(),
        })
    }

    fn is_due_work(&self) -> bool {
        matches!(self.work.as_str(), "burst" | "burst-webhook" | "spread")
    }

    fn judged(&self) -> String {
        let Some(wanted) = WANTED.iter().find(|wanted| wanted.work == self.work) else {
            return String::new();
        };
        let mut parts = Vec::new();
        let mut met = self.missing == 0 && self.early == 0;
        if let Some(least) = wanted.per_second {
            parts.push(format!("≥ {least:.0}/s"));
            met &= self.per_second.median >= least;
        }
        let bounds = [("p50", wanted.p50, self.p50), ("p99", wanted.p99, self.p99)];
        for (name, bound, found) in bounds.into_iter().chain([("max", wanted.max, self.max)]) {
            if let Some(bound) = bound {
                parts.push(format!("{name} ≤ {bound} ms"));
                met &= found.is_some_and(|found| found.median <= bound);
            }
        }
        format!("{}: {}", parts.join(", "), if met { "met" } else { "**not met**" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Millis, Tally};

    fn row(work: &str, per_second: f64, p99: f64, missing: u64) -> Row {
        let millis = Some(Millis { p50: 1.0, p99, max: p99 * 2.0 });
        let tally = Tally { missing, ..Tally::default() };
        let curve = vec![(0.5, 1.0), (1.0, p99 * 2.0)];
        Row { work: work.to_string(), jobs: 10, seconds: 1.0, per_second, millis, curve, tally }
    }

    #[test]
    fn the_median_counts_and_the_spread_is_told() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(spread(&[1.0, 4.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(spread(&[]), None);
        let rows = [60_000.0, 40_000.0, 56_000.0].map(|rate| row("submit", rate, 1.0, 0));
        let text = Recorded::of(String::new(), &rows, None).markdown(None);
        assert!(text.contains("| 56000 (40000–60000) |"), "{text}");
        assert!(text.contains("≥ 55000/s: met"), "{text}");
    }

    #[test]
    fn what_is_late_or_missing_does_not_meet_the_figure() {
        let last = Recorded::of(String::new(), &[row("spread", 1.0, 9.0, 0)], None);
        for (p99, missing, word) in
            [(14.0, 0, ": met"), (16.0, 0, "**not met**"), (14.0, 1, "not met")]
        {
            let now = Recorded::of(String::new(), &[row("spread", 1.0, p99, missing)], None);
            let text = now.markdown(Some(&last));
            assert!(text.contains(word), "{p99} {missing}: {text}");
            assert!(text.contains("p99 9.0, max 18.0 ms"), "{text}");
        }
    }
}

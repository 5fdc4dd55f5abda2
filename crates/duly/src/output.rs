//! Tables for people, JSON for programs.

use calendar::{DstEffect, Occurrence};
use model::Time;
use wire::{Preview, timestamp};

use crate::fault::Fault;

pub fn json(preview: &Preview) -> Result<String, Fault> {
    match serde_json::to_string_pretty(preview) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(Fault {
            flag: "--json".to_string(),
            value: String::new(),
            column: None,
            message: error.to_string(),
            help: "leave --json out".to_string(),
        }),
    }
}

/// `complete`: as many instants as were asked for.
pub fn table(preview: &Preview, occurrences: &[Occurrence], after: Time, complete: bool) -> String {
    let mut text = format!("{}\n\n", preview.description);
    if occurrences.is_empty() {
        let after = timestamp::format_short(after.micros());
        text.push_str(&format!("No instant after {after}.\n"));
    } else {
        text.push_str(&grid(&rows(preview, occurrences)));
        if !complete {
            text.push_str("No instant after these.\n");
        }
    }
    text + &clock_changes(preview)
}

/// UTC has no clock changes, so nothing is said about them there.
fn clock_changes(preview: &Preview) -> String {
    let tzdb = &preview.tzdb;
    if preview.dst_dates.is_empty() {
        if preview.timezone == "UTC" {
            return String::new();
        }
        return format!(
            "\nNo clock change of the next two years alters what it does (tzdb {tzdb}).\n"
        );
    }
    let mut text =
        format!("\nClock changes of the next two years that alter what it does (tzdb {tzdb}):\n");
    for date in &preview.dst_dates {
        text.push_str(&format!("  {}  {}\n", date.date, date.what));
    }
    text
}

/// Columns that would say nothing are left out: local time in UTC, an effective instant that is
/// the nominal one, a note when the clocks do nothing.
fn rows(preview: &Preview, occurrences: &[Occurrence]) -> Vec<Vec<String>> {
    let zone = preview.timezone.as_str();
    let local = zone != "UTC";
    let jitter = occurrences.iter().any(|one| one.effective != one.nominal);
    let clocks = occurrences.iter().any(|one| one.dst.is_some());

    let mut head = vec!["NOMINAL".to_string()];
    head.extend(local.then(|| format!("LOCAL ({zone})")));
    head.extend(jitter.then(|| "EFFECTIVE".to_string()));
    head.extend(clocks.then(|| "CLOCKS".to_string()));
    let mut rows = vec![head];
    for one in occurrences {
        let nominal = one.nominal.micros();
        let mut row = vec![timestamp::format_short(nominal)];
        row.extend(local.then(|| timestamp::format_local(nominal, zone).unwrap_or_default()));
        row.extend(jitter.then(|| timestamp::format_short(one.effective.micros())));
        row.extend(clocks.then(|| note(one.dst).to_string()));
        rows.push(row);
    }
    rows
}

fn note(dst: Option<DstEffect>) -> &'static str {
    match dst {
        Some(DstEffect::Gap) => "gap: its local time does not exist, runs as the clocks change",
        Some(DstEffect::Repeat) => "repeat: its local time comes twice",
        None => "",
    }
}

fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

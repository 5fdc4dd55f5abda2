//! `?cursor=`: where a list goes on. A text that no page ended with is refused: a list that begins
//! again at its top would never end for whoever follows it.

use crate::query::Query;
use model::{Text, Time};
use store::search::cursor;

const STRANGE: &str = "this is not a cursor that duly gave; take next_cursor of the page before";

pub fn jobs(query: &mut Query) -> Option<Text> {
    checked(query, |text| cursor::jobs(text).is_some())
}

pub fn runs(query: &mut Query) -> Option<Text> {
    checked(query, cursor::is_of_runs)
}

/// Of a job's instants: behind this one.
pub fn occurrences(query: &mut Query) -> Option<Time> {
    checked(query, |text| read_occurrence(text).is_some()).and_then(|text| read_occurrence(&text))
}

fn checked(query: &mut Query, good: impl Fn(&str) -> bool) -> Option<Text> {
    let text = query.text("cursor")?;
    if !good(&text) {
        query.faults.add("?cursor", STRANGE);
        return None;
    }
    Some(Text::from(text))
}

pub fn write_occurrence(at: Time) -> String {
    format!("o{}", at.micros())
}

pub fn read_occurrence(text: &str) -> Option<Time> {
    let at = Time::from_micros(text.strip_prefix('o')?.parse().ok()?);
    (write_occurrence(at) == text).then_some(at)
}

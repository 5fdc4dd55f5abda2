//! The part of an address behind `?`, read like a body: unknown names are refused, faults pointed at.

use crate::refusal::Refusal;
use model::{Span, Time};
use std::collections::BTreeMap;
use wire::{Faults, duration, timestamp};

#[derive(Debug, Default)]
pub struct Query {
    given: BTreeMap<String, String>,
    asked: Vec<&'static str>,
    pub faults: Faults,
}

impl Query {
    pub fn read(text: Option<&str>) -> Query {
        let mut query = Query::default();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decoded(name), decoded(value)) {
                (Some(name), Some(value)) => {
                    if query.given.insert(name.clone(), value).is_some() {
                        query.faults.add(format!("?{name}"), "this is given twice");
                    }
                }
                _ => query.faults.add("?", "this is not a well-formed query"),
            }
        }
        // The door has read it.
        query.given.remove("namespace");
        query
    }

    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.asked.push(name);
        self.given.get(name).filter(|value| !value.is_empty()).cloned()
    }

    pub fn list(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.text(name).map(|text| text.split(',').map(str::to_string).collect())
    }

    pub fn time(&mut self, name: &'static str) -> Option<Time> {
        let text = self.text(name)?;
        let parsed = timestamp::parse(&text).map(Time::from_micros);
        parsed.map_err(|error| self.faults.add(format!("?{name}"), error.to_string())).ok()
    }

    pub fn span(&mut self, name: &'static str) -> Option<Span> {
        let text = self.text(name)?;
        let parsed = duration::parse(&text).map(Span::from_micros);
        parsed.map_err(|error| self.faults.add(format!("?{name}"), error.to_string())).ok()
    }

    pub fn number(&mut self, name: &'static str, most: u64) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        if number.is_none() {
            let message = format!("a whole number from 1 to {most} is expected");
            self.faults.add(format!("?{name}"), message);
        }
        number
    }

    pub fn choice(&mut self, name: &'static str, choices: &[&'static str]) -> Option<&'static str> {
        let text = self.text(name)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            let message = format!("one of {} is expected", choices.join(", "));
            self.faults.add(format!("?{name}"), message);
        }
        found
    }

    /// Refuses what nobody asked for, and whatever was wrong.
    pub fn finish(mut self) -> Result<(), Refusal> {
        let only = self.faults.is_empty();
        for name in self.given.keys().filter(|name| !self.asked.contains(&name.as_str())) {
            let known = self.asked.join(", ");
            let known = if known.is_empty() { "none".to_string() } else { known };
            self.faults.push(
                format!("?{name}"),
                format!("there is no such filter; known: {known}"),
                None,
            );
            self.faults.unknown = only;
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Refusal::faults(self.faults)) }
    }
}

/// Percent signs and pluses undone. None if it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_what_nobody_asked_for_is_refused() {
        let mut query = Query::read(Some("from=2027-01-01T00%3A00%3A00%2B01%3A00&q=a+b%20c&x"));
        assert_eq!(query.time("from"), Some(Time::from_secs(1_798_758_000)));
        assert_eq!(query.text("q").as_deref(), Some("a b c"));
        let refusal = query.finish().expect_err("x is not known");
        assert_eq!((refusal.code, refusal.errors[0].pointer.as_str()), ("unknown_field", "?x"));
        for bad in ["q=%", "q=%zz", "q=%ff", "q=1&q=2"] {
            let mut query = Query::read(Some(bad));
            query.text("q");
            assert!(query.finish().is_err(), "{bad}");
        }
    }
}

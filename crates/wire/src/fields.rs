//! Reads a request's JSON field by field, so that every fault is pointed at, all of them are told
//! at once, and a field that nobody asked for is refused instead of ignored.

use crate::problem::FieldFault;
use crate::{duration, timestamp};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Everything that is wrong with a request.
#[derive(Debug, Default)]
pub struct Faults {
    pub list: Vec<FieldFault>,
    /// Only fields that do not exist were found.
    pub unknown: bool,
}

/// More would help nobody.
const FAULTS_MAX: usize = 32;

impl Faults {
    pub fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.push(pointer.into(), message.into(), None);
    }

    pub fn push(&mut self, pointer: String, message: String, did_you_mean: Option<String>) {
        if self.list.len() < FAULTS_MAX {
            self.list.push(FieldFault { pointer, message, did_you_mean });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[derive(Debug)]
pub struct Object<'a> {
    pointer: String,
    fields: BTreeMap<String, &'a RawValue>,
    asked: Vec<&'static str>,
}

impl<'a> Object<'a> {
    pub fn read(text: &'a str, pointer: &str, faults: &mut Faults) -> Option<Object<'a>> {
        match serde_json::from_str(text) {
            Ok(fields) => Some(Object { pointer: pointer.to_string(), fields, asked: Vec::new() }),
            Err(_) => {
                faults.add(pointer, "a JSON object is expected here");
                None
            }
        }
    }

    pub fn at(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The field as it was written; null is the same as absent.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        self.fields.get(name).copied().filter(|raw| raw.get() != "null")
    }

    pub fn text(&mut self, name: &'static str, faults: &mut Faults) -> Option<String> {
        let raw = self.raw(name)?;
        let text = serde_json::from_str(raw.get()).ok();
        if text.is_none() {
            faults.add(self.at(name), "a string is expected here");
        }
        text
    }

    pub fn short(
        &mut self,
        name: &'static str,
        longest: usize,
        faults: &mut Faults,
    ) -> Option<String> {
        let text = self.text(name, faults)?;
        if text.is_empty() || text.chars().count() > longest || text.chars().any(char::is_control) {
            let message = format!("1 to {longest} characters are expected, none of them a control");
            faults.add(self.at(name), message);
            return None;
        }
        Some(text)
    }

    pub fn flag(&mut self, name: &'static str, faults: &mut Faults) -> Option<bool> {
        let raw = self.raw(name)?;
        let flag = serde_json::from_str(raw.get()).ok();
        if flag.is_none() {
            faults.add(self.at(name), "true or false is expected here");
        }
        flag
    }

    pub fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<u64> {
        let raw = self.raw(name)?;
        let number = serde_json::from_str(raw.get()).ok().filter(|n| range.contains(n));
        if number.is_none() {
            let (first, last) = range.into_inner();
            let message = format!("a whole number from {first} to {last} is expected here");
            faults.add(self.at(name), message);
        }
        number
    }

    /// Microseconds.
    pub fn span(&mut self, name: &'static str, faults: &mut Faults) -> Option<i64> {
        let raw = self.raw(name)?;
        let Ok(text) = serde_json::from_str::<String>(raw.get()) else {
            let message = "a duration such as \"15m\" is expected; a bare number has no unit";
            faults.add(self.at(name), message);
            return None;
        };
        let parsed = duration::parse(&text);
        parsed.map_err(|error| faults.add(self.at(name), error.to_string())).ok()
    }

    /// Microseconds since 1970.
    pub fn time(&mut self, name: &'static str, faults: &mut Faults) -> Option<i64> {
        let text = self.text(name, faults)?;
        let parsed = timestamp::parse(&text);
        parsed.map_err(|error| faults.add(self.at(name), error.to_string())).ok()
    }

    pub fn choice(
        &mut self,
        name: &'static str,
        choices: &[&'static str],
        faults: &mut Faults,
    ) -> Option<&'static str> {
        let text = self.text(name, faults)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            faults.add(self.at(name), format!("one of {} is expected here", choices.join(", ")));
        }
        found
    }

    pub fn object(&mut self, name: &'static str, faults: &mut Faults) -> Option<Object<'a>> {
        let raw = self.raw(name)?;
        Object::read(raw.get(), &self.at(name), faults)
    }

    pub fn list(
        &mut self,
        name: &'static str,
        longest: usize,
        faults: &mut Faults,
    ) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw(name)?;
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(list) if list.len() <= longest => Some(list),
            Ok(_) => {
                faults.add(self.at(name), format!("at most {longest} items are allowed here"));
                None
            }
            Err(_) => {
                faults.add(self.at(name), "a JSON array is expected here");
                None
            }
        }
    }

    /// A map of short text to short text.
    pub fn pairs(
        &mut self,
        name: &'static str,
        most: usize,
        faults: &mut Faults,
    ) -> Vec<(String, String)> {
        let Some(raw) = self.raw(name) else { return Vec::new() };
        match serde_json::from_str::<BTreeMap<String, String>>(raw.get()) {
            Ok(map) if map.len() <= most => map.into_iter().collect(),
            _ => {
                let message = format!("an object with at most {most} strings is expected here");
                faults.add(self.at(name), message);
                Vec::new()
            }
        }
    }

    /// A field of the contract that this version does not do yet.
    pub fn later(&mut self, name: &'static str, faults: &mut Faults) {
        if self.raw(name).is_some() {
            faults.add(self.at(name), "this version does not do this yet; it comes later");
        }
    }

    /// Refuses what nobody asked for.
    pub fn finish(self, faults: &mut Faults) {
        let only = faults.is_empty();
        for name in self.fields.keys().filter(|name| !self.asked.contains(&name.as_str())) {
            let near = self.asked.iter().find(|known| is_near(known, name));
            let message = format!("there is no such field; known are {}", self.asked.join(", "));
            faults.push(self.at(name), message, near.map(|known| known.to_string()));
            faults.unknown = only;
        }
    }
}

/// Differs by one letter more, less, other or swapped.
fn is_near(known: &str, written: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (known.chars().collect(), written.chars().collect());
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let front = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let longest = a.len().max(b.len());
    front + back + 1 >= longest || (a.len() == b.len() && front + back + 2 >= longest)
}

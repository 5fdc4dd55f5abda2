//! Reads a request's JSON field by field, so that every fault is pointed at, all of them are told
//! at once, and a field that nobody asked for is refused instead of ignored.

use crate::limits::FAULTS_MAX;
use crate::problem::FieldFault;
use crate::shape::{Kind, Recorder};
use crate::{duration, timestamp};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// Everything that is wrong with a request.
#[derive(Debug, Default)]
pub struct Faults {
    pub list: Vec<FieldFault>,
    /// Only fields that do not exist were found.
    pub unknown: bool,
    /// The reader is asked for its shape instead of reading.
    describing: Option<Recorder>,
}

impl Faults {
    pub(crate) fn describing(recorder: Recorder) -> Faults {
        Faults { describing: Some(recorder), ..Faults::default() }
    }

    /// Is something wrong at this very place?
    pub fn at(&self, pointer: &str) -> bool {
        self.list.iter().any(|fault| fault.pointer == pointer)
    }

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

/// Fields that a reader usually asks for.
const ASKED_USUAL: usize = 32;

/// The fields of an object in the order of their names, borrowed from its text: of a thousand jobs in
/// a request no name is copied. Of two with one name the last counts.
#[derive(Debug, Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, raw)| *raw)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields<'a>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                // Stable: of one name the last comes last.
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                fields.dedup_by(|later, kept| {
                    let same = later.0 == kept.0;
                    if same {
                        kept.1 = later.1;
                    }
                    same
                });
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Reader)
    }
}

/// A name as it stands in the text, unless it is written with escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name<'a>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                text: &'de str,
            ) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_string())))
            }
        }
        from.deserialize_str(Reader)
    }
}

#[derive(Debug)]
pub struct Object<'a> {
    pointer: String,
    fields: Fields<'a>,
    asked: Vec<&'static str>,
    describing: Option<Recorder>,
}

/// A field that is one of a few words or an object.
#[derive(Debug)]
pub enum WordOr<'a> {
    Word(&'static str),
    Object(Object<'a>),
}

impl<'a> Object<'a> {
    pub fn read(text: &'a str, pointer: &str, faults: &mut Faults) -> Option<Object<'a>> {
        let pointer = pointer.to_string();
        if let Some(recorder) = faults.describing.clone() {
            recorder.object_read(&pointer);
            let fields = Fields::default();
            return Some(Object { pointer, fields, asked: Vec::new(), describing: Some(recorder) });
        }
        match serde_json::from_str(text) {
            Ok(fields) => {
                let asked = Vec::with_capacity(ASKED_USUAL);
                Some(Object { pointer, fields, asked, describing: None })
            }
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
        self.fields.names()
    }

    /// The field as it was written; null is the same as absent.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.get(name, || Kind::Any)
    }

    fn get(&mut self, name: &'static str, kind: impl FnOnce() -> Kind) -> Option<&'a RawValue> {
        self.asked.push(name);
        if let Some(recorder) = &self.describing {
            recorder.field(self.at(name), kind());
        }
        self.present(name)
    }

    fn present(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.get(name).filter(|raw| raw.get() != "null")
    }

    /// Which of these fields is there: exactly one must be. Each is still to be read.
    pub fn one_of(&mut self, names: &[&'static str], faults: &mut Faults) -> Option<&'static str> {
        self.asked.extend(names);
        if let Some(recorder) = &self.describing {
            return recorder.one_of(&self.pointer, names);
        }
        let mut given = names.iter().filter(|name| self.present(name).is_some());
        let (first, second) = (given.next().copied(), given.next());
        if first.is_none() || second.is_some() {
            let message = format!("exactly one of {} is expected here", names.join(", "));
            faults.add(&self.pointer, message);
            return None;
        }
        first
    }

    pub fn text(&mut self, name: &'static str, faults: &mut Faults) -> Option<String> {
        self.string(name, || Kind::Text { longest: None }, faults)
    }

    fn string(
        &mut self,
        name: &'static str,
        kind: impl FnOnce() -> Kind,
        faults: &mut Faults,
    ) -> Option<String> {
        let raw = self.get(name, kind)?;
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
        let text = self.string(name, || Kind::Text { longest: Some(longest) }, faults)?;
        if text.is_empty() || text.chars().count() > longest || text.chars().any(char::is_control) {
            let message = format!("1 to {longest} characters are expected, none of them a control");
            faults.add(self.at(name), message);
            return None;
        }
        Some(text)
    }

    pub fn flag(&mut self, name: &'static str, faults: &mut Faults) -> Option<bool> {
        let raw = self.get(name, || Kind::Flag)?;
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
        let (first, last) = range.clone().into_inner();
        let raw = self.get(name, || Kind::Number { first, last })?;
        let number = serde_json::from_str(raw.get()).ok().filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("a whole number from {first} to {last} is expected here");
            faults.add(self.at(name), message);
        }
        number
    }

    /// Microseconds.
    pub fn span(&mut self, name: &'static str, faults: &mut Faults) -> Option<i64> {
        let raw = self.get(name, || Kind::Span)?;
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
        let text = self.string(name, || Kind::Time, faults)?;
        let parsed = timestamp::parse(&text);
        parsed.map_err(|error| faults.add(self.at(name), error.to_string())).ok()
    }

    pub fn choice(
        &mut self,
        name: &'static str,
        choices: &[&'static str],
        faults: &mut Faults,
    ) -> Option<&'static str> {
        let text = self.string(name, || Kind::Choice(choices.to_vec()), faults);
        if let Some(recorder) = &self.describing {
            return recorder.word(&self.at(name), choices);
        }
        let text = text?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            faults.add(self.at(name), format!("one of {} is expected here", choices.join(", ")));
        }
        found
    }

    pub fn object(&mut self, name: &'static str, faults: &mut Faults) -> Option<Object<'a>> {
        let raw = self.get(name, || Kind::Object);
        if let Some(recorder) = &self.describing
            && recorder.is_given(&self.at(name))
        {
            return Object::read("{}", &self.at(name), faults);
        }
        Object::read(raw?.get(), &self.at(name), faults)
    }

    pub fn word_or_object(
        &mut self,
        name: &'static str,
        words: &[&'static str],
        faults: &mut Faults,
    ) -> Option<WordOr<'a>> {
        let raw = self.get(name, || Kind::WordOrObject(words.to_vec()));
        if let Some(recorder) = &self.describing
            && recorder.is_given(&self.at(name))
        {
            return Object::read("{}", &self.at(name), faults).map(WordOr::Object);
        }
        let text = raw?.get();
        let given = serde_json::from_str::<String>(text).ok();
        match words.iter().find(|word| Some(**word) == given.as_deref()) {
            Some(word) => Some(WordOr::Word(word)),
            None => Object::read(text, &self.at(name), faults).map(WordOr::Object),
        }
    }

    pub fn list(
        &mut self,
        name: &'static str,
        longest: usize,
        faults: &mut Faults,
    ) -> Option<Vec<&'a RawValue>> {
        let raw = self.get(name, || Kind::List { most: longest });
        if let Some(recorder) = &self.describing
            && recorder.is_given(&self.at(name))
        {
            return serde_json::from_str("[{}]").ok();
        }
        match serde_json::from_str::<Vec<&RawValue>>(raw?.get()) {
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

    pub fn texts(
        &mut self,
        name: &'static str,
        most: usize,
        faults: &mut Faults,
    ) -> Option<Vec<String>> {
        let raw = self.get(name, || Kind::Texts { most })?;
        match serde_json::from_str::<Vec<String>>(raw.get()) {
            Ok(list) if list.len() <= most => Some(list),
            _ => {
                let message = format!("an array of at most {most} strings is expected here");
                faults.add(self.at(name), message);
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
        let Some(raw) = self.get(name, || Kind::Pairs { most }) else { return Vec::new() };
        match serde_json::from_str::<BTreeMap<String, String>>(raw.get()) {
            Ok(map) if map.len() <= most => map.into_iter().collect(),
            _ => {
                let message = format!("an object with at most {most} strings is expected here");
                faults.add(self.at(name), message);
                Vec::new()
            }
        }
    }

    /// A map of text to whole numbers.
    pub fn numbers(
        &mut self,
        name: &'static str,
        most: usize,
        range: RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Vec<(String, u64)> {
        let (first, last) = range.clone().into_inner();
        let Some(raw) = self.get(name, || Kind::Numbers { most, first, last }) else {
            return Vec::new();
        };
        let map = match serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) {
            Ok(map) if map.len() <= most => map,
            _ => {
                let message = format!("an object with at most {most} numbers is expected here");
                faults.add(self.at(name), message);
                return Vec::new();
            }
        };
        let mut numbers = Vec::with_capacity(map.len());
        for (key, raw) in map {
            match serde_json::from_str(raw.get()).ok().filter(|n| range.contains(n)) {
                Some(number) => numbers.push((key, number)),
                None => {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    let message = format!("a whole number from {first} to {last} is expected here");
                    faults.add(format!("{}/{key}", self.at(name)), message);
                }
            }
        }
        numbers
    }

    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// A field of the contract that this version does not do yet.
    pub fn later(&mut self, name: &'static str, faults: &mut Faults) {
        self.asked.push(name);
        if self.present(name).is_some() {
            faults.add(self.at(name), "this version does not do this yet; it comes later");
        }
    }

    /// Refuses what nobody asked for.
    pub fn finish(self, faults: &mut Faults) {
        let only = faults.is_empty();
        for name in self.fields.names().filter(|name| !self.asked.contains(name)) {
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

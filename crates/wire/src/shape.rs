//! The shape of a request, found out by letting its reader read.
//!
//! Readers are written by hand, field by field (`fields`). A description written beside them would
//! drift, so there is none: `describe` runs the reader over an object that writes down what it is
//! asked for, and makes a JSON Schema of it. A reader that takes one path or another (`choice`,
//! `one_of`) is run once for each, so every field that it can ask for is found. A field is required
//! if every run that reads its object complains when it is absent.

use crate::fields::Faults;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a field may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Any,
    Text {
        longest: Option<usize>,
    },
    Flag,
    Number {
        first: u64,
        last: u64,
    },
    Span,
    Time,
    Choice(Vec<&'static str>),
    Object,
    /// One of these words, or an object.
    WordOrObject(Vec<&'static str>),
    List {
        most: usize,
    },
    Texts {
        most: usize,
    },
    Pairs {
        most: usize,
    },
    /// A map of text to whole numbers.
    Numbers {
        most: usize,
        first: u64,
        last: u64,
    },
}

/// Paths of a reader that are looked at; a reader with more is not one request any more.
const PATHS_MAX: usize = 256;

type Picks = BTreeMap<String, &'static str>;

#[derive(Debug, Default)]
pub(crate) struct Record {
    fields: BTreeMap<String, Kind>,
    /// Object → the fields of which exactly one is there.
    alternatives: BTreeMap<String, Vec<&'static str>>,
    /// Which way to take in this run.
    picks: Picks,
    objects_read: BTreeSet<String>,
    /// Fields that were there in this run.
    given: BTreeSet<String>,
    /// Ways that were met in this run and not taken yet.
    ways: Vec<(String, &'static str)>,
}

/// Held by a describing object and its faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Record>>);

impl Recorder {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn object_read(&self, pointer: &str) {
        self.record().objects_read.insert(pointer.to_string());
    }

    pub fn field(&self, pointer: String, kind: Kind) {
        self.record().fields.entry(pointer).or_insert(kind);
    }

    /// Which one of these fields is there in this run.
    pub fn one_of(&self, pointer: &str, names: &[&'static str]) -> Option<&'static str> {
        self.record().alternatives.insert(pointer.to_string(), names.to_vec());
        self.pick(format!("{pointer}|"), names)
    }

    /// The word that a field holds in this run, if it is there.
    pub fn word(&self, pointer: &str, words: &[&'static str]) -> Option<&'static str> {
        let picked = self.pick(pointer.to_string(), words);
        if picked.is_some() {
            self.record().given.insert(pointer.to_string());
        }
        picked
    }

    /// Is this object or list there in this run?
    pub fn is_given(&self, pointer: &str) -> bool {
        let given = self.pick(format!("{pointer}#"), &["given"]).is_some();
        if given {
            self.record().given.insert(pointer.to_string());
        }
        given
    }

    fn pick(&self, place: String, ways: &[&'static str]) -> Option<&'static str> {
        let mut record = self.record();
        let picked = record.picks.get(&place).copied();
        if picked.is_none() {
            record.ways.extend(ways.iter().map(|way| (place.clone(), *way)));
        }
        picked
    }
}

/// The JSON Schema of what this reader reads.
pub fn describe(reader: impl Fn(&str, &mut Faults)) -> Value {
    let recorder = Recorder::default();
    let mut open: Vec<Picks> = vec![Picks::new()];
    let mut seen: BTreeSet<(String, &'static str)> = BTreeSet::new();
    let (mut read, mut settled) = (Counts::new(), Counts::new());
    let mut missed = BTreeSet::new();
    let mut paths = 0;
    while let Some(picks) = open.pop() {
        paths += 1;
        if paths > PATHS_MAX {
            break;
        }
        recorder.record().picks = picks.clone();
        let mut faults = Faults::describing(recorder.clone());
        reader("{}", &mut faults);
        let mut record = recorder.record();
        let given = std::mem::take(&mut record.given);
        let absent: BTreeSet<String> = faults
            .list
            .into_iter()
            .map(|fault| fault.pointer)
            .filter(|at| !given.contains(at))
            .collect();
        for at in given.iter().chain(&absent) {
            *settled.entry(at.clone()).or_insert(0) += 1;
        }
        missed.extend(absent);
        for pointer in std::mem::take(&mut record.objects_read) {
            *read.entry(pointer).or_insert(0) += 1;
        }
        for way in std::mem::take(&mut record.ways) {
            if seen.insert(way.clone()) {
                let mut next = picks.clone();
                next.insert(way.0, way.1);
                open.push(next);
            }
        }
    }
    let record = recorder.record();
    // Required: there was a complaint, and no run without the field went without one.
    let counts = missed.into_iter().map(|at| (at.clone(), settled.get(&at).copied()));
    let missed = counts.filter_map(|(at, count)| Some((at, count?))).collect();
    object_schema("", &record, &read, &missed)
}

type Counts = BTreeMap<String, u32>;

fn object_schema(pointer: &str, record: &Record, read: &Counts, missed: &Counts) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (at, kind) in &record.fields {
        let Some(name) = at.strip_prefix(pointer).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        if name.contains('/') {
            continue;
        }
        let needed = read.get(pointer).is_some_and(|times| missed.get(at) == Some(times));
        let schema = field_schema(at, kind, record, read, missed);
        properties.insert(name.to_string(), if needed { schema } else { or_null(schema) });
        if needed {
            required.push(name);
        }
    }
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if let Some(names) = record.alternatives.get(pointer) {
        let each = names.iter().map(|name| json!({ "required": [name] }));
        schema["oneOf"] = each.collect();
    }
    schema
}

fn field_schema(at: &str, kind: &Kind, record: &Record, read: &Counts, missed: &Counts) -> Value {
    match kind {
        Kind::Any => json!({"description": "any JSON"}),
        Kind::Text { longest: None } => json!({"type": "string"}),
        Kind::Text { longest: Some(longest) } => json!({
            "type": "string", "minLength": 1, "maxLength": longest,
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        }),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number { first, last } => {
            json!({"type": "integer", "minimum": first, "maximum": last})
        }
        Kind::Span => json!({
            "type": "string", "description": "a duration: 1h30m, 250ms or ISO 8601 without years and months",
            "pattern": "^([0-9]+(\\.[0-9]+)?(w|d|h|m|s|ms|us))+$|^P",
        }),
        Kind::Time => json!({
            "type": "string", "format": "date-time", "description": "an instant with an offset from UTC",
        }),
        Kind::Choice(words) => json!({"type": "string", "enum": words}),
        Kind::Object => object_schema(at, record, read, missed),
        Kind::WordOrObject(words) => json!({"oneOf": [
            {"type": "string", "enum": words}, object_schema(at, record, read, missed),
        ]}),
        Kind::List { most } => {
            let item = format!("{at}/0");
            let items = match read.contains_key(&item) {
                true => object_schema(&item, record, read, missed),
                false => json!({}),
            };
            json!({"type": "array", "maxItems": most, "items": items})
        }
        Kind::Texts { most } => {
            json!({"type": "array", "maxItems": most, "items": {"type": "string"}})
        }
        Kind::Pairs { most } => json!({
            "type": "object", "maxProperties": most, "additionalProperties": {"type": "string"},
        }),
        Kind::Numbers { most, first, last } => json!({
            "type": "object", "maxProperties": most,
            "additionalProperties": {"type": "integer", "minimum": first, "maximum": last},
        }),
    }
}

/// Null is the same as absent.
fn or_null(mut schema: Value) -> Value {
    match &schema["type"] {
        Value::String(kind) => {
            schema["type"] = json!([kind, "null"]);
            // Not by index: that would put a null where nothing is.
            if let Some(Value::Array(words)) = schema.get_mut("enum") {
                words.push(Value::Null);
            }
            schema
        }
        _ if schema["oneOf"].is_array() => {
            if let Some(either) = schema["oneOf"].as_array_mut() {
                either.push(json!({"type": "null"}));
            }
            schema
        }
        _ => schema,
    }
}

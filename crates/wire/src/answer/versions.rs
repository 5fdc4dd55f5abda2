//! The versions of a job's definition.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The versions of a recurring job that are kept, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobVersions {
    pub items: Vec<JobVersion>,
}

/// What a job was, or is, defined as.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobVersion {
    pub version: u32,
    /// Does the schedule make runs of this one now?
    pub in_force: bool,
    /// When it came into force; null where that was not written down.
    pub since: Option<String>,
    pub by: JobVersionBy,
    /// The kept version before it, which `changed` compares it with; null: there is none.
    pub changed_from: Option<u32>,
    /// What differs, as JSON pointers into the definition.
    pub changed: Option<Vec<String>>,
    /// As GET of the job shows it: its fields, without those that say how the job is.
    pub definition: BTreeMap<String, Box<RawValue>>,
}

/// Who made a version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobVersionBy {
    /// key (an API key), no_key (made without one), unknown (it was not written down).
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The key's name at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

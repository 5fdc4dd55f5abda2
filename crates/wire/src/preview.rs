//! The answer to "what will this schedule do": `duly schedule preview --json` and
//! `POST /v1/schedules/preview` give the same document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The schedule in words.
    pub description: String,
    /// The IANA name the schedule is read in; `UTC` when it is read in none.
    pub timezone: String,
    /// The version of the time zone database behind the answer, such as `2026e`.
    pub tzdb: String,
    pub instants: Vec<Instant>,
    /// The dates of the next two years on which a change of the clocks changes what happens.
    pub dst_dates: Vec<DstDate>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instant {
    /// The instant the schedule names, UTC with milliseconds.
    pub nominal: String,
    /// When it fires: nominal plus the job's own offset inside its jitter window.
    pub effective: String,
    pub dst: Option<DstKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DstKind {
    /// The local time does not exist that day.
    Gap,
    /// The local time exists twice that day.
    Repeat,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DstDate {
    /// The local date, `2027-03-28`.
    pub date: String,
    /// The instant the clocks change, UTC with milliseconds.
    pub transition: String,
    pub effect: DstKind,
    /// A sentence for people.
    pub what: String,
}

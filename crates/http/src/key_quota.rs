//! What may be made with one API key, beside what its namespace may. It is given when the key is made and
//! never changes, so everything that was made with a key falls under the same quota.

use crate::keys::Key;
use model::{KeyId, Rate, Span};
use node::bucket;
use serde::{Deserialize, Serialize};

/// As it is kept, with the key. In the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyQuota {
    /// None: as much as its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submissions_per_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u32>,
    /// Runs that wait, and recurring jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Of its recurring jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fires_per_min: Option<u32>,
}

/// So many in a second, and as many at once.
fn each_second(per_s: u32) -> bucket::Rate {
    bucket::Rate { per_s: f64::from(per_s), burst: f64::from(per_s) }
}

impl KeyQuota {
    pub fn submissions(&self) -> Option<bucket::Rate> {
        self.submissions_per_s.map(each_second)
    }

    pub fn bytes(&self) -> Option<bucket::Rate> {
        self.bytes_per_s.map(each_second)
    }

    pub fn fires(&self) -> Option<Rate> {
        let starts = self.fires_per_min?;
        Some(Rate { starts, per: Span::from_secs(60), burst: starts })
    }

    /// Must it be known of a job that it was made with this key?
    pub fn counts(&self) -> bool {
        self.waiting.is_some() || self.jobs.is_some() || self.fires_per_min.is_some()
    }
}

impl Key {
    /// What jobs carry that are made with it, if somebody counts them.
    pub fn counted_id(&self) -> Option<KeyId> {
        KeyId::parse(&self.id).filter(|_| self.quota.counts())
    }
}

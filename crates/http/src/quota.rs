//! Quotas: how much a namespace, or one API key, may submit. They are looked at at the door, before the
//! body is read and before anything is stored, so that a caller who asks too much costs next to nothing.
//!
//! Each node keeps its part: the rate divided by the nodes that live. So the whole is never exceeded,
//! and whoever speaks to one node alone is given that node's part. What is counted is lost with the
//! process: a node that starts has full buckets.
//!
//! The headers are those of the IETF's draft "RateLimit header fields for HTTP": `RateLimit-Policy` says
//! what is allowed (`q` in `w` seconds), `RateLimit` what is left now (`r`) and when it is full again (`t`).

use crate::Api;
use crate::key_quota::KeyQuota;
use crate::limits::QUOTAS_KNOWN;
use crate::quota_counts::Held;
use crate::refusal::{Refusal, unexpected};
use crate::tenant::{Caller, Tenant};
use axum::extract::FromRequestParts;
use hyper::StatusCode;
use hyper::http::request::Parts;
use model::{KeyId, Namespace, Span, Text, Time};
use node::bucket::{Bucket, Rate};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a namespace may submit, in the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quota {
    /// Jobs made and changed, runs triggered.
    pub submissions: Option<Rate>,
    /// Bytes of the requests that do so.
    pub bytes: Option<Rate>,
    /// Runs that wait, and recurring jobs: `quota_counts`.
    pub waiting: Option<u32>,
    pub jobs: Option<u32>,
    /// Fires of recurring jobs; the core puts off what is beyond it.
    pub fires: Option<model::Rate>,
    /// Attempts under way; the executor looks after it.
    pub in_flight: Option<u32>,
}

/// By the name of the namespace; `*` is for those that have none of their own.
pub type Given = BTreeMap<String, Quota>;

pub const EVERYBODY: &str = "*";

/// The code of a refusal.
pub const OVER_QUOTA: &str = "over_quota";

/// What is counted, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Namespace(Namespace),
    Bytes(Namespace),
    Key(String),
    KeyBytes(String),
}

impl Whose {
    /// Its name in the headers.
    fn name(&self) -> &'static str {
        match self {
            Whose::Namespace(_) => "namespace",
            Whose::Bytes(_) => "bytes",
            Whose::Key(_) => "key",
            Whose::KeyBytes(_) => "key_bytes",
        }
    }

    fn is_bytes(&self) -> bool {
        matches!(self, Whose::Bytes(_) | Whose::KeyBytes(_))
    }
}

#[derive(Debug, Default)]
pub struct Quotas {
    given: Given,
    buckets: Mutex<BTreeMap<Whose, Bucket>>,
}

/// What is left of one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    pub name: &'static str,
    /// Of this node.
    pub rate: Rate,
    pub left: u64,
    pub full_in_s: u64,
}

impl Quotas {
    pub fn new(given: Given) -> Quotas {
        Quotas { given, buckets: Mutex::default() }
    }

    pub fn given(&self) -> &Given {
        &self.given
    }

    pub fn of(&self, namespace: &str) -> Quota {
        let own = self.given.get(namespace).or_else(|| self.given.get(EVERYBODY));
        own.copied().unwrap_or_default()
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<Whose, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bucket<'a>(
    buckets: &'a mut BTreeMap<Whose, Bucket>,
    whose: &Whose,
    rate: Rate,
    now: Time,
) -> &'a mut Bucket {
    if !buckets.contains_key(whose) && buckets.len() >= QUOTAS_KNOWN {
        // A full one is as good as a new one. If all are in use, they begin anew.
        buckets.retain(|_, bucket| bucket.left(rate, now).1 > 0);
        if buckets.len() >= QUOTAS_KNOWN {
            buckets.clear();
        }
    }
    buckets.entry(whose.clone()).or_insert_with(|| Bucket::full(rate, now))
}

/// The quotas that a request falls under, each as this node's part.
fn all(api: &Api, tenant: Tenant, name: &str, caller: &Caller) -> Vec<(Whose, Rate)> {
    let quota = api.quotas.of(name);
    let of_key = |rate: fn(&KeyQuota) -> Option<Rate>, whose: fn(String) -> Whose| {
        let key = caller.0.as_ref()?;
        Some((whose(key.id.clone()), rate(&key.quota)?))
    };
    let each = [
        quota.submissions.map(|rate| (Whose::Namespace(tenant.0), rate)),
        of_key(KeyQuota::submissions, Whose::Key),
        quota.bytes.map(|rate| (Whose::Bytes(tenant.0), rate)),
        of_key(KeyQuota::bytes, Whose::KeyBytes),
    ];
    let mut all: Vec<_> = each.into_iter().flatten().collect();
    if !all.is_empty() {
        let nodes = api.node.view().alive().count();
        all.iter_mut().for_each(|(_, rate)| *rate = rate.share(nodes));
    }
    all
}

/// Who submits, as the door found out.
#[derive(Clone, Debug)]
pub struct Submitter {
    pub tenant: Tenant,
    pub name: Text,
    pub caller: Caller,
}

/// Of a route that submits.
impl FromRequestParts<Arc<Api>> for Submitter {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Submitter, Refusal> {
        parts.extensions.get::<Submitter>().cloned().ok_or_else(unexpected)
    }
}

impl Submitter {
    /// Lets so many submissions of so many bytes pass, or none.
    pub fn take(&self, api: &Api, submissions: u32, bytes: u64) -> Result<(), Refusal> {
        let now = api.node.now();
        let all = all(api, self.tenant, &self.name, &self.caller);
        if all.is_empty() {
            return Ok(());
        }
        let mut buckets = api.quotas.buckets();
        let mut before = Vec::new();
        for (whose, rate) in &all {
            let wanted = if whose.is_bytes() { bytes as f64 } else { f64::from(submissions) };
            let bucket = bucket(&mut buckets, whose, *rate, now);
            let was = *bucket;
            if let Err(wait) = bucket.take(*rate, wanted, now) {
                // What others gave for this request is given back: it is refused as a whole.
                for (whose, was) in before {
                    buckets.insert(whose, was);
                }
                drop(buckets);
                api.requests.over_quota.add(1);
                return Err(self.over(whose, *rate, wait));
            }
            before.push((whose.clone(), was));
        }
        Ok(())
    }

    fn over(&self, whose: &Whose, rate: Rate, wait: Span) -> Refusal {
        let seconds = u32::try_from((wait.micros() + 999_999) / 1_000_000).unwrap_or(u32::MAX);
        let seconds = seconds.max(1);
        let (what, how) = match whose {
            Whose::Key(_) | Whose::KeyBytes(_) => ("this API key", "another key may have more"),
            _ => ("this namespace", "whoever runs the server sets [quotas]"),
        };
        let unit = if whose.is_bytes() { "bytes" } else { "submissions" };
        let per_s = (rate.per_s * 1_000.0).round() / 1_000.0;
        let detail = format!(
            "{what} may submit {per_s} {unit} a second here, and has; nothing was done: come back in \
             {seconds} s ({how})"
        );
        let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, OVER_QUOTA, detail);
        Refusal { retry_after: Some(seconds), ..refusal }
    }

    /// The same, for what adds to a job that was made with this key: its runs count for that one, whoever
    /// asks for them.
    pub fn for_key(&self, api: &Api, key: Option<KeyId>) -> Submitter {
        let caller = Caller(key.and_then(|key| api.ring.by_id(key)));
        Submitter { caller, ..self.clone() }
    }

    /// What is left of each quota.
    pub fn left(&self, api: &Api) -> Vec<Left> {
        let now = api.node.now();
        let all = all(api, self.tenant, &self.name, &self.caller);
        let mut buckets = api.quotas.buckets();
        let each = all.into_iter().map(|(whose, rate)| {
            let (left, full_in_s) = bucket(&mut buckets, &whose, rate, now).left(rate, now);
            Left { name: whose.name(), rate, left, full_in_s }
        });
        each.collect()
    }
}

/// `RateLimit-Policy` and `RateLimit`; none where nothing is limited.
pub fn headers(left: &[Left], held: &[Held]) -> Option<(String, String)> {
    if left.is_empty() && held.is_empty() {
        return None;
    }
    let policy = left.iter().map(|one| {
        let unit = if one.name.ends_with("bytes") { ";qu=\"content-bytes\"" } else { "" };
        let (quota, window) = (one.rate.burst as u64, one.rate.window_s());
        format!("\"{}\";q={quota}{unit};w={window}", one.name)
    });
    // What a namespace has goes away by itself or not at all: no window and no time belong to it.
    let policy = policy.chain(held.iter().map(|one| format!("\"{}\";q={}", one.name, one.limit)));
    let state =
        left.iter().map(|one| format!("\"{}\";r={};t={}", one.name, one.left, one.full_in_s));
    let state = state.chain(held.iter().map(|one| format!("\"{}\";r={}", one.name, one.left())));
    Some((policy.collect::<Vec<_>>().join(", "), state.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_lists_of_named_items() {
        let rate = Rate { per_s: 10.0, burst: 20.0 };
        let namespace = Left { name: "namespace", rate, left: 7, full_in_s: 2 };
        let bytes = Left { name: "bytes", ..namespace.clone() };
        let waiting = Held { name: "waiting", limit: 5, current: 4 };
        let (policy, state) = headers(&[namespace, bytes], &[waiting]).expect("limited");
        let expected =
            r#""namespace";q=20;w=2, "bytes";q=20;qu="content-bytes";w=2, "waiting";q=5"#;
        assert_eq!(policy, expected);
        assert_eq!(state, r#""namespace";r=7;t=2, "bytes";r=7;t=2, "waiting";r=1"#);
        assert_eq!(headers(&[], &[]), None);
    }

    #[test]
    fn a_namespace_of_its_own_counts_before_everybodys() {
        let quota =
            |per_s| Quota { submissions: Some(Rate { per_s, burst: per_s }), ..Quota::default() };
        let given =
            Given::from([("team-a".to_string(), quota(5.0)), ("*".to_string(), quota(9.0))]);
        let quotas = Quotas::new(given);
        assert_eq!(quotas.of("team-a"), quota(5.0));
        assert_eq!(quotas.of("team-b"), quota(9.0));
        assert_eq!(Quotas::default().of("team-a"), Quota::default());
    }
}

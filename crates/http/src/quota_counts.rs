//! Quotas of what there is, of a namespace or made with an API key: runs that wait, jobs that recur. The
//! store is asked how many there are, and not with every request: a count is good until as many were let in as it had left, or until it is
//! `COUNT_TRUSTED` old. So whoever is far from the limit costs nothing, and whoever is at it is judged by a
//! count that was made for it. Nothing is kept: a process that starts counts when it is first asked.
//!
//! What other nodes let in is not known here until the next count; the guide says how much that can be.

use crate::Api;
use crate::limits::{
    COUNT_BEYOND, COUNT_PAUSE_MAX, COUNT_TRUSTED, CROWDED_TRUSTED, QUOTAS_KNOWN, RETRY_JOBS_S,
    RETRY_WAITING_S,
};
use crate::quota::{OVER_QUOTA, Submitter};
use crate::refusal::Refusal;
use hyper::StatusCode;
use model::{KeyId, Namespace, Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::search::QuotaCounts;

/// What a submission adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// A run, now or later.
    Run,
    /// A recurring job.
    Job,
}

/// Whose it is that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Namespace(Namespace),
    Key(KeyId),
}

/// What one of them may have.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub of: Of,
    pub waiting: Option<u32>,
    pub jobs: Option<u32>,
}

impl Bound {
    fn limit(&self, adds: Adds) -> Option<u32> {
        match adds {
            Adds::Run => self.waiting,
            Adds::Job => self.jobs,
        }
    }

    /// How far the store counts.
    fn most(&self) -> usize {
        let most = self.waiting.max(self.jobs).unwrap_or(0);
        (most as usize).saturating_add(COUNT_BEYOND)
    }

    /// Its name in headers and answers.
    fn name(&self, adds: Adds) -> &'static str {
        match (self.of, adds) {
            (Of::Namespace(_), Adds::Run) => "waiting",
            (Of::Namespace(_), Adds::Job) => "jobs",
            (Of::Key(_), Adds::Run) => "key_waiting",
            (Of::Key(_), Adds::Job) => "key_jobs",
        }
    }
}

/// What is known of one of them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    counted: Option<QuotaCounts>,
    at: Time,
    took: Span,
    /// Let in since the count began.
    runs: usize,
    jobs: usize,
}

type Shared = Arc<tokio::sync::Mutex<Count>>;

#[derive(Debug, Default)]
pub struct Counts {
    known: Mutex<BTreeMap<Of, Shared>>,
}

impl Counts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Of, Shared>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, of: Of) -> Shared {
        let mut known = self.known();
        if known.len() >= QUOTAS_KNOWN && !known.contains_key(&of) {
            // Each is counted anew when it is asked for again.
            known.clear();
        }
        known.entry(of).or_default().clone()
    }
}

/// How one of these quotas stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub name: &'static str,
    pub limit: u32,
    pub current: usize,
}

impl Held {
    pub fn left(self) -> usize {
        (self.limit as usize).saturating_sub(self.current)
    }
}

impl Count {
    fn current(&self, adds: Adds) -> usize {
        let counted = self.counted.unwrap_or_default();
        match adds {
            Adds::Run => counted.waiting.saturating_add(self.runs),
            Adds::Job => counted.jobs.saturating_add(self.jobs),
        }
    }

    /// Must the store be asked before something is let in?
    fn is_due(&self, adds: Adds, limit: usize, now: Time) -> bool {
        let age = now.since(self.at);
        // A clock that was set back makes a count look younger than it is.
        let old = age >= COUNT_TRUSTED || age < Span::ZERO;
        self.counted.is_none() || old || self.current(adds) >= limit
    }

    /// Counting takes at most a fifth of the time, and nobody waits for long.
    fn pause(&self, now: Time) -> Duration {
        let next = self.at.plus(self.took.times(4));
        let wait = next.since(now).micros().clamp(0, COUNT_PAUSE_MAX.micros());
        Duration::from_micros(wait.unsigned_abs())
    }

    /// One that is let in, or that was refused elsewhere after it had been.
    fn let_in(&mut self, adds: Adds, by: isize) {
        let count = match adds {
            Adds::Run => &mut self.runs,
            Adds::Job => &mut self.jobs,
        };
        *count = count.saturating_add_signed(by);
    }

    async fn refresh(&mut self, api: &Api, bound: &Bound) {
        if self.counted.is_some() {
            tokio::time::sleep(self.pause(api.node.now())).await;
        }
        let began = api.node.now();
        // A store that does not answer refuses what is submitted by itself.
        let counted = match bound.of {
            Of::Namespace(namespace) => api.node.namespace_counts(namespace, bound.most()).await,
            Of::Key(key) => api.node.key_counts(key, bound.most()).await,
        };
        if let Ok(counted) = counted {
            let took = api.node.now().since(began);
            *self = Count { counted: Some(counted), at: began.plus(took), took, runs: 0, jobs: 0 };
        }
    }
}

impl Submitter {
    /// What of this falls under a quota: the namespace's, and the key's.
    fn bounds(&self, api: &Api) -> Vec<Bound> {
        let quota = api.quotas.of(&self.name);
        let of = Of::Namespace(self.tenant.0);
        let namespace = Bound { of, waiting: quota.waiting, jobs: quota.jobs };
        let key = self.caller.0.as_ref().and_then(|key| {
            let of = Of::Key(key.counted_id()?);
            Some(Bound { of, waiting: key.quota.waiting, jobs: key.quota.jobs })
        });
        let all = [Some(namespace), key].into_iter().flatten();
        all.filter(|bound| bound.waiting.is_some() || bound.jobs.is_some()).collect()
    }

    /// May something be added to what there is? `beside` were let in by the same request.
    pub async fn admit(&self, api: &Api, adds: Adds, beside: usize) -> Result<(), Refusal> {
        let mut passed: Vec<Of> = Vec::new();
        for bound in self.bounds(api) {
            if let Err(refusal) = admit(api, &bound, adds, beside).await {
                // What the others let in for it is given back.
                for of in passed {
                    api.counts.of(of).lock().await.let_in(adds, -1);
                }
                api.requests.over_quota.add(1);
                return Err(refusal);
            }
            passed.push(bound.of);
        }
        Ok(())
    }

    /// How these quotas stand, as far as it is known without asking the store.
    pub async fn held(&self, api: &Api) -> Vec<Held> {
        let mut all = Vec::new();
        for bound in self.bounds(api) {
            let count = *api.counts.of(bound.of).lock().await;
            if count.counted.is_none() {
                continue;
            }
            all.extend([Adds::Run, Adds::Job].into_iter().filter_map(|adds| {
                let (name, limit) = (bound.name(adds), bound.limit(adds)?);
                Some(Held { name, limit, current: count.current(adds) })
            }));
        }
        all
    }

    /// The same after asking the store.
    pub async fn held_now(&self, api: &Api) -> Vec<Held> {
        for bound in self.bounds(api) {
            api.counts.of(bound.of).lock().await.refresh(api, &bound).await;
        }
        self.held(api).await
    }
}

async fn admit(api: &Api, bound: &Bound, adds: Adds, beside: usize) -> Result<(), Refusal> {
    let Some(limit) = bound.limit(adds) else { return Ok(()) };
    let shared = api.counts.of(bound.of);
    // Whoever counts holds it, and the others wait for that count instead of making their own.
    let mut count = shared.lock().await;
    if beside == 0 && count.is_due(adds, limit as usize, api.node.now()) {
        count.refresh(api, bound).await;
    }
    let current = count.current(adds);
    if current >= limit as usize {
        return Err(over(bound, adds, limit, current));
    }
    count.let_in(adds, 1);
    Ok(())
}

/// Do as many runs wait as may?
pub async fn is_crowded(api: &Api, bound: &Bound) -> bool {
    let Some(limit) = bound.waiting else { return false };
    let shared = api.counts.of(bound.of);
    let mut count = shared.lock().await;
    // Fires add to it without passing the door, so the count is not older than the last look.
    let age = api.node.now().since(count.at);
    if count.counted.is_none() || age >= CROWDED_TRUSTED || age < Span::ZERO {
        count.refresh(api, bound).await;
    }
    count.counted.is_some_and(|counted| counted.waiting >= limit as usize)
}

fn over(bound: &Bound, adds: Adds, limit: u32, current: usize) -> Refusal {
    let name = bound.name(adds);
    let (whose, made) = match bound.of {
        Of::Namespace(_) => ("this namespace", ""),
        Of::Key(_) => ("this API key", " of what was made with it"),
    };
    let (seconds, detail) = match adds {
        Adds::Run => (
            RETRY_WAITING_S,
            format!(
                "quota {name}: {whose} has {current} runs that wait{made} and may have {limit}; nothing was \
                 done: come back in {RETRY_WAITING_S} s, when some of them have run"
            ),
        ),
        Adds::Job => (
            RETRY_JOBS_S,
            format!(
                "quota {name}: {whose} has {current} recurring jobs{made} and may have {limit}; nothing was \
                 done: cancel one, or come back in {RETRY_JOBS_S} s"
            ),
        ),
    };
    let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, OVER_QUOTA, detail);
    Refusal { retry_after: Some(seconds), ..refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(waiting: usize, runs: usize) -> Count {
        let counted = Some(QuotaCounts { waiting, jobs: 0 });
        Count { counted, at: Time::from_secs(100), took: Span::from_millis(3), runs, jobs: 0 }
    }

    #[test]
    fn a_count_is_good_until_it_is_old_or_used_up() {
        let soon = Time::from_secs(101);
        assert!(Count::default().is_due(Adds::Run, 10, soon));
        assert!(!count(3, 6).is_due(Adds::Run, 10, soon));
        assert!(count(3, 7).is_due(Adds::Run, 10, soon), "as many were let in as were left");
        assert!(!count(3, 7).is_due(Adds::Job, 10, soon));
        assert!(count(3, 0).is_due(Adds::Run, 10, Time::from_secs(100).plus(COUNT_TRUSTED)));
        assert!(count(3, 0).is_due(Adds::Run, 10, Time::from_secs(99)), "a clock set back");
    }

    #[test]
    fn counting_takes_a_fifth_of_the_time_and_nobody_waits_long() {
        let at = |millis: i64| Time::from_secs(100).plus(Span::from_millis(millis));
        assert_eq!(count(9, 0).pause(at(0)), Duration::from_millis(12));
        assert_eq!(count(9, 0).pause(at(30)), Duration::ZERO);
        let slow = Count { took: Span::from_secs(9), ..count(9, 0) };
        assert_eq!(slow.pause(at(0)).as_micros() as i64, COUNT_PAUSE_MAX.micros());
    }

    #[test]
    fn a_refusal_names_the_quota_the_limit_and_the_count() {
        let of = |of| Bound { of, waiting: Some(10), jobs: Some(2) };
        let namespace = of(Of::Namespace(Namespace(1)));
        let refusal = over(&namespace, Adds::Run, 10, 12);
        assert!(refusal.detail.contains("quota waiting") && refusal.detail.contains("12 runs"));
        assert!(refusal.detail.contains("may have 10"), "{}", refusal.detail);
        assert_eq!((refusal.code, refusal.retry_after), (OVER_QUOTA, Some(RETRY_WAITING_S)));
        assert!(over(&namespace, Adds::Job, 2, 2).detail.contains("2 recurring jobs"));
        let key = of(Of::Key(KeyId::from_bits(1)));
        let told = over(&key, Adds::Run, 10, 12).detail;
        assert!(told.contains("quota key_waiting: this API key has 12 runs"), "{told}");
        assert!(over(&key, Adds::Job, 2, 2).detail.contains("quota key_jobs"));
    }
}

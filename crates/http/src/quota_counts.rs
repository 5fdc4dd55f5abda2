//! Quotas of what a namespace has: runs that wait, jobs that recur. The store is asked how many there are,
//! and not with every request: a count is good until as many were let in as it had left, or until it is
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
use model::{Namespace, Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::search::NamespaceCounts;

/// What a submission adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// A run, now or later.
    Run,
    /// A recurring job.
    Job,
}

/// What is known of one namespace.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    counted: Option<NamespaceCounts>,
    at: Time,
    took: Span,
    /// Let in since the count began.
    runs: usize,
    jobs: usize,
}

type Shared = Arc<tokio::sync::Mutex<Count>>;

#[derive(Debug, Default)]
pub struct Counts {
    namespaces: Mutex<BTreeMap<Namespace, Shared>>,
}

impl Counts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Namespace, Shared>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, namespace: Namespace) -> Shared {
        let mut known = self.known();
        if known.len() >= QUOTAS_KNOWN && !known.contains_key(&namespace) {
            // Each is counted anew when it is asked for again.
            known.clear();
        }
        known.entry(namespace).or_default().clone()
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

    async fn refresh(&mut self, api: &Api, namespace: Namespace, limit: usize) {
        if self.counted.is_some() {
            tokio::time::sleep(self.pause(api.node.now())).await;
        }
        let began = api.node.now();
        // A store that does not answer refuses what is submitted by itself.
        if let Ok(counted) = api.node.namespace_counts(namespace, limit).await {
            let took = api.node.now().since(began);
            *self = Count { counted: Some(counted), at: began.plus(took), took, runs: 0, jobs: 0 };
        }
    }
}

impl Submitter {
    /// May something be added to what the namespace has? `beside` were let in by the same request.
    pub async fn admit(&self, api: &Api, adds: Adds, beside: usize) -> Result<(), Refusal> {
        let quota = api.quotas.of(&self.name);
        let limit = match adds {
            Adds::Run => quota.waiting,
            Adds::Job => quota.jobs,
        };
        let Some(limit) = limit else { return Ok(()) };
        let most = quota.waiting.max(quota.jobs).unwrap_or(limit) as usize;
        let shared = api.counts.of(self.tenant.0);
        // Whoever counts holds it, and the others wait for that count instead of making their own.
        let mut count = shared.lock().await;
        if beside == 0 && count.is_due(adds, limit as usize, api.node.now()) {
            count.refresh(api, self.tenant.0, most.saturating_add(COUNT_BEYOND)).await;
        }
        let current = count.current(adds);
        if current >= limit as usize {
            drop(count);
            api.requests.over_quota.add(1);
            return Err(over(adds, limit, current));
        }
        match adds {
            Adds::Run => count.runs += 1,
            Adds::Job => count.jobs += 1,
        }
        Ok(())
    }

    /// Do as many runs wait as may?
    pub async fn is_crowded(&self, api: &Api) -> bool {
        let quota = api.quotas.of(&self.name);
        let Some(limit) = quota.waiting else { return false };
        let limit = limit as usize;
        let shared = api.counts.of(self.tenant.0);
        let mut count = shared.lock().await;
        // Fires add to it without passing the door, so the count is not older than the last look.
        let age = api.node.now().since(count.at);
        if count.counted.is_none() || age >= CROWDED_TRUSTED || age < Span::ZERO {
            let most = quota.waiting.max(quota.jobs).map_or(limit, |most| most as usize);
            count.refresh(api, self.tenant.0, most.saturating_add(COUNT_BEYOND)).await;
        }
        count.counted.is_some_and(|counted| counted.waiting >= limit)
    }

    /// How these quotas stand, as far as it is known without asking the store.
    pub async fn held(&self, api: &Api) -> Vec<Held> {
        let quota = api.quotas.of(&self.name);
        let limits = [("waiting", Adds::Run, quota.waiting), ("jobs", Adds::Job, quota.jobs)];
        if limits.iter().all(|(.., limit)| limit.is_none()) {
            return Vec::new();
        }
        let count = *api.counts.of(self.tenant.0).lock().await;
        if count.counted.is_none() {
            return Vec::new();
        }
        let held = |(name, adds, limit): (_, _, Option<u32>)| {
            Some(Held { name, limit: limit?, current: count.current(adds) })
        };
        limits.into_iter().filter_map(held).collect()
    }

    /// The same after asking the store.
    pub async fn held_now(&self, api: &Api) -> Vec<Held> {
        let quota = api.quotas.of(&self.name);
        if let Some(most) = quota.waiting.max(quota.jobs) {
            let shared = api.counts.of(self.tenant.0);
            let mut count = shared.lock().await;
            let most = (most as usize).saturating_add(COUNT_BEYOND);
            count.refresh(api, self.tenant.0, most).await;
        }
        self.held(api).await
    }
}

fn over(adds: Adds, limit: u32, current: usize) -> Refusal {
    let (seconds, detail) = match adds {
        Adds::Run => (
            RETRY_WAITING_S,
            format!(
                "quota waiting: this namespace has {current} runs that wait and may have {limit}; nothing was \
                 done: come back in {RETRY_WAITING_S} s, when some of them have run"
            ),
        ),
        Adds::Job => (
            RETRY_JOBS_S,
            format!(
                "quota jobs: this namespace has {current} recurring jobs and may have {limit}; nothing was \
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
        let counted = Some(NamespaceCounts { waiting, jobs: 0 });
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
        let refusal = over(Adds::Run, 10, 12);
        assert!(refusal.detail.contains("quota waiting") && refusal.detail.contains("12 runs"));
        assert!(refusal.detail.contains("may have 10"), "{}", refusal.detail);
        assert_eq!((refusal.code, refusal.retry_after), (OVER_QUOTA, Some(RETRY_WAITING_S)));
        assert!(over(Adds::Job, 2, 2).detail.contains("2 recurring jobs"));
    }
}

//! How a worker is made.

use super::{Control, Stats, Worker};
use crate::client::Client;
use crate::clock;
use crate::engine::Options;
use crate::error::Error;
use crate::limits::{LEASE_MAX, LEASE_MIN};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What happens to a handler when no heartbeat has been answered for 90 % of its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLeaseUnknown {
    /// It stops where the run has a group, and so may count on being alone.
    #[default]
    Auto,
    /// It stops.
    Stop,
    /// It goes on. If another has the run by then, its settle is refused.
    Continue,
}

/// How a worker is made.
#[derive(Clone, Debug)]
pub struct WorkerBuilder {
    client: Client,
    queues: Vec<String>,
    concurrency: usize,
    prefetch: usize,
    lease: Duration,
    wait: Duration,
    grace: Duration,
    on_lease_unknown: OnLeaseUnknown,
    name: Option<String>,
    version: Option<String>,
    labels: BTreeMap<String, String>,
}

impl WorkerBuilder {
    pub(super) fn new(client: &Client) -> WorkerBuilder {
        WorkerBuilder {
            client: client.clone(),
            queues: vec!["default".to_string()],
            concurrency: 10,
            prefetch: 0,
            lease: Duration::from_secs(30),
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(25),
            on_lease_unknown: OnLeaseUnknown::Auto,
            name: None,
            version: None,
            labels: BTreeMap::new(),
        }
    }

    /// Where its runs come from: `default` unless said otherwise.
    #[must_use]
    pub fn queues<S: Into<String>>(mut self, queues: impl IntoIterator<Item = S>) -> Self {
        self.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Handlers at once: 10.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers;
        self
    }

    /// Runs that are held beyond that, so that none has to wait for the network: for many short runs.
    #[must_use]
    pub fn prefetch(mut self, runs: usize) -> Self {
        self.prefetch = runs;
        self
    }

    /// How long a run is this worker's without a heartbeat: 30 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a claim waits for runs: 20 s, and at most half of the lease.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long handlers may go on in a drain: 25 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What happens to a handler when no heartbeat has been answered for 90 % of its lease.
    #[must_use]
    pub fn on_lease_unknown(mut self, choice: OnLeaseUnknown) -> Self {
        self.on_lease_unknown = choice;
        self
    }

    /// Its name: unique, for people. Made of the host's and the process's unless said otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The version of your program, for people.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Something else for people.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Nothing is sent yet.
    pub fn build(self) -> Result<Worker, Error> {
        let invalid = |text: &str| Err(Error::Invalid(text.to_string()));
        if self.concurrency < 1 {
            return invalid("concurrency is at least 1");
        }
        if self.queues.is_empty() {
            return invalid("a worker needs at least one queue");
        }
        if self.lease < LEASE_MIN || self.lease > LEASE_MAX {
            return invalid("a lease lasts 1s to 1h");
        }
        let name = self.name.unwrap_or_else(|| {
            let id = clock::new_id();
            format!("{}-{}-{}", host(), std::process::id(), &id[..8])
        });
        let mut about = Map::new();
        about.insert("capacity".to_string(), self.concurrency.into());
        if let Some(version) = self.version {
            about.insert("version".to_string(), version.into());
        }
        if !self.labels.is_empty() {
            let labels = self.labels.into_iter().map(|(name, value)| (name, value.into()));
            about.insert("labels".to_string(), Value::Object(labels.collect()));
        }
        let control = Control {
            name: name.as_str().into(),
            asked: CancellationToken::new(),
            now: CancellationToken::new(),
            stats: Arc::new(Mutex::new(Stats::default())),
        };
        let options = Options {
            name,
            queues: self.queues,
            concurrency: self.concurrency,
            prefetch: self.prefetch,
            lease: self.lease,
            // The lease counts from when the claim was sent: a claim that waits longer than half of it would
            // leave too little.
            wait: self.wait.min(self.lease / 2),
            grace: self.grace,
            on_lease_unknown: self.on_lease_unknown,
            about: Value::Object(about),
        };
        Ok(Worker { client: self.client, options, handlers: HashMap::new(), control })
    }
}

fn host() -> String {
    let said = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let said = said.or_else(|| std::env::var("HOSTNAME").ok());
    let name = said.as_deref().map(str::trim).filter(|name| !name.is_empty());
    name.unwrap_or("worker").chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Client, Context, End, Worker};
    use std::time::Duration;

    #[test]
    fn options_that_cannot_be_are_refused_with_the_way_out() {
        let client = Client::at("http://127.0.0.1:9").unwrap();
        let builder = || Worker::builder(&client);
        for (bad, said) in [
            (builder().concurrency(0), "concurrency is at least 1"),
            (builder().queues::<String>([]), "at least one queue"),
            (builder().lease(Duration::from_millis(999)), "1s to 1h"),
            (builder().lease(Duration::from_secs(3_601)), "1s to 1h"),
        ] {
            let error = bad.build().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let mut worker = builder().build().unwrap();
        let nothing = async |(): (), _: Context| Ok::<(), End>(());
        worker.handle("a", nothing).unwrap();
        let twice = worker.handle("a", nothing).unwrap_err().to_string();
        assert!(twice.contains("already"), "{twice}");
        for number in 1..100 {
            worker.handle(&number.to_string(), nothing).unwrap();
        }
        assert!(worker.handle("too many", nothing).is_err());
        assert!(worker.name().contains(&std::process::id().to_string()));
    }

    #[tokio::test]
    async fn a_worker_without_a_handler_does_not_begin() {
        let client = Client::at("http://127.0.0.1:9").unwrap();
        let error = Worker::builder(&client).build().unwrap().serve().await.unwrap_err();
        assert!(error.to_string().contains("at least one handler"), "{error}");
    }
}

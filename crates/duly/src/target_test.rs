//! Joins the HTTP interface's test of a target with the executor that sends it.

use executor::{Options, Probe};
use http_api::target_test::{TargetTest, TargetTested, TargetTester, Testing};
use model::{Bytes, Target};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Tests at once: a person tries one target at a time.
const TESTS_MAX: usize = 8;

#[derive(Debug)]
pub struct Tester {
    options: Options,
    room: Arc<Semaphore>,
}

impl Tester {
    pub fn new(options: Options) -> Tester {
        Tester { options, room: Arc::new(Semaphore::new(TESTS_MAX)) }
    }
}

impl TargetTester for Tester {
    fn test(&self, test: TargetTest) -> Option<Testing> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        let options = self.options.clone();
        let id = format!("test_{:016x}", node::random::bits());
        let (url, method, headers) = match test.target {
            Target::Http { url, method, headers } => (url, method, headers),
            _ => return None,
        };
        let probe = Probe {
            namespace: test.namespace,
            url: url.to_string(),
            method: method.to_string(),
            headers,
            payload: Bytes::from(test.payload.into_bytes()),
            id: id.clone(),
            request_id: id.clone(),
            timeout: test.timeout,
            now: test.now,
        };
        Some(Box::pin(async move {
            let probed = probe.send(&options.client, &*options.secrets).await;
            drop(permit);
            TargetTested {
                id,
                code: probed.code,
                body: probed.body,
                took: probed.took,
                error: probed.error,
                meaning: probed.meaning,
            }
        }))
    }
}

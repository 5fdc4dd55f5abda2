//! How many webhooks can this machine exchange at all? Signed, sent and heard as an attempt's are, 64 under
//! way to the receiver of `duly bench`, without a store, a core or an API. What `duly bench webhook` does
//! cannot be more than this and the no-op jobs of `duly bench noop` in turn on the same cores.
//!
//!     cargo run --release -p executor --example exchange -- [WEBHOOKS] [TURNS]
#![allow(clippy::expect_used, clippy::panic)] // a bench: whatever goes wrong ends it

use bench_load::{Receiver, Seen};
use executor::limits::HOST_IN_FLIGHT_MAX;
use executor::resolve::{Resolve, Resolving};
use executor::vet::Guard;
use executor::{Client, Probe, Secret, Secrets};
use model::{Namespace, Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, name: &str) -> Resolving {
        let name = name.to_string();
        Box::pin(async move { Err(format!("{name}: addresses only")) })
    }
}

#[derive(Debug)]
struct OneSecret;

impl Secrets for OneSecret {
    fn of(&self, _: Namespace, _: Time) -> Result<Vec<Secret>, String> {
        Ok(vec![Secret::new(vec![7; 32])])
    }
}

async fn turn(client: &Arc<Client>, webhooks: u64) -> f64 {
    let seen = Arc::new(Seen::new(webhooks, None).expect("room to count"));
    let receiver = Receiver::start(seen.clone()).expect("a receiver");
    let url = format!("http://{}/bench", receiver.address);
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let sender = || {
        let (client, url, next) = (client.clone(), url.clone(), next.clone());
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= webhooks {
                    return;
                }
                let payload = format!(r#"{{"number":{number},"padding":"{:0<170}"}}"#, "");
                let probe = Probe {
                    namespace: Namespace(0),
                    url: url.clone(),
                    method: "POST".into(),
                    headers: Vec::new(),
                    payload: payload.into_bytes().into(),
                    id: format!("run_{number:048}"),
                    request_id: format!("req_{number:016}"),
                    timeout: Span::from_secs(30),
                    now: Time::from_secs(1_800_000_000),
                };
                let probed = probe.send(&client, &OneSecret).await;
                assert_eq!(probed.code, Some(200), "{:?}", probed.error);
            }
        }
    };
    let senders: Vec<_> = (0..HOST_IN_FLIGHT_MAX).map(|_| tokio::spawn(sender())).collect();
    for sender in senders {
        sender.await.expect("no panic");
    }
    let rate = webhooks as f64 / began.elapsed().as_secs_f64();
    assert_eq!(seen.distinct(), webhooks, "each arrived");
    rate
}

fn main() {
    let numbers = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let numbers: Vec<u64> = numbers.collect();
    let number = |at: usize, usual| numbers.get(at).copied().unwrap_or(usual);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let guard = Guard::new("127.0.0.1:9".parse().expect("an address"), Vec::new());
    let client = Client::new(guard, Arc::new(NoNames), None, None).expect("a client");
    let client = Arc::new(client);
    runtime.block_on(async {
        for _ in 0..number(1, 3) {
            println!("{:.0} webhooks/s", turn(&client, number(0, 60_000)).await);
        }
    });
}

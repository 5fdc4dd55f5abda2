//! Handlers that misbehave.

use crate::scenario::PATIENCE;
use crate::server::{Server, new_queue};
use duly_client::types::{ClaimOptions, Run};
use duly_client::{Client, Context, Control, End, JobRequest, RetryPolicy, Stats, Worker};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

struct Stage {
    _server: Server,
    client: Client,
    queue: String,
}

impl Stage {
    fn new() -> Stage {
        let server = Server::start();
        let client = Client::at(&*server.url).unwrap();
        Stage { _server: server, client, queue: new_queue() }
    }

    fn worker(&self) -> Worker {
        let builder = Worker::builder(&self.client).queues([&*self.queue]);
        builder.lease(Duration::from_secs(1)).grace(Duration::from_millis(100)).build().unwrap()
    }

    async fn submit(&self, kind: &str, payload: Value) -> String {
        let retry = RetryPolicy::new().max_retries(1).initial("100ms");
        let job = JobRequest::worker(kind).payload(payload).queue(&*self.queue).retry(retry);
        self.client.create(&job).await.unwrap().run_id.unwrap()
    }

    async fn ended(&self, run: &str) -> Run {
        self.client.run_ended(run, PATIENCE).await.unwrap()
    }
}

fn begin(worker: Worker) -> (Control, JoinHandle<Stats>) {
    let control = worker.control();
    (control, tokio::spawn(async { worker.serve().await.unwrap() }))
}

async fn end(control: Control, task: JoinHandle<Stats>) -> Stats {
    control.stop();
    tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap()
}

fn fall(ctx: &Context) {
    assert!(ctx.attempt() > 1, "on purpose");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_has_failed() {
    let stage = Stage::new();
    let mut worker = stage.worker();
    worker
        .handle("task", async |_: Value, ctx: Context| {
            fall(&ctx);
            Ok::<_, End>("mended")
        })
        .unwrap();
    let in_thread = |_: Value, ctx: Context| {
        fall(&ctx);
        Ok(())
    };
    worker.handle_blocking("thread", in_thread).unwrap();
    let (control, task) = begin(worker);
    for kind in ["task", "thread"] {
        let run = stage.submit(kind, json!(null)).await;
        let ended = stage.ended(&run).await;
        assert_eq!(ended.status, "succeeded");
        let first = &ended.attempts.unwrap()[0];
        assert!(first.error.as_deref().unwrap().contains("panicked"), "{first:?}");
    }
    let stats = end(control, task).await;
    assert_eq!((stats.failed, stats.succeeded), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_and_an_output_that_is_too_large_are_not_tried_again() {
    let stage = Stage::new();
    let mut worker = stage.worker();
    let large = async |size: usize, _: Context| Ok::<_, End>("x".repeat(size));
    worker.handle("large", large).unwrap();
    let (control, task) = begin(worker);
    for (payload, said) in [(json!("many"), "payload"), (json!(20_000), "output")] {
        let run = stage.submit("large", payload).await;
        let ended = stage.ended(&run).await;
        assert_eq!((ended.status.as_str(), ended.attempt), ("dead", 1));
        assert!(ended.error.as_deref().unwrap().contains(said), "{ended:?}");
    }
    let stats = end(control, task).await;
    assert_eq!((stats.claimed, stats.failed), (2, 2));
}

/// One thread for everything, and a handler that never lets go of it for three leases.
#[tokio::test(flavor = "current_thread")]
async fn a_handler_that_blocks_the_runtime_keeps_its_run() {
    let stage = Stage::new();
    let run = stage.submit("block", json!(null)).await;
    let mut worker = stage.worker();
    let block = async |_: Value, ctx: Context| {
        std::thread::sleep(Duration::from_secs(3));
        Ok::<_, End>(ctx.lease_unknown())
    };
    worker.handle("block", block).unwrap();
    let (control, task) = begin(worker);
    let ended = stage.ended(&run).await;
    assert_eq!((ended.attempt, ended.output), (1, Some(json!(false))));
    assert_eq!(end(control, task).await.refused, 0);
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_hear_is_dropped_and_its_run_handed_back() {
    let stage = Stage::new();
    let run = stage.submit("deaf", json!(null)).await;
    let mut worker = stage.worker();
    let dropped = Arc::new(AtomicBool::new(false));
    let (mark, started) = (Arc::clone(&dropped), Arc::new(tokio::sync::Notify::new()));
    let begun = Arc::clone(&started);
    worker
        .handle("deaf", move |_: Value, _| {
            let (mark, begun) = (Dropped(Arc::clone(&mark)), Arc::clone(&begun));
            async move {
                begun.notify_one();
                std::future::pending::<()>().await;
                drop(mark);
                Ok::<(), End>(())
            }
        })
        .unwrap();
    let (control, task) = begin(worker);
    started.notified().await;
    control.stop();
    let stats = end(control, task).await;
    assert_eq!((stats.released, stats.abandoned), (1, 0));
    assert!(dropped.load(Ordering::SeqCst));
    let options = ClaimOptions::new().wait(Duration::from_secs(10));
    let claimed = stage.client.claim("other", &[&stage.queue], options).await.unwrap().runs;
    assert_eq!(claimed.iter().map(|one| &one.run_id).collect::<Vec<_>>(), [&run]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_nobody_waits_for_ends_and_leaves() {
    let stage = Stage::new();
    let mut worker = stage.worker();
    worker.handle("noop", async |_: Value, _| Ok::<(), End>(())).unwrap();
    let (_, task) = begin(worker);
    let run = stage.submit("noop", json!(null)).await;
    assert_eq!(stage.ended(&run).await.status, "succeeded");
    assert_eq!(stage.client.workers().all().await.unwrap().len(), 1);
    task.abort();
    let gone = async {
        while !stage.client.workers().all().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it said goodbye");
}

//! What workers say is shown: how far a run is, and how fast a queue moves.

use crate::server::{Server, new_queue};
use duly_client::types::{BeatItem, ClaimOptions, SettleItem};
use duly_client::{Client, Context, End, JobRequest, Worker};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn progress_and_checkpoints_are_shown() {
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let job = JobRequest::worker("mail").queue(&*queue);
    let run = client.create(&job).await.unwrap().run_id.unwrap();
    let options = ClaimOptions::new().max(1).wait(Duration::from_secs(10));
    let claimed = client.claim("w", &[&queue], options).await.unwrap().runs;
    let said: Value = json!({"fraction": 0.25, "message": "page 3 of 12"});
    let beat = BeatItem::new(&claimed[0]).progress(said);
    client.heartbeat("w", &[beat.checkpoint(json!({"page": 3}))]).await.unwrap();
    let shown = client.run(&run).await.unwrap();
    let progress = shown.progress.unwrap();
    assert_eq!(progress.fraction, Some(0.25));
    assert_eq!(progress.message.as_deref(), Some("page 3 of 12"));
    assert!(progress.at.ends_with('Z'), "{}", progress.at);
    assert_eq!(shown.checkpoint, Some(json!({"page": 3})));
    client.settle("w", &[SettleItem::succeeded(&claimed[0])]).await.unwrap();
    assert_eq!(client.run(&run).await.unwrap().progress, None, "it is of an attempt under way");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_says_how_fast_it_moves_and_how_many_workers_it_wants() {
    const RUNS: usize = 40;
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let job = JobRequest::worker("nap").queue(&*queue);
    client.create_many(&vec![job; RUNS]).await.unwrap();
    let waiting = client.queue(&queue).await.unwrap();
    assert_eq!((waiting.ready, waiting.service_per_s), (RUNS as u64, Some(0.0)));
    // The first minute is counted from the first arrival, in slices of five seconds.
    let arrival = waiting.arrival_per_s.unwrap();
    assert!((RUNS as f64 / 60.0..=RUNS as f64 / 5.0).contains(&arrival), "{waiting:?}");
    assert_eq!(waiting.suggested_workers, Some(1), "how long one takes is not known yet");

    let mut worker = Worker::builder(&client).queues([&*queue]).concurrency(4).build().unwrap();
    let nap = async |_: Value, _: Context| {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok::<(), End>(())
    };
    worker.handle("nap", nap).unwrap();
    let control = worker.control();
    let task = tokio::spawn(worker.serve());
    let moving = async {
        while control.stats().succeeded < 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        client.queue(&queue).await.unwrap()
    };
    let moving = tokio::time::timeout(Duration::from_secs(30), moving).await.unwrap();
    let service = moving.service_per_s.unwrap();
    assert!(service > 0.0 && service <= RUNS as f64 / 5.0, "{moving:?}");
    // What comes and waits asks for handlers of half a second each; a worker has four.
    let (arrival, ready) = (moving.arrival_per_s.unwrap(), moving.ready as f64);
    let least = ((arrival + ready / 60.0) * 0.5 / 4.0).ceil() as u64;
    let suggested = moving.suggested_workers.unwrap();
    assert!((least.max(1)..=RUNS as u64).contains(&suggested), "{moving:?}");
    control.stop();
    control.stop();
    task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_says_of_its_progress_goes_with_the_next_heartbeat() {
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let builder = Worker::builder(&client).queues([&*queue]).lease(Duration::from_secs(1));
    let mut worker = builder.build().unwrap();
    let slow = async |_: Value, ctx: Context| {
        ctx.progress(0.2);
        ctx.progress_with(1.4, "two of five");
        ctx.stop().cancelled().await;
        Err::<(), End>(End::release())
    };
    worker.handle("slow", slow).unwrap();
    let control = worker.control();
    let task = tokio::spawn(worker.serve());
    let job = JobRequest::worker("slow").queue(&*queue);
    let run = client.create(&job).await.unwrap().run_id.unwrap();
    let shown = async {
        loop {
            if let Some(progress) = client.run(&run).await.unwrap().progress {
                return progress;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_secs(20), shown).await.unwrap();
    assert_eq!((shown.fraction, shown.message.as_deref()), (Some(1.0), Some("two of five")));
    control.stop();
    control.stop();
    // The claim that was cut off may have been asked once more, and what it brought was handed back, too.
    let stats = task.await.unwrap().unwrap();
    assert_eq!((stats.released, stats.succeeded), (stats.claimed, 0));
}

//! What the conformance set does not play: managing jobs, lists, errors, real webhooks.

use crate::server::{Server, new_queue};
use duly_client::types::{Bulk, ClaimOptions, JobFilter, RunFilter, SettleItem};
use duly_client::{
    Backoff, Client, Error, JobRequest, Refusal, RetryPolicy, Schedule, Target, verify,
};
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn a_recurring_job_from_declaration_to_cancellation() {
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let job = JobRequest::worker("tidy").schedule(Schedule::every("1h")).queue(&*queue);
    let first = client.declare("tidy", &job).await.unwrap();
    let again = client.declare("tidy", &job).await.unwrap();
    assert_eq!((&first.id, first.version), (&again.id, again.version));
    let change = json!({"priority": 9});
    let patched = client.patch("tidy", &change, Some(first.version)).await.unwrap();
    assert_eq!(patched.priority, Some(9));
    let late = client.patch("tidy", &change, Some(first.version)).await.unwrap_err();
    assert_eq!(late.refusal(), Some(Refusal::VersionMismatch));
    assert_eq!(client.pause("tidy", Some("a look"), None).await.unwrap().status, "paused");
    assert_eq!(client.resume("tidy").await.unwrap().status, "active");
    let triggered = client.trigger("tidy", None, Some("key")).await.unwrap();
    let repeated = client.trigger("tidy", None, Some("key")).await.unwrap();
    assert_eq!(triggered.run_id, repeated.run_id);
    let run = &triggered.run_id;
    assert_eq!(client.run(run).await.unwrap().status, "ready");
    assert!(client.explain(run).await.unwrap()["summary"].is_string());
    let runs = client.runs(RunFilter::new().job("tidy")).all().await.unwrap();
    assert_eq!(runs.iter().map(|one| &one.id).collect::<Vec<_>>(), [run]);
    let next = client.occurrences("tidy", None, None).next().await.unwrap().unwrap();
    assert!(!next.status.is_empty());
    assert_eq!(client.stats("tidy").await.unwrap()["unfinished"], 1);
    let daily = Schedule::cron("0 3 * * *", "UTC");
    let preview = client.preview(&daily, Some(2)).await.unwrap();
    assert_eq!(preview["instants"].as_array().map(Vec::len), Some(2));
    client.cancel_run(run).await.unwrap();
    assert_eq!(client.cancel("tidy").await.unwrap().status, "cancelled");
    let queues = client.queues().all().await.unwrap();
    assert_eq!(queues.iter().map(|one| &one.name).collect::<Vec<_>>(), [&queue]);
    assert!(client.pause_queue(&queue, Some("a look")).await.unwrap().paused.is_some());
    assert!(client.resume_queue(&queue).await.unwrap().paused.is_none());
    client.hold("a stop", None, None).await.unwrap();
    client.release(None).await.unwrap();
    assert!(client.version().await.unwrap()["version"].is_string());
}

#[tokio::test]
async fn batches_and_pages() {
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let job = JobRequest::worker("mail").queue(&*queue);
    let bad = job.clone().field("colour", "red");
    let mut jobs = vec![job.clone(), bad];
    jobs.resize(7, job.clone());
    let results = client.create_many(&jobs).await.unwrap();
    let statuses: Vec<u16> = results.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [202, 422, 202, 202, 202, 202, 202]);
    assert_eq!(results[1].error.as_ref().unwrap().errors[0].pointer, "/jobs/1/colour");
    let made: HashSet<_> = results.into_iter().filter_map(|one| one.id).collect();
    let listed = client.jobs(JobFilter::new().queue(&*queue).limit(2)).all().await.unwrap();
    assert_eq!(listed.into_iter().map(|one| one.id).collect::<HashSet<_>>(), made);
    let many = vec![job; 10_001];
    let error = client.create_many(&many).await.unwrap_err();
    assert!(error.to_string().contains("at most 10000"), "{error}");
}

#[tokio::test]
async fn dead_runs_are_replayed() {
    let server = Server::start();
    let (client, queue) = (Client::at(&*server.url).unwrap(), new_queue());
    let job = JobRequest::worker("mail").queue(&*queue).retry(RetryPolicy::new().max_retries(0));
    let run = client.create(&job).await.unwrap().run_id.unwrap();
    let fail = async || {
        let options = ClaimOptions::new().max(1).wait(Duration::from_secs(10));
        let claimed = client.claim("w", &[&queue], options).await.unwrap().runs;
        client.settle("w", &[SettleItem::failed(&claimed[0], "torn")]).await.unwrap();
    };
    fail().await;
    let dead = client.dead_letters(Some(&queue), None).all().await.unwrap();
    assert_eq!(dead.iter().map(|one| &one.id).collect::<Vec<_>>(), [&run]);
    assert_eq!(client.replay(&run, None).await.unwrap().status.as_deref(), Some("ready"));
    fail().await;
    let operation = client.replay_dead(&Bulk::ids([&run])).await.unwrap();
    assert_eq!(client.operation(&operation.id).await.unwrap().kind, "replay");
    fail().await;
    let operation = client.discard_dead(&Bulk::filter(json!({"queue": queue}))).await.unwrap();
    let done = async {
        while client.operation(&operation.id).await.unwrap().status != "done" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), done).await.expect("the operation ends");
    assert_eq!(client.run(&run).await.unwrap().status, "failed");
    client.leave("w").await.unwrap();
    assert_eq!(client.workers().all().await.unwrap().len(), 0);
}

#[tokio::test]
async fn refusals_are_typed() {
    let server = Server::start();
    let client = Client::at(&*server.url).unwrap();
    let missing = client.job("no-such-job").await.unwrap_err();
    assert_eq!(missing.refusal(), Some(Refusal::NotFound));
    assert!(!missing.api().unwrap().request_id.is_empty());
    let bad = client.create(&JobRequest::http("ftp://x")).await.unwrap_err();
    assert_eq!(bad.api().unwrap().errors[0].pointer, "/target/http/url");
    let backoff = Backoff { retries: 1, initial: Duration::from_millis(10), ..Backoff::default() };
    let nobody = Client::builder().url("http://127.0.0.1:9").backoff(backoff).build().unwrap();
    assert!(matches!(nobody.version().await, Err(Error::Transport(_))));
    let target = Target::Http { url: "http://x/".into(), method: None, headers: [].into() };
    let late = JobRequest::new(target).schedule(Schedule::at("tomorrow"));
    let late = client.create(&late).await.unwrap_err();
    assert_eq!(late.api().unwrap().errors[0].pointer, "/schedule/at");
}

/// Reads one request; its headers and body.
async fn receive(listener: &tokio::net::TcpListener) -> (Vec<(String, String)>, Vec<u8>) {
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    let (mut headers, mut line) = (Vec::new(), String::new());
    stream.read_line(&mut line).await.unwrap();
    loop {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.push((name.to_string(), value.to_string()));
    }
    let size = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; size.unwrap().1.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    (headers, body)
}

#[tokio::test]
async fn a_webhook_of_the_real_server_fits() {
    let server = Server::start();
    let client = Client::at(&*server.url).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let made = client.create(&JobRequest::http(url).payload(json!({"a": "ü"}))).await.unwrap();
    let received = tokio::time::timeout(Duration::from_secs(20), receive(&listener)).await;
    let (headers, mut body) = received.unwrap();
    let secrets = client.signing_secrets().await.unwrap();
    let secrets: Vec<&str> = secrets.iter().map(|one| one.secret.as_str()).collect();
    let pairs = || headers.iter().map(|(name, value)| (name, value));
    assert_eq!(verify(pairs(), &body, &secrets).ok(), made.run_id);
    body.push(b' ');
    verify(pairs(), &body, &secrets).unwrap_err();
}

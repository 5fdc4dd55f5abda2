//! Workers that are told to go, killed, or stopped and woken much later. Real processes, the real server.

use crate::server::{Server, new_queue};
use duly_client::types::{ClaimOptions, SettleItem};
use duly_client::{Client, Context, End, JobRequest, Worker};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A worker's process and what it said.
struct Process {
    child: Child,
    lines: mpsc::Receiver<Value>,
    events: Vec<Value>,
}

impl Process {
    /// This test's own program, in which `worker_program` is the only test that runs.
    fn start(url: &str, queue: &str, options: Value) -> Process {
        let mut said = json!({"url": url, "queue": queue, "lease_ms": 1_000, "concurrency": 10});
        for (name, value) in options.as_object().unwrap() {
            said[name] = value.clone();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::worker_program", "--ignored", "--nocapture"])
            .env("DULY_TEST_WORKER", said.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // The test's own frame speaks, too.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Process { child, lines, events: Vec::new() }
    }

    fn until(&mut self, event: &str, count: usize) -> Vec<Value> {
        loop {
            let found: Vec<Value> =
                self.events.iter().filter(|one| one["event"] == event).cloned().collect();
            if found.len() >= count {
                return found;
            }
            let next = self.lines.recv_timeout(PATIENCE);
            let next = next.unwrap_or_else(|_| panic!("no {event} came: {:?}", self.events));
            self.events.push(next);
        }
    }

    fn send(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(event: Value) {
    // One write per line: handlers speak from many threads.
    std::io::stdout().write_all(format!("{event}\n").as_bytes()).unwrap();
}

/// A worker in a process of its own. Handlers of `hold` wait in a thread until the file of the payload exists and
/// then succeed, whatever they are told; those of `polite` stop when they are told to.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the program that the other tests start"]
async fn worker_program() {
    let said: Value = serde_json::from_str(&std::env::var("DULY_TEST_WORKER").unwrap()).unwrap();
    let client = Client::at(said["url"].as_str().unwrap()).unwrap();
    let size = |name: &str| said[name].as_u64().unwrap_or_default();
    let mut builder = Worker::builder(&client)
        .queues([said["queue"].as_str().unwrap()])
        .concurrency(size("concurrency") as usize)
        .prefetch(size("prefetch") as usize)
        .lease(Duration::from_millis(size("lease_ms")));
    if let Some(name) = said["name"].as_str() {
        builder = builder.name(name);
    }
    let mut worker = builder.build().unwrap();
    let name = worker.name().to_string();
    let hold = move |file: String, ctx: Context| {
        say(json!({"event": "started", "run": ctx.run_id(), "token": ctx.token()}));
        while !Path::new(&file).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        say(json!({"event": "ended", "run": ctx.run_id()}));
        Ok(name.clone())
    };
    worker.handle_blocking("hold", hold).unwrap();
    worker
        .handle("polite", async |_: String, ctx: Context| {
            say(json!({"event": "started", "run": ctx.run_id(), "token": ctx.token()}));
            ctx.stop().cancelled().await;
            let reason = ctx.stop_reason().map(|reason| reason.as_str());
            say(json!({"event": "stopped", "run": ctx.run_id(), "reason": reason}));
            Err::<(), End>(End::retry("told to stop"))
        })
        .unwrap();
    // The frame has begun a line.
    println!();
    say(json!({"event": "up"}));
    let stats = worker.run().await.unwrap();
    let mut gone = serde_json::to_value(stats).unwrap();
    gone["event"] = "gone".into();
    say(gone);
}

async fn submit(
    client: &Client,
    queue: &str,
    kind: &str,
    file: &Path,
    count: usize,
) -> Vec<String> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let payload = Value::from(file.to_str().unwrap());
        let job = JobRequest::worker(kind).payload(payload).queue(queue);
        runs.push(client.create(&job).await.unwrap().run_id.unwrap());
    }
    runs
}

fn touch(file: &Path) {
    std::fs::write(file, "").unwrap();
}

#[tokio::test]
async fn sigterm_lets_handlers_finish() {
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let (client, gate) = (Client::at(&*server.url).unwrap(), folder.path().join("gate"));
    let runs = submit(&client, &queue, "hold", &gate, 3).await;
    let options = json!({"concurrency": 2, "prefetch": 1, "lease_ms": 5_000});
    let mut worker = Process::start(&server.url, &queue, options);
    worker.until("started", 2);
    worker.send("-TERM");
    // The third had not begun: it is handed back, long before its lease ends.
    let options = ClaimOptions::new().max(3).wait(Duration::from_secs(15));
    let back = client.claim("other", &[&queue], options).await.unwrap().runs;
    assert_eq!(back.len(), 1);
    client.settle("other", &[SettleItem::succeeded(&back[0])]).await.unwrap();
    touch(&gate);
    let gone = &worker.until("gone", 1)[0];
    assert_eq!([&gone["succeeded"], &gone["released"], &gone["refused"]], [2, 1, 0]);
    assert!(worker.child.wait().unwrap().success());
    for run in runs {
        assert_eq!(client.run_ended(&run, PATIENCE).await.unwrap().status, "succeeded");
    }
    assert!(client.workers().all().await.unwrap().iter().all(|one| one.id == "other"), "it left");
}

#[tokio::test]
async fn sigterm_twice_stops_handlers() {
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let client = Client::at(&*server.url).unwrap();
    submit(&client, &queue, "polite", &folder.path().join("never"), 2).await;
    let mut worker = Process::start(&server.url, &queue, json!({}));
    worker.until("started", 2);
    worker.send("-TERM");
    worker.send("-INT");
    assert!(worker.until("stopped", 2).iter().all(|one| one["reason"] == "shutdown"));
    let gone = &worker.until("gone", 1)[0];
    // The claim that was cut off may have been asked once more, and what it brought was handed back, too.
    assert_eq!(gone["released"], gone["claimed"]);
    assert!(gone["released"].as_u64().unwrap() >= 2, "{gone}");
}

#[tokio::test]
async fn a_stopped_worker_that_wakes_later_is_refused() {
    const COUNT: usize = 5;
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let (client, gate) = (Client::at(&*server.url).unwrap(), folder.path().join("gate"));
    let runs = submit(&client, &queue, "hold", &gate, COUNT).await;
    let mut asleep = Process::start(&server.url, &queue, json!({"name": "asleep"}));
    asleep.until("started", COUNT);
    asleep.send("-STOP");
    // Its leases end by themselves, and somebody else does the work.
    let mut other = Process::start(&server.url, &queue, json!({"name": "other"}));
    other.until("started", COUNT);
    touch(&gate);
    for run in &runs {
        let ended = client.run_ended(run, PATIENCE).await.unwrap();
        assert_eq!(ended.output, Some("other".into()));
    }
    asleep.send("-CONT");
    asleep.until("ended", COUNT);
    asleep.send("-TERM");
    let gone = &asleep.until("gone", 1)[0];
    assert_eq!((&gone["succeeded"], &gone["refused"]), (&json!(0), &json!(COUNT)), "{gone}");
    for run in &runs {
        let attempts = client.run(run).await.unwrap().attempts.unwrap();
        let done = attempts.iter().filter(|one| one.status == "succeeded");
        let workers: Vec<_> = done.map(|one| one.worker.as_deref()).collect();
        assert_eq!(workers, [Some("other")]);
    }
}

#[tokio::test]
async fn the_runs_of_a_killed_worker_run_again_and_none_is_settled_twice() {
    const COUNT: usize = 50;
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let (client, gate) = (Client::at(&*server.url).unwrap(), folder.path().join("gate"));
    let runs = submit(&client, &queue, "hold", &gate, COUNT).await;
    let options = |name: &str| json!({"name": name, "concurrency": COUNT});
    let mut killed = Process::start(&server.url, &queue, options("killed"));
    killed.until("started", COUNT);
    killed.send("-KILL");
    let mut other = Process::start(&server.url, &queue, options("other"));
    other.until("started", COUNT);
    touch(&gate);
    for run in &runs {
        let ended = client.run_ended(run, PATIENCE).await.unwrap();
        let attempts = ended.attempts.unwrap_or_default();
        let mut ends: Vec<(&str, &str)> = attempts
            .iter()
            .map(|one| (one.status.as_str(), one.worker.as_deref().unwrap_or_default()))
            .collect();
        ends.sort_unstable();
        assert_eq!(ends, [("lost", "killed"), ("succeeded", "other")]);
    }
}

//! Workers that are told to go, killed, or stopped and woken much later. Real processes, the real server.

use crate::server::{Server, new_queue};
use duly_client::types::{ClaimOptions, ClaimedRun, SettleItem};
use duly_client::{Client, Context, End, JobRequest, Worker};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// Runs that one worker holds when it goes.
const MANY: usize = 1_000;

fn many(name: &str, lease_ms: u64) -> Value {
    json!({"name": name, "concurrency": MANY, "lease_ms": lease_ms})
}

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

/// Open when a file exists. One thread looks for it, however many wait.
#[derive(Default)]
struct Gate {
    file: OnceLock<String>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(self: &Arc<Gate>, file: String) {
        let gate = Arc::clone(self);
        self.file.get_or_init(|| {
            let watched = file.clone();
            std::thread::spawn(move || {
                while !Path::new(&watched).exists() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                *gate.open.lock().unwrap() = true;
                gate.opened.notify_all();
            });
            file
        });
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }
}

/// A worker in a process of its own. Handlers of `hold` wait in a thread until the file of the payload exists and
/// then succeed, whatever they are told; those of `polite` stop when they are told to.
#[test]
#[ignore = "the program that the other tests start"]
fn worker_program() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().max_blocking_threads(MANY + 100).build().unwrap();
    runtime.block_on(work());
}

async fn work() {
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
    let gate = Arc::new(Gate::default());
    let hold = move |file: String, ctx: Context| {
        say(json!({"event": "started", "run": ctx.run_id(), "token": ctx.token()}));
        gate.pass(file);
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
    let payload = Value::from(file.to_str().unwrap());
    let job = JobRequest::worker(kind).payload(payload).queue(queue);
    let made = client.create_many(&vec![job; count]).await.unwrap();
    // A one-off's run has its job's letters.
    made.into_iter().map(|one| one.id.unwrap().replacen("job_", "run_", 1)).collect()
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

/// How each run ended: once, by the worker of this name, and never by the former one, whose attempt is in its history
/// as lost. Tokens grow from attempt to attempt.
async fn ended_once(client: &Client, runs: &[String], former: &str, name: &str) {
    for run in runs {
        let ended = client.run_ended(run, PATIENCE).await.unwrap();
        assert_eq!(ended.output, Some(name.into()));
        let attempts = ended.attempts.unwrap();
        let ends: Vec<(&str, &str)> = attempts
            .iter()
            .map(|one| (one.status.as_str(), one.worker.as_deref().unwrap_or_default()))
            .collect();
        let (last, lost) = ends.split_last().unwrap();
        assert_eq!(*last, ("succeeded", name));
        assert!(lost.contains(&("lost", former)), "{ends:?}");
        assert!(lost.iter().all(|(status, _)| *status == "lost"), "{ends:?}");
        assert!(attempts.is_sorted_by(|one, next| one.token < next.token), "{attempts:?}");
    }
}

#[tokio::test]
async fn a_stopped_worker_that_wakes_later_is_refused() {
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let (client, gate) = (Client::at(&*server.url).unwrap(), folder.path().join("gate"));
    let runs = submit(&client, &queue, "hold", &gate, MANY).await;
    let mut asleep = Process::start(&server.url, &queue, many("asleep", 2_000));
    asleep.until("started", MANY);
    asleep.send("-STOP");
    // Its leases end by themselves, and somebody else does the work.
    let mut other = Process::start(&server.url, &queue, many("other", 20_000));
    other.until("started", MANY);
    touch(&gate);
    ended_once(&client, &runs, "asleep", "other").await;
    asleep.send("-CONT");
    asleep.until("ended", MANY);
    asleep.send("-TERM");
    let gone = &asleep.until("gone", 1)[0];
    assert_eq!((&gone["succeeded"], &gone["refused"]), (&json!(0), &gone["claimed"]), "{gone}");
    assert!(gone["refused"].as_u64().unwrap() >= MANY as u64, "{gone}");
    ended_once(&client, &runs, "asleep", "other").await;
}

/// What a worker knows of a run that it claimed.
fn claimed(run: &str, token: u64) -> ClaimedRun {
    let claimed = json!({
        "run_id": run, "token": token, "job_id": "", "kind": "hold", "attempt": 1,
        "scheduled_for": "", "due_at": "", "lease_expires_at": "", "deadline": "",
    });
    serde_json::from_value(claimed).unwrap()
}

#[tokio::test]
async fn the_runs_of_a_killed_worker_run_again_and_none_is_settled_twice() {
    let (server, queue, folder) = (Server::start(), new_queue(), tempfile::tempdir().unwrap());
    let (client, gate) = (Client::at(&*server.url).unwrap(), folder.path().join("gate"));
    let runs = submit(&client, &queue, "hold", &gate, MANY).await;
    let mut killed = Process::start(&server.url, &queue, many("killed", 2_000));
    let held = killed.until("started", MANY);
    killed.send("-KILL");
    let mut other = Process::start(&server.url, &queue, many("other", 20_000));
    let again = other.until("started", MANY);
    let token_of = |all: &[Value], run: &Value| {
        let one = all.iter().rev().find(|one| one["run"] == *run).unwrap();
        one["token"].as_u64().unwrap()
    };
    // What the killed one had said last arrives now, and again when the run has ended.
    let late: Vec<SettleItem> = (runs.iter())
        .map(|run| {
            let token = token_of(&held, &json!(run));
            assert!(token < token_of(&again, &json!(run)));
            SettleItem::succeeded(&claimed(run, token)).output("late")
        })
        .collect();
    for _ in 0..2 {
        let answers = client.settle("killed", &late).await.unwrap();
        assert_eq!(answers.iter().filter(|one| one.status == "stale").count(), MANY);
        touch(&gate);
        ended_once(&client, &runs, "killed", "other").await;
    }
}

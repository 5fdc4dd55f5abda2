//! From a commit in a user's database to the job in duly, as a worker sees it: a claim that waits is
//! answered. Figures for people, no verdict.
//!
//!   cargo bench -p duly --bench outbox [-- JOBS]
//!
//! `single` commits one job at a time, at random moments of the reader's pauses. `busy` has 4 writers that commit
//! as fast as they can. `old` is `single` while a transaction that only reads has been open for 100,000 deliveries,
//! `wrote` while one that has written has.
#![allow(clippy::expect_used)]

#[path = "../tests/support/mod.rs"]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::outbox::{User, job};
use support::{PATIENCE, Server, ask};

const DEAD: i64 = 100_000;

fn main() {
    let jobs: u64 = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(300);
    let user = User::start();
    let data = tempfile::tempdir().expect("a folder");
    let server = user.serve(data.path());
    println!(
        "{:<8} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "case", "jobs", "p50 ms", "p99 ms", "max ms", "jobs/s"
    );
    single(&user, &server, "single", jobs);
    busy(&user, &server, jobs * 10);
    let old = user.sql();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    pile_up(&user);
    single(&user, &server, "old", jobs);
    let wrote = user.sql();
    wrote.run("CREATE TABLE written (id int); BEGIN; INSERT INTO written VALUES (1)");
    pile_up(&user);
    single(&user, &server, "wrote", jobs);
    server.kill();
}

/// Rows that came and went, and that the open transaction keeps in the index.
fn pile_up(user: &User) {
    let sql = user.sql();
    // Of a queue that nobody reads, deleted at once: as many as duly would have delivered.
    sql.run(&format!(
        "BEGIN; SELECT duly_outbox.submit('{{\"queue\": \"dead\"}}') FROM generate_series(1, {DEAD});
         DELETE FROM duly_outbox.waiting WHERE queue = 'dead'; COMMIT"
    ));
}

/// When each payload was claimed.
fn listen(server: &Server, queue: &str, jobs: u64) -> Receiver<(u64, Instant)> {
    let (tell, heard) = channel();
    let (address, queue) = (server.address, queue.to_string());
    std::thread::spawn(move || {
        let claim =
            json!({"worker": "w", "queues": [queue], "max": 1_000, "wait": "20s", "lease": "10m"});
        let mut left = jobs;
        while left > 0 {
            let reply = ask(address, "POST", "/v1/work/claim", &claim.to_string(), &[]);
            let now = Instant::now();
            let reply: Value = reply.expect("an answer").json();
            for run in reply["runs"].as_array().expect("runs") {
                left -= 1;
                tell.send((run["payload"].as_u64().expect("a number"), now)).expect("heard");
            }
        }
    });
    heard
}

fn single(user: &User, server: &Server, case: &str, jobs: u64) {
    let heard = listen(server, case, jobs);
    let sql = user.sql();
    let mut latencies = Vec::new();
    let began = Instant::now();
    for n in 0..jobs {
        // Anywhere in the reader's pause.
        std::thread::sleep(Duration::from_millis(n * 37 % 211));
        sql.submit(&job(case, &json!(n)));
        let committed = Instant::now();
        let (_, at) = heard.recv_timeout(PATIENCE).expect("it comes");
        latencies.push(at.saturating_duration_since(committed));
    }
    report(case, latencies, began);
}

fn busy(user: &User, server: &Server, jobs: u64) {
    let heard = listen(server, "busy", jobs);
    let began = Instant::now();
    let committed: BTreeMap<u64, Instant> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                scope.spawn(move || {
                    let sql = user.sql();
                    let mine = (writer..jobs).step_by(4);
                    mine.map(|n| {
                        sql.submit(&job("busy", &json!(n)));
                        (n, Instant::now())
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    let latencies = (0..jobs).map(|_| {
        let (n, at) = heard.recv_timeout(PATIENCE).expect("it comes");
        at.saturating_duration_since(committed[&n])
    });
    report("busy", latencies.collect(), began);
}

fn report(case: &str, mut latencies: Vec<Duration>, began: Instant) {
    latencies.sort();
    let per_second = latencies.len() as f64 / began.elapsed().as_secs_f64();
    let at = |part: f64| {
        let place = ((latencies.len() - 1) as f64 * part).round() as usize;
        latencies[place].as_secs_f64() * 1_000.0
    };
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    let jobs = latencies.len();
    println!("{case:<8} {jobs:>6} {p50:>9.1} {p99:>9.1} {max:>9.1} {per_second:>9.0}");
}

//! A user's outbox, read from a real PostgreSQL: whatever the order of commits, a page shows what can be
//! seen, from the lowest id on.
#![allow(clippy::expect_used)] // all of this is tests

mod common;

use common::{free_port, postgres_sh, random_below, server};
use std::collections::BTreeSet;
use store::outbox::{Ask, Outbox, Refused, Settle, Settled};
use store_postgres::outbox::{Grants, PostgresOutbox, Schema, install};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

const ASK: Ask = Ask { without: Vec::new(), rows: 10_000, bytes: 1 << 20 };

/// An outbox in a database of its own, and its address.
fn make() -> (PostgresOutbox, String) {
    let address = server().address(&server().database());
    install(&address, &Schema::default(), &Grants::default()).expect("it is made");
    (PostgresOutbox::new(&address, Schema::default()).expect("an address"), address)
}

struct Writer {
    runtime: Runtime,
    client: Client,
    /// What its open transaction submitted; none if there is no transaction.
    open: Option<Vec<i64>>,
}

impl Writer {
    fn connect(address: &str) -> Writer {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connected = runtime.block_on(tokio_postgres::connect(address, NoTls));
        let (client, driver) = connected.expect("a connection");
        runtime.spawn(driver);
        Writer { runtime, client, open: None }
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).expect("it runs");
    }

    fn submit(&self, queue: &str) -> i64 {
        let sql = format!("SELECT duly_outbox.submit('{{\"queue\": \"{queue}\"}}')");
        self.runtime.block_on(self.client.query_one(&sql, &[])).expect("it runs").get(0)
    }
}

fn ids(outbox: &PostgresOutbox) -> Vec<i64> {
    outbox.page(&ASK).expect("a page").rows.iter().map(|row| row.id).collect()
}

/// Four programs begin, submit, commit and roll back in random order; what is seen is deleted now and
/// then. Long enough for the floor to be moved many times.
fn play(address: &str, outbox: &PostgresOutbox, seed: u64, steps: u64) {
    println!("seed {seed}");
    let mut random = seed;
    let mut writers: Vec<Writer> = (0..4).map(|_| Writer::connect(address)).collect();
    let mut visible: BTreeSet<i64> = BTreeSet::new();
    for step in 0..steps {
        let at = random_below(&mut random, 4) as usize;
        let what = random_below(&mut random, 8);
        let writer = &mut writers[at];
        match (writer.open.take(), what) {
            (None, 0..=3) => {
                writer.run("BEGIN");
                writer.open = Some(vec![writer.submit("q")]);
            }
            (None, 4..=5) => visible.extend([writer.submit("q")]),
            (Some(mut open), 0..=1) => {
                open.push(writer.submit("q"));
                writer.open = Some(open);
            }
            (Some(_), 2) => writer.run("ROLLBACK"),
            (Some(open), 3..=5) => {
                writer.run("COMMIT");
                visible.extend(open);
            }
            (open, _) => {
                writer.open = open;
                // Some of what is seen, not always the first.
                let taken: Vec<i64> =
                    visible.iter().filter(|_| random_below(&mut random, 3) > 0).copied().collect();
                let settle = Settle { delivered: taken.clone(), refused: Vec::new() };
                let settled = outbox.settle(&settle).expect("deleted");
                assert_eq!(settled.delivered, taken.len() as u64);
                visible.retain(|id| !taken.contains(id));
            }
        }
        let wanted: Vec<i64> = visible.iter().copied().collect();
        assert_eq!(ids(outbox), wanted, "seed {seed}, step {step}");
    }
}

#[test]
fn a_page_shows_all_that_is_committed_whatever_the_order() {
    let (outbox, address) = make();
    for seed in 1..=4 {
        play(&address, &outbox, seed, 300);
        server_side_end(&address);
        let left = ids(&outbox);
        let settle = Settle { delivered: left, refused: Vec::new() };
        outbox.settle(&settle).expect("deleted");
    }
}

/// Transactions of writers that are gone have ended for the others, too.
fn server_side_end(address: &str) {
    let look = Writer::connect(address);
    loop {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND state LIKE 'idle in%'";
        let open = look.runtime.block_on(look.client.query_one(sql, &[])).expect("a count");
        if open.get::<_, i64>(0) == 0 {
            return;
        }
    }
}

#[test]
fn the_same_through_a_pooler() {
    let port = free_port();
    postgres_sh(&["pooler", server().path(), &port.to_string()]);
    let (_, address) = make();
    let name = address.rsplit('/').next().expect("a database");
    let pooled = format!("postgres://postgres@127.0.0.1:{port}/{name}");
    let outbox = PostgresOutbox::new(&pooled, Schema::default()).expect("an address");
    play(&address, &outbox, 9, 150);
}

#[test]
fn a_row_put_below_the_floor_is_found() {
    let (outbox, address) = make();
    let writer = Writer::connect(&address);
    for _ in 0..30 {
        let id = writer.submit("q");
        assert_eq!(ids(&outbox), [id]);
        outbox.settle(&Settle { delivered: vec![id], refused: Vec::new() }).expect("deleted");
    }
    // Somebody puts a row back, or another server has given fewer ids.
    writer.run("INSERT INTO duly_outbox.waiting (id, queue, bytes, job) VALUES (1, 'q', 2, '{}')");
    let pages = (1..1_000).find(|_| ids(&outbox) == [1]).expect("it is found");
    assert!(pages > 1, "the floor has risen, or this says nothing");
    assert_eq!(ids(&outbox), [1], "and stays in sight");
}

#[test]
fn pages_are_bounded_and_leave_queues_out() {
    let (outbox, address) = make();
    let writer = Writer::connect(&address);
    let all: Vec<i64> =
        (0..10).map(|n| writer.submit(if n % 2 == 0 { "a" } else { "b" })).collect();
    let page = outbox.page(&Ask { rows: 3, ..ASK }).expect("a page");
    let got: Vec<i64> = page.rows.iter().map(|row| row.id).collect();
    assert_eq!((got.as_slice(), page.more), (&all[..3], true));
    assert_eq!(
        (page.rows[0].queue.as_str(), page.rows[0].job.as_str()),
        ("a", "{\"queue\": \"a\"}")
    );
    assert!(page.rows[0].age.micros() >= 0 && page.rows[0].key != page.rows[1].key);
    // Each has 14 bytes: the second begins at 14, the third at 28.
    let page = outbox.page(&Ask { bytes: 28, ..ASK }).expect("a page");
    assert_eq!((page.rows.len(), page.more), (2, true));
    let page = outbox.page(&Ask { bytes: 1, ..ASK }).expect("a page");
    assert_eq!(page.rows.len(), 1, "one is there however large it is");
    let page = outbox.page(&Ask { without: vec!["a".into()], ..ASK }).expect("a page");
    assert_eq!((page.rows.len(), page.more), (5, false));
    assert!(page.rows.iter().all(|row| row.queue == "b"));
}

#[test]
fn what_two_settle_is_counted_once() {
    let (outbox, address) = make();
    let other = PostgresOutbox::new(&address, Schema::default()).expect("an address");
    let writer = Writer::connect(&address);
    let (good, bad) = (writer.submit("q"), writer.submit("q"));
    let refused = Refused { id: bad, code: "invalid".into(), problem: "why".into() };
    let settle = Settle { delivered: vec![good], refused: vec![refused] };
    assert_eq!(outbox.settle(&settle), Ok(Settled { delivered: 1, refused: 1 }));
    assert_eq!(other.settle(&settle), Ok(Settled::default()));
    let look = outbox.look().expect("a look");
    assert_eq!((look.waiting, look.oldest, look.refused), (0, None, 1));
}

//! A user's database with an outbox in it, programs that write to it, and what duly made of it.

use super::cluster::until;
use super::database::Database;
use super::{Server, ask};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// A connection of a user's program.
pub struct Sql {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Sql {
    pub fn connect(address: &str) -> Sql {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, driver) =
            runtime.block_on(tokio_postgres::connect(address, NoTls)).expect("a connection");
        runtime.spawn(driver);
        Sql { runtime, client }
    }

    pub fn run(&self, sql: &str) {
        self.try_run(sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
    }

    /// What PostgreSQL says against it.
    pub fn try_run(&self, sql: &str) -> Result<(), String> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(|error| {
            error.as_db_error().map_or(error.to_string(), |db| db.message().to_string())
        })
    }

    pub fn one(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Row {
        let row = self.runtime.block_on(self.client.query_one(sql, values));
        row.unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    pub fn count(&self, what: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM {what}"), &[]).get(0)
    }

    /// In the transaction that is open, or in one of its own.
    pub fn submit(&self, job: &Value) -> i64 {
        self.one("SELECT duly_outbox.submit($1::text)", &[&job.to_string()]).get(0)
    }

    pub fn submit_ordered(&self, job: &Value) -> i64 {
        let sql = "SELECT duly_outbox.submit($1::text, ordered => true)";
        self.one(sql, &[&job.to_string()]).get(0)
    }
}

/// A database with an outbox.
pub struct User {
    pub database: Database,
}

impl User {
    pub fn start() -> User {
        let database = Database::start();
        installed(&database.address(), &[]);
        User { database }
    }

    pub fn sql(&self) -> Sql {
        Sql::connect(&self.database.address())
    }

    /// The value of `--outbox`.
    pub fn flag(&self) -> String {
        format!("shop={}", self.database.address())
    }

    /// duly with a file of its own, reading this outbox.
    pub fn serve(&self, data: &Path) -> Server {
        Server::start_with(data, &[], &["--outbox", &self.flag()])
    }
}

pub fn installed(address: &str, args: &[&str]) {
    let ran = install(address, args);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

pub fn install(address: &str, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["outbox", "install", "--database", address])
        .args(args)
        .output()
        .expect("duly runs")
}

pub fn job(queue: &str, payload: &Value) -> Value {
    json!({"target": {"worker": {"kind": "k"}}, "queue": queue, "payload": payload})
}

/// The source as it is told, or nothing while nobody answers.
pub fn status(server: SocketAddr) -> Option<Value> {
    let reply = ask(server, "GET", "/v1/outbox", "", &[]).ok()?;
    (reply.status == 200).then(|| reply.json()["items"][0].clone())
}

/// Waits until nothing waits in the outbox.
pub fn drained(sql: &Sql) {
    until("the outbox is empty", || sql.count("duly_outbox.waiting") == 0);
}

/// All runs of the queue, as one worker is given them.
pub fn claimed(server: &Server, queue: &str) -> Vec<Value> {
    let claim = json!({
        "worker": "w", "queues": [queue], "max": 1_000, "wait": "0s", "lease": "10m"
    });
    let mut runs = Vec::new();
    loop {
        let reply = server.post("/v1/work/claim", &claim);
        assert_eq!(reply.status, 200, "{}", reply.text);
        let more = reply.json()["runs"].as_array().expect("runs").clone();
        if more.is_empty() {
            return runs;
        }
        runs.extend(more);
    }
}

pub fn payloads(runs: &[Value]) -> Vec<Value> {
    runs.iter().map(|run| run["payload"].clone()).collect()
}

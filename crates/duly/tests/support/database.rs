//! A PostgreSQL of a test's own, and nodes that share it.

use super::{Reply, Server, ask};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

pub struct Database {
    folder: PathBuf,
    port: String,
}

fn postgres_sh(args: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres.sh");
    let output = Command::new(script).args(args).output().expect("scripts/postgres.sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl Database {
    pub fn start() -> Database {
        let folder = TempDir::with_prefix("duly-postgres-").expect("a folder").keep();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port().to_string();
        drop(listener);
        let database = Database { folder, port };
        database.run("start");
        database
    }

    /// A verb of scripts/postgres.sh.
    pub fn run(&self, verb: &str) -> String {
        postgres_sh(&[verb, self.folder.to_str().expect("a plain path"), &self.port])
    }

    pub fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Also after a failure: no server is left behind.
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres.sh");
        let _ = Command::new(script).arg("stop").arg(&self.folder).status();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A node with a data folder of its own.
pub struct Node {
    pub server: Server,
    pub number: u32,
    _data: TempDir,
}

impl Node {
    /// Starts and waits until it is ready.
    pub fn start(database: &Database, number: u32) -> Node {
        Node::start_with(database, number, &[])
    }

    pub fn start_with(database: &Database, number: u32, args: &[&str]) -> Node {
        let data = tempfile::tempdir().expect("a folder");
        let (address, text) = (database.address(), number.to_string());
        let mut all = vec!["--store", &address, "--node", &text];
        all.extend(args);
        let server = Server::start_with(data.path(), &[], &all);
        Node { server, number, _data: data }
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        self.server.ask(method, path, body)
    }

    /// As `ask`, with headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.server.address, method, path, &body, headers).expect("an answer")
    }

    /// Shards that answer here, as the metrics say.
    pub fn shards(&self) -> u64 {
        self.metric("duly_shards_live")
    }

    pub fn metric(&self, name: &str) -> u64 {
        let page = self.ask("GET", "/metrics", "").text;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {page}"))
    }
}

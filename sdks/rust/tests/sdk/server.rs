//! The real server, on a port of its own, with data of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Server {
    pub url: String,
    process: Child,
    _folder: tempfile::TempDir,
}

pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("DULY_BIN") {
        return named.into();
    }
    // target/debug/deps/sdk-… and target/debug/duly.
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("duly");
    assert!(built.exists(), "build the server first: scripts/build-tests.sh");
    built
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    pub fn start_with(args: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--data"])
            .arg(folder.path().join("data"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server { url: String::new(), process, _folder: folder };
        for line in BufReader::new(server.process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(address) = line.trim().strip_prefix("address") {
                server.url = address.trim().to_string();
            }
            if line.trim() == "ready" {
                return server;
            }
        }
        panic!("the server did not become ready");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A queue that no other test uses.
pub fn new_queue() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("q-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

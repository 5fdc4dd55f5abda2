//! A PostgreSQL of its own for one world: its own folder and port, fsync on, started and hurt by the
//! project's script. A shell that waits for our end stops it, however we end.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    port: u16,
    guard: Child,
    _ends_with_us: Option<ChildStdin>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres.sh")
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

impl Database {
    pub fn start() -> Result<Database, String> {
        let folder = tempfile::Builder::new().prefix("duly-chaos-pg-").tempdir();
        let folder = folder.map_err(|error| format!("no folder: {error}"))?.keep();
        let port = free_port()?;
        // Its input closes when this process ends.
        let waits = "cat >/dev/null; \"$0\" stop \"$1\"; rm -rf \"$1\"";
        let mut guard = Command::new("setsid")
            .args(["sh", "-c", waits])
            .arg(script())
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let input = guard.stdin.take();
        let database = Database { folder, port, guard, _ends_with_us: input };
        database.run("start")?;
        Ok(database)
    }

    /// start, stop (fast), halt (immediate), crash (kill -9).
    pub fn run(&self, verb: &str) -> Result<(), String> {
        let port = self.port.to_string();
        let output = Command::new(script()).arg(verb).arg(&self.folder).arg(port).output();
        let output = output.map_err(|error| format!("scripts/postgres.sh: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("postgres.sh {verb}: {said}")) }
    }

    pub fn socket(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Where a store finds it, straight or through a proxy.
    pub fn address(at: SocketAddr) -> String {
        format!("postgres://postgres@{at}/postgres")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self._ends_with_us = None;
        let _ = self.guard.wait();
    }
}

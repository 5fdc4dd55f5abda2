//! A PostgreSQL of its own for one world: its own folder and port, fsync on, started and hurt by the
//! project's script. A shell that waits for our end stops it, however we end.
//!
//! The folder holds one server after the other: when a replica is promoted, it is the next one. Where
//! a full disk is part of the plan the folder is a file system of its own (an image that is mounted,
//! which needs root), so that it can be filled without filling anybody else's.

use crate::proxy::{Flow, Proxy, Rules};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    port: u16,
    /// The server that is in use; each promotion makes the next.
    server: u32,
    /// The way of those who look on.
    pub gate: Proxy,
    guard: Child,
    _ends_with_us: Option<ChildStdin>,
}

/// A replica that follows, and the way on which it does.
#[derive(Debug)]
pub struct Replica {
    server: u32,
    port: u16,
    way: Proxy,
}

impl Replica {
    /// Nothing reaches it any more.
    pub fn cut_off(&self) {
        self.way.set(Rules::flow(Flow::Swallow));
    }
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
    /// `own_disk`: on a file system of its own.
    pub fn start(own_disk: bool) -> Result<Database, String> {
        let folder = tempfile::Builder::new().prefix("duly-chaos-pg-").tempdir();
        let folder = folder.map_err(|error| format!("no folder: {error}"))?.keep();
        let port = free_port()?;
        // Its input closes when this process ends.
        let waits = "cat >/dev/null; for server in \"$1\"/server-*; do \"$0\" stop \"$server\"; done; \
                     \"$0\" unmount \"$1\"; rm -rf \"$1\"";
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
        let gate = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let database = Database { folder, port, server: 0, gate, guard, _ends_with_us: input };
        if own_disk {
            script_says(&["mount"], &database.folder, &[])?;
        }
        // PostgreSQL does not run as root, and its own folders lie in this one.
        std::fs::set_permissions(&database.folder, std::fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("the database's folder: {error}"))?;
        database.run("start")?;
        Ok(database)
    }

    fn place(&self, server: u32) -> PathBuf {
        self.folder.join(format!("server-{server}"))
    }

    /// What the server said goes where the nodes' words are kept.
    pub fn keep_log(&self, into: &Path) {
        let log = self.place(self.server).join("server.log");
        if let Err(error) = std::fs::copy(log, into.join("postgres.log")) {
            println!("chaos: the database's log is not kept: {error}");
        }
    }

    /// start, stop (fast), halt (immediate), crash (kill -9).
    pub fn run(&self, verb: &str) -> Result<(), String> {
        script_says(&[verb], &self.place(self.server), &[&self.port.to_string()])
    }

    /// No room is left on its disk.
    pub fn fill_disk(&self) -> Result<(), String> {
        script_says(&["fill"], &self.folder, &[])
    }

    /// There is room again; the server is started if it gave up meanwhile.
    pub fn free_disk(&self) -> Result<(), String> {
        script_says(&["unfill"], &self.folder, &[])?;
        self.run("revive")
    }

    /// A copy that follows the server; if `synchronous`, nothing is acknowledged that it lacks.
    pub fn follow(&self, synchronous: bool) -> Result<Replica, String> {
        let (server, port, way) = (self.server + 1, free_port()?, Proxy::start(self.socket())?);
        let (from, via) = (self.place(self.server), way.address().port().to_string());
        let from = from.to_string_lossy();
        script_says(&["replica"], &self.place(server), &[&port.to_string(), &from, &via])?;
        if synchronous {
            self.run("synchronous")?;
        }
        Ok(Replica { server, port, way })
    }

    /// The server dies, and the replica goes on in its place.
    pub fn promote(&mut self, replica: Replica) -> Result<(), String> {
        self.run("crash")?;
        let old = self.place(self.server);
        (self.server, self.port) = (replica.server, replica.port);
        drop(replica.way);
        self.run("promote")?;
        self.gate.aim(self.socket());
        self.gate.reset();
        let _ = std::fs::remove_dir_all(old);
        Ok(())
    }

    pub fn socket(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Where a store finds it, straight or through a proxy.
    pub fn address(at: SocketAddr) -> String {
        format!("postgres://postgres@{at}/postgres")
    }
}

fn script_says(verb: &[&str], place: &Path, more: &[&str]) -> Result<(), String> {
    let output = Command::new(script()).args(verb).arg(place).args(more).output();
    let output = output.map_err(|error| format!("scripts/postgres.sh: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("postgres.sh {verb:?}: {said}")) }
}

impl Drop for Database {
    fn drop(&mut self) {
        self._ends_with_us = None;
        let _ = self.guard.wait();
    }
}

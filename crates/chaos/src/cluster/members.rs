//! The nodes of a cluster: each a process with a folder, a proxy on its way to the database and one
//! before its address for other nodes.

use super::database::{Database, free_port};
use crate::book::Book;
use crate::limits::{READY_PATIENCE, STOP_PATIENCE};
use crate::proxy::Proxy;
use crate::server::{Process, Setting};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub struct Member {
    pub number: u32,
    /// What it runs, and what it ran or will run instead.
    binary: PathBuf,
    other: PathBuf,
    planted: Option<String>,
    data: PathBuf,
    pub errors: PathBuf,
    /// Offsets of its wall clock and its boot clock, in microseconds.
    clock: PathBuf,
    boot_ahead: i64,
    peers_port: u16,
    pub to_database: Proxy,
    pub to_me: Proxy,
    process: Option<Process>,
    pub address: Option<SocketAddr>,
}

/// What the nodes of a cluster have in common.
#[derive(Debug)]
pub struct Life<'a> {
    pub binary: &'a Path,
    /// An older one, which all begin with.
    pub old: Option<&'a Path>,
    pub folder: &'a Path,
    /// A fault of the core.
    pub planted: Option<&'a str>,
}

impl Member {
    fn new(life: &Life<'_>, number: u32, database: &Database) -> Result<Member, String> {
        let peers_port = free_port()?;
        let folder = life.folder;
        let mut member = Member {
            number,
            // Where there is an older one, all begin with it.
            binary: life.old.unwrap_or(life.binary).to_path_buf(),
            other: life.binary.to_path_buf(),
            planted: life.planted.map(str::to_string),
            data: folder.join(format!("node-{number}")),
            errors: folder.join(format!("errors-{number}")),
            clock: folder.join(format!("clock-{number}")),
            boot_ahead: 0,
            peers_port,
            to_database: Proxy::start(database.socket())?,
            to_me: Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, peers_port)))?,
            process: None,
            address: None,
        };
        member.set_clocks(0)?;
        Ok(member)
    }

    /// Where both clocks stand when it is started next. The boot clock of a machine does not step.
    pub fn set_clocks(&mut self, ahead: i64) -> Result<(), String> {
        self.boot_ahead = ahead;
        self.set_wall_clock(ahead)
    }

    /// Moves its wall clock; the process looks at the file all the time.
    pub fn set_wall_clock(&self, wall: i64) -> Result<(), String> {
        let made = self.clock.with_extension("new");
        std::fs::write(&made, format!("{wall} {}\n", self.boot_ahead))
            .and_then(|()| std::fs::rename(&made, &self.clock))
            .map_err(|error| format!("the clock's file: {error}"))
    }

    pub fn other_binary(&mut self) {
        std::mem::swap(&mut self.binary, &mut self.other);
    }

    pub fn start(&mut self) -> Result<(), String> {
        let store = Database::address(self.to_database.address());
        let listen = format!("127.0.0.1:{}", self.peers_port);
        let args = [
            ("--store", store),
            ("--cluster-listen", listen),
            ("--advertise", self.to_me.address().to_string()),
            ("--node", self.number.to_string()),
        ];
        let args = args.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect();
        let (clock, planted) = (Some(self.clock.clone()), self.planted.clone());
        let setting = Setting { args, clock, planted, ..Setting::default() };
        let mut process = Process::start(&self.binary, &self.data, &self.errors, &setting)?;
        let ready = process.ready(READY_PATIENCE);
        self.address = ready;
        self.process = Some(process);
        match ready {
            Some(_) => Ok(()),
            None => Err(format!("node {} did not become ready: {}", self.number, self.said())),
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    pub fn process(&mut self) -> Result<&mut Process, String> {
        self.process.as_mut().ok_or_else(|| format!("node {} does not run", self.number))
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.address = None;
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> Result<(), String> {
        self.address = None;
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.terminate();
        match process.ended(STOP_PATIENCE) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("node {} stopped with {status}", self.number)),
            None => Err(format!("node {} did not stop when told", self.number)),
        }
    }

    /// How it ended, if it ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.process.as_mut()?.ended(std::time::Duration::ZERO)?;
        Some(format!("node {} ended by itself with {status}: {}", self.number, self.said()))
    }
}

#[derive(Debug)]
pub struct Members {
    pub all: Vec<Member>,
    book: Arc<Book>,
}

impl Members {
    pub fn start(
        life: &Life<'_>,
        count: u32,
        database: &Database,
        book: &Arc<Book>,
    ) -> Result<Members, String> {
        let all = (1..=count).map(|number| Member::new(life, number, database));
        let mut members = Members { all: all.collect::<Result<_, _>>()?, book: book.clone() };
        for member in &mut members.all {
            member.start()?;
        }
        Ok(members)
    }

    /// Tells clients and workers who is there, as a load balancer would.
    pub fn publish(&self, clients_go: bool) {
        let known = self.all.iter().filter_map(|member| member.address).collect();
        self.book.set_servers(known, clients_go);
    }

    /// As a load balancer does that is told first.
    pub fn publish_without(&self, at: usize) {
        let others = self.all.iter().enumerate().filter(|(other, _)| *other != at);
        self.book.set_servers(others.filter_map(|(_, member)| member.address).collect(), true);
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().filter_map(|member| member.address).collect()
    }
}

//! The nodes of a cluster: each a process with a folder, a proxy on its way to the database and one
//! before its address for other nodes.

use super::database::{Database, free_port};
use super::network::Network;
use crate::book::Book;
use crate::http::{ask, set_bearer};
use crate::limits::{READY_PATIENCE, STOP_PATIENCE};
use crate::proxy::Proxy;
use crate::server::{Process, Setting};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a node in a namespace of its own listens: nobody else is there.
const NODE_PORT: u16 = 7_070;

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
    place: Option<Place>,
    pub to_database: Proxy,
    pub to_me: Proxy,
    process: Option<Process>,
    pub address: Option<SocketAddr>,
}

/// Where a node with a namespace of its own is.
#[derive(Clone, Debug)]
struct Place {
    namespace: String,
    ip: IpAddr,
    /// Webhooks may go there.
    range: String,
    /// Nodes that listen elsewhere than on loopback do not keep theirs in the database.
    secret: PathBuf,
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
    /// A namespace for each, if they have any.
    pub network: Option<&'a Network>,
}

impl Member {
    fn new(life: &Life<'_>, number: u32, database: &Database) -> Result<Member, String> {
        let peers_port = free_port()?;
        let folder = life.folder;
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let place = life.network.map(|network| Place {
            namespace: network.namespace(number),
            ip: network.address(number),
            range: network.range(),
            secret: folder.join("secret"),
        });
        let gate = life.network.map_or(loopback, Network::host);
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
            place,
            to_database: Proxy::start_at(gate, database.socket())?,
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
        let at = |ip: IpAddr| SocketAddr::new(ip, self.peers_port).to_string();
        let (heard, told) = match &self.place {
            Some(place) => (at(place.ip), at(place.ip)),
            None => (at(IpAddr::V4(Ipv4Addr::LOCALHOST)), self.to_me.address().to_string()),
        };
        let mut args = vec![
            ("--store", store),
            ("--cluster-listen", heard),
            ("--advertise", told),
            ("--node", self.number.to_string()),
        ];
        if let Some(place) = &self.place {
            let secret = place.secret.display().to_string();
            args.extend([
                ("--allow-egress", place.range.clone()),
                ("--cluster-secret-file", secret),
            ]);
        }
        let args = args.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect();
        let namespace = self.place.as_ref().map(|place| place.namespace.clone());
        let listen = self.place.as_ref().map(|place| SocketAddr::new(place.ip, NODE_PORT));
        let (clock, planted) = (Some(self.clock.clone()), self.planted.clone());
        let setting = Setting { args, clock, planted, listen, namespace, ..Setting::default() };
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
    /// How often one of them went on with the other binary.
    changes: usize,
}

impl Members {
    pub fn start(
        life: &Life<'_>,
        count: u32,
        database: &Database,
        book: &Arc<Book>,
    ) -> Result<Members, String> {
        set_bearer(None);
        if life.network.is_some() {
            set_bearer(Some(first_key(life, database)?));
        }
        let all = (1..=count).map(|number| Member::new(life, number, database));
        let (all, book) = (all.collect::<Result<_, _>>()?, book.clone());
        let mut members = Members { all, book, changes: 0 };
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

    /// Whose turn it is to go on with the other binary.
    pub fn next_change(&mut self) -> usize {
        let at = self.changes % self.all.len().max(1);
        self.changes += 1;
        at
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

/// Nodes listen elsewhere than on loopback only when there is a key: the first one is made at a node that
/// serves this machine alone, and that ends then.
fn first_key(life: &Life<'_>, database: &Database) -> Result<String, String> {
    let store = Database::address(database.socket());
    let secret = life.folder.join("secret");
    std::fs::write(&secret, format!("{:032x}", node::random::bits()))
        .map_err(|error| format!("the cluster's secret: {error}"))?;
    let secret = secret.display().to_string();
    let args = ["--store", &store, "--node", "99", "--cluster-secret-file", &secret];
    let args = args.map(str::to_string).to_vec();
    let (data, errors) = (life.folder.join("node-99"), life.folder.join("errors-99"));
    let setting = Setting { args, ..Setting::default() };
    let mut process = Process::start(life.old.unwrap_or(life.binary), &data, &errors, &setting)?;
    let said = || std::fs::read_to_string(&errors).unwrap_or_default();
    let address = process.ready(READY_PATIENCE).ok_or_else(|| format!("no node: {}", said()))?;
    let reply = ask(address, "POST", "/v1/api-keys", "{\"scope\":\"admin\"}", None);
    let reply = reply.map_err(|error| format!("the first key: {error}"))?;
    let key = reply.body["key"].as_str().ok_or_else(|| format!("no key: {}", reply.body))?;
    process.terminate();
    match process.ended(STOP_PATIENCE) {
        Some(_) => Ok(key.to_string()),
        None => Err("the node that made the first key did not stop".to_string()),
    }
}

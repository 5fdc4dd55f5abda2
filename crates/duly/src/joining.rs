//! How a process joins the nodes that share its database: its number, its address for the others, the
//! secret they have in common, and the listener on which they are heard.

use crate::failure::Failure;
use crate::stores;
use http_api::{Bounds, Server, serve};
use model::cluster::About;
use model::{Namespace, Text};
use node::{NodeHandle, Post, Tasks};
use peers::{Peers, SECRET_BYTES_MIN, Secret};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Backend;
use store::catalog::{EntryChange, Kind, Place};
use tokio::net::TcpListener;

/// The file in the data folder that keeps the node's number.
const NUMBER: &str = "node";
const SECRET_BYTES: usize = 32;

#[derive(Debug, clap::Args)]
pub struct Joining {
    /// Where other nodes are heard; on the address of --listen unless given
    #[arg(long, value_name = "ADDRESS", env = "DULY_CLUSTER_LISTEN")]
    cluster_listen: Option<SocketAddr>,
    /// How other nodes reach this one, as host:port; where it listens unless given
    #[arg(long, value_name = "HOST:PORT", env = "DULY_ADVERTISE")]
    advertise: Option<String>,
    /// A file with the secret that the nodes share; one is kept in the database unless given
    #[arg(long, value_name = "FILE", env = "DULY_CLUSTER_SECRET_FILE")]
    cluster_secret_file: Option<PathBuf>,
    /// This node's number, different from all others'; one is made and kept in the data folder
    #[arg(long, value_name = "N", env = "DULY_NODE", value_parser = clap::value_parser!(u32).range(1..))]
    node: Option<u32>,
    /// What this process does, of those that share a database; all of it unless given
    #[arg(
        long,
        value_name = "ROLES",
        env = "DULY_ROLES",
        value_delimiter = ',',
        default_value = "api,scheduler,worker"
    )]
    roles: Vec<Role>,
}

/// What a process does. All of it, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Answers clients and workers.
    Api,
    /// Owns shards: decides what runs and when.
    Scheduler,
    /// Sends webhooks.
    Worker,
}

/// What a node of a cluster has besides its store.
pub struct Joined {
    pub peers: Arc<Peers>,
    listener: TcpListener,
    pub address: String,
    pub number: u32,
    /// Whether the secret was given, in words.
    pub secret: &'static str,
}

impl Joining {
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// None where the store is this process's alone.
    pub async fn join(
        &self,
        kind: &stores::Kind,
        (data, listen): (&Path, SocketAddr),
        store: &dyn Backend,
        tasks: &Tasks,
    ) -> Result<Option<Joined>, Failure> {
        if kind.is_exclusive() {
            if [Role::Api, Role::Scheduler, Role::Worker].iter().any(|role| !self.has(*role)) {
                let help = "duly serve --store postgres://user@host/database".to_string();
                let message = "--roles is for nodes that share a database";
                return Err(Failure { help, ..Failure::failed(message.to_string()) });
            }
            return Ok(None);
        }
        let at = self.cluster_listen.unwrap_or_else(|| SocketAddr::new(listen.ip(), 0));
        let listener = TcpListener::bind(at).await.map_err(|error| {
            let help = "duly serve --cluster-listen 127.0.0.1:0".to_string();
            Failure { help, ..Failure::failed(format!("cannot listen on {at}: {error}")) }
        })?;
        let local = listener.local_addr().unwrap_or(at);
        let address = match &self.advertise {
            Some(address) => address.clone(),
            None if local.ip().is_unspecified() => {
                let message = format!("others cannot reach {local}: say how they reach this node");
                let help = format!("duly serve --advertise HOST:{}", local.port());
                return Err(Failure { help, ..Failure::failed(message) });
            }
            None => local.to_string(),
        };
        let number = match self.node {
            Some(number) => number,
            None => number_of(data)?,
        };
        let (secret, words) = match &self.cluster_secret_file {
            Some(path) => (secret_in(path)?, "given by a file"),
            None => (secret_of(store)?, "kept in the database"),
        };
        let peers = Arc::new(Peers::new(secret, &address, tasks.clone()));
        Ok(Some(Joined { peers, listener, address, number, secret: words }))
    }
}

impl Joined {
    pub fn options(&self, owns: bool) -> node::Options {
        let post: Arc<dyn Post> = self.peers.clone();
        let about = About { address: Some(Text::from(self.address.as_str())), owns };
        node::Options { node: self.number, exclusive: false, about, post: Some(post) }
    }

    /// From here on other nodes are heard.
    pub fn serve(self, tasks: &Tasks, node: NodeHandle, others: axum::Router) -> Server {
        self.peers.join(node);
        let routes = peers::routes(&self.peers, others);
        serve(tasks, self.listener, routes, None, Bounds::default())
    }
}

/// The same number after a restart, so that the node gets back the shards it had.
fn number_of(data: &Path) -> Result<u32, Failure> {
    let path = data.join(NUMBER);
    let wrong = |why: String| Failure {
        help: "duly serve --node N".to_string(),
        ..Failure::failed(format!("{}: {why}", path.display()))
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let number = text.trim().parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| wrong("this is not the number of a node".to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Small enough to be read aloud, large enough that two nodes do not meet.
            let number = (node::random::bits() % 1_000_000_000) as u32 + 1;
            let mut file =
                std::fs::File::create(&path).map_err(|error| wrong(error.to_string()))?;
            writeln!(file, "{number}").map_err(|error| wrong(error.to_string()))?;
            Ok(number)
        }
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn secret_in(path: &Path) -> Result<Secret, Failure> {
    let wrong = |why: String| Failure {
        help: format!("head -c 32 /dev/urandom | base64 > {}", path.display()),
        ..Failure::failed(format!("{}: {why}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let secret = Secret::new(text.trim().as_bytes());
    secret
        .ok_or_else(|| wrong(format!("a cluster's secret has at least {SECRET_BYTES_MIN} letters")))
}

/// Whoever can read the database can do everything that a node can, so the database may keep it.
fn secret_of(store: &dyn Backend) -> Result<Secret, Failure> {
    let silent = |error| Failure::failed(format!("the store does not answer: {error:?}"));
    let place =
        Place { kind: Kind::Setting, namespace: Namespace(0), name: Text::from("cluster-secret") };
    // Another node may be quicker: then its secret is there at the second look.
    for _ in 0..2 {
        let found = store.entries(std::slice::from_ref(&place)).map_err(silent)?;
        if let Some(entry) = found.into_iter().flatten().next() {
            let text: Option<String> = serde_json::from_str(&entry.text).ok();
            let secret = text.and_then(|text| Secret::new(text.as_bytes()));
            return secret.ok_or_else(|| {
                Failure::failed("the cluster's secret in the database cannot be read".to_string())
            });
        }
        let mut bytes = [0; SECRET_BYTES];
        node::random::fill(&mut bytes);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = Some(Text::from(format!("\"{text}\"")));
        let change = EntryChange { place: place.clone(), expect: None, text };
        store.change_entries(&[change]).map_err(silent)?;
    }
    Err(Failure::failed("the cluster's secret could not be agreed on".to_string()))
}

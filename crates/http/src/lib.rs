//! The HTTP interface: one file per group of routes, one place that turns refusals into problem
//! documents (`refusal`), one that guards the door (`door`), one accept loop (`serve`). A route
//! reads its request with `wire`, asks the node, and answers with `wire`'s types. Rows for GET are
//! read from the store, never from the core's memory.

mod about;
mod backfill;
mod batch;
mod body;
mod changed;
mod claiming;
pub mod cluster;
pub mod cursor;
mod dashboard;
mod dead;
mod definition;
pub mod destinations;
mod doctor;
mod door;
mod ending;
mod events;
mod explain;
mod explain_limits;
mod find;
mod hold;
mod holds;
mod job_patch;
mod job_put;
mod job_read;
mod job_update;
mod job_verbs;
mod jobs;
pub mod key_quota;
mod key_verbs;
pub mod keys;
pub mod limits;
mod lists;
mod log;
mod merge_patch;
mod merged;
pub mod metrics;
mod naming;
mod occurrences;
pub mod openapi;
mod operations;
pub mod outbox;
mod patience;
pub mod preview;
mod progress;
mod query;
mod queue_groups;
mod queues;
pub mod quota;
pub mod quota_counts;
pub mod quota_fires;
mod quota_read;
mod rates;
mod refusal;
mod room;
pub mod route;
mod run_read;
mod run_verbs;
pub mod secrets;
mod serve;
mod spec;
mod spec_target;
mod stats;
mod table;
pub mod target_test;
mod tenant;
pub mod tls;
mod versions;
mod warnings;
mod work;
mod workers;

pub use door::RequestId;
pub use key_verbs::shown;
pub use route::{Route, Scope, Twice};
pub use serve::{Bounds, Peer, Server, serve};
pub use table::table;
pub use tenant::{Caller, Tenant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use model::Namespace;
use node::NodeHandle;
use node::namespaces::Namespaces;
use peers::Peers;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// The only namespace of this version.
pub(crate) const DEFAULT: Namespace = Namespace(0);

#[derive(Debug)]
pub struct Api {
    pub node: NodeHandle,
    /// Where we listen; on loopback only callers of this machine are heard.
    pub listen: SocketAddr,
    pub secrets: Arc<dyn secrets::SigningSecrets>,
    pub tester: Arc<dyn target_test::TargetTester>,
    pub destinations: Arc<dyn destinations::Destinations>,
    pub requests: metrics::Requests,
    pub ring: keys::Ring,
    pub quotas: quota::Quotas,
    pub(crate) counts: quota_counts::Counts,
    pub namespaces: Namespaces,
    pub(crate) workers: workers::Workers,
    pub(crate) progress: progress::Progresses,
    /// Programs that jobs may run, by their whole path.
    pub commands: Vec<String>,
    /// Room for bodies, in KiB.
    bodies: Semaphore,
    server: OnceLock<Arc<room::Room>>,
    /// The other nodes, where there can be some.
    peers: OnceLock<Arc<Peers>>,
    /// Users' databases from which jobs are taken.
    outboxes: OnceLock<Vec<Arc<outbox::State>>>,
}

impl Api {
    pub fn new(
        node: NodeHandle,
        listen: SocketAddr,
        secrets: Arc<dyn secrets::SigningSecrets>,
        tester: Arc<dyn target_test::TargetTester>,
        destinations: Arc<dyn destinations::Destinations>,
        quotas: quota::Quotas,
        commands: Vec<String>,
    ) -> Api {
        let requests = metrics::Requests::of(&table::table());
        let bodies = Semaphore::new(limits::BODIES_KIB_MAX);
        let (ring, namespaces) = (keys::Ring::default(), Namespaces::new(node.clone()));
        let (server, peers, outboxes) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Api {
            node,
            listen,
            secrets,
            tester,
            destinations,
            requests,
            ring,
            quotas,
            counts: quota_counts::Counts::default(),
            namespaces,
            workers: workers::Workers::default(),
            progress: progress::Progresses::default(),
            commands,
            bodies,
            server,
            peers,
            outboxes,
        }
    }

    /// A program that nobody allowed is refused when its job is made, not when it is due.
    fn allows(&self, target: &model::Target, pointer: &str, faults: &mut wire::Faults) {
        if let model::Target::Command { argv, .. } = target
            && let Some(program) = argv.first()
            && !self.commands.iter().any(|allowed| allowed.as_str() == program.as_ref())
        {
            let message = format!(
                "duly may not run {program}; whoever runs the server allows it with \
                 duly serve --allow-command {program}"
            );
            faults.add(format!("{pointer}/target/command/argv/0"), message);
        }
    }

    /// The connections of this server are shown in the metrics.
    pub fn watch(&self, server: &Server) {
        let _ = self.server.set(server.room());
    }

    /// Other nodes may be asked, too.
    pub fn join(&self, peers: Arc<Peers>) {
        let _ = self.peers.set(peers);
    }

    /// Outboxes that are read, each by one node.
    pub fn takes_from(&self, outboxes: Vec<Arc<outbox::State>>) {
        let _ = self.outboxes.set(outboxes);
    }

    pub(crate) fn outboxes(&self) -> &[Arc<outbox::State>] {
        self.outboxes.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn peers(&self) -> Option<&Arc<Peers>> {
        self.peers.get()
    }

    fn open_connections(&self) -> u64 {
        self.server.get().map_or(0, |room| room.open() as u64)
    }
}

pub(crate) type Shared = axum::extract::State<Arc<Api>>;

/// The API, and the dashboard where it has no address.
pub fn routes(api: Arc<Api>) -> Router {
    let router = route::router(&api, table::table(), |_| true).fallback(dashboard::serve);
    guarded(api, router)
}

/// Of a node without the role `api`: is it alive, is it ready, what does it count.
pub fn health_routes(api: Arc<Api>) -> Router {
    let served = |route: &Route| ["/healthz", "/readyz", "/metrics"].contains(&route.path);
    let router = route::router(&api, table::table(), served);
    guarded(api, router)
}

fn guarded(api: Arc<Api>, router: Router<Arc<Api>>) -> Router {
    router
        // The door has read the body already, within its own limit.
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(api.clone(), door::guard))
        .with_state(api)
}

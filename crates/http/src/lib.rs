//! The HTTP interface: one file per group of routes, one place that turns refusals into problem
//! documents (`refusal`), one that guards the door (`door`), one accept loop (`serve`). A route
//! reads its request with `wire`, asks the node, and answers with `wire`'s types. Rows for GET are
//! read from the store, never from the core's memory.

mod about;
mod backfill;
mod batch;
mod dead;
mod definition;
mod door;
mod events;
mod explain;
mod find;
mod hold;
mod job_patch;
mod job_put;
mod job_read;
mod job_verbs;
mod jobs;
pub mod limits;
mod lists;
mod naming;
mod occurrences;
pub mod openapi;
mod operations;
mod patience;
mod preview;
mod query;
mod queues;
mod refusal;
mod room;
pub mod route;
mod run_read;
mod run_verbs;
mod serve;
mod spec;
mod stats;
mod table;
mod tenant;
pub mod tls;
mod warnings;
mod work;

pub use route::{Route, Scope, Twice};
pub use serve::{Bounds, Peer, Server, serve};
pub use table::table;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use model::Namespace;
use node::NodeHandle;
use std::net::SocketAddr;
use std::sync::Arc;

/// The only namespace of this version.
pub(crate) const DEFAULT: Namespace = Namespace(0);

#[derive(Clone, Debug)]
pub struct Api {
    pub node: NodeHandle,
    /// Where we listen; on loopback only callers of this machine are heard.
    pub listen: SocketAddr,
}

pub(crate) type Shared = axum::extract::State<Arc<Api>>;

pub fn routes(api: Api) -> Router {
    let api = Arc::new(api);
    route::router(&api, table::table())
        .layer(DefaultBodyLimit::max(limits::BODY_MAX))
        .layer(axum::middleware::from_fn_with_state(api.clone(), door::guard))
        .with_state(api)
}

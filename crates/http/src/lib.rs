//! The HTTP interface: one file per group of routes, one place that turns refusals into problem
//! documents (`refusal`), one that guards the door (`door`), one accept loop (`serve`). A route
//! reads its request with `wire`, asks the node, and answers with `wire`'s types. Rows for GET are
//! read from the store, never from the core's memory.

mod about;
mod doctor;
mod door;
mod history;
mod hold;
mod job_read;
mod job_verbs;
mod jobs;
pub mod limits;
pub mod openapi;
mod patience;
mod preview;
mod refusal;
mod room;
pub mod route;
mod run_read;
mod run_verbs;
pub mod secrets;
mod serve;
mod spec;
mod table;
pub mod target_test;
mod tenant;
pub mod tls;
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
    pub secrets: Arc<dyn secrets::SigningSecrets>,
    pub tester: Arc<dyn target_test::TargetTester>,
}

pub(crate) type Shared = axum::extract::State<Arc<Api>>;

pub fn routes(api: Api) -> Router {
    let api = Arc::new(api);
    route::router(&api, table::table())
        .layer(DefaultBodyLimit::max(limits::BODY_MAX))
        .layer(axum::middleware::from_fn_with_state(api.clone(), door::guard))
        .with_state(api)
}

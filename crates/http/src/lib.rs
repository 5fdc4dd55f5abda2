//! The HTTP interface: one file per group of routes, one place that turns refusals into problem
//! documents (`refusal`), one that guards the door (`door`), one accept loop (`serve`). A route
//! reads its request with `wire`, asks the node, and answers with `wire`'s types. Rows for GET are
//! read from the store, never from the core's memory.

mod about;
mod door;
mod history;
mod hold;
mod job_read;
mod job_verbs;
mod jobs;
pub mod limits;
mod preview;
mod refusal;
mod run_read;
mod run_verbs;
pub mod secrets;
mod serve;
mod spec;
pub mod target_test;
mod work;

pub use serve::{Server, serve};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
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
    Router::new()
        .route("/v1/jobs", post(jobs::create))
        .route("/v1/jobs/batch", post(jobs::batch))
        .route("/v1/jobs/{job}", get(job_read::show).delete(job_verbs::cancel))
        .route("/v1/jobs/{job}/pause", post(job_verbs::pause))
        .route("/v1/jobs/{job}/resume", post(job_verbs::resume))
        .route("/v1/jobs/{job}/trigger", post(job_verbs::trigger))
        .route("/v1/runs/{run}", get(run_read::show))
        .route("/v1/runs/{run}/cancel", post(run_verbs::cancel))
        .route("/v1/runs/{run}/replay", post(run_verbs::replay))
        .route("/v1/work/claim", post(work::claim))
        .route("/v1/work/heartbeat", post(work::heartbeat))
        .route("/v1/work/settle", post(work::settle))
        .route("/v1/schedules/preview", post(preview::preview))
        .route("/v1/targets/test", post(target_test::test))
        .route("/v1/signing-secrets", get(secrets::list))
        .route("/v1/signing-secrets/rotate", post(secrets::rotate))
        .route("/v1/hold", post(hold::hold))
        .route("/v1/release", post(hold::release))
        .route("/v1/version", get(about::version))
        .route("/healthz", get(about::healthz))
        .route("/readyz", get(about::readyz))
        .layer(DefaultBodyLimit::max(limits::BODY_MAX))
        .layer(axum::middleware::from_fn_with_state(api.clone(), door::guard))
        .with_state(api)
}

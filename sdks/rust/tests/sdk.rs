//! The client and the worker against the real server. It is the one that `cargo test --workspace` has built beside this
//! test, or DULY_BIN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "sdk/client.rs"]
mod client;
#[path = "sdk/conformance.rs"]
mod conformance;
#[path = "sdk/proxy.rs"]
mod proxy;
#[path = "sdk/readme.rs"]
mod readme;
#[path = "sdk/scenario.rs"]
mod scenario;
#[path = "sdk/server.rs"]
mod server;
#[path = "sdk/shown.rs"]
mod shown;
#[path = "sdk/signals.rs"]
mod signals;
#[path = "sdk/trouble.rs"]
mod trouble;

//! The client and the worker against the real server. It is the one that `cargo test --workspace` has built beside this
//! test, or DULY_BIN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod conformance;
mod outbox;
mod postgres;
mod proxy;
mod readme;
mod scenario;
mod server;
mod shown;
mod signals;
mod tls;
mod trouble;

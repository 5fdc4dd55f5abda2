#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod clock;
mod connection;
mod context;
mod end;
mod engine;
mod error;
pub mod limits;
pub mod outbox;
mod setters;
mod time;
mod transport;
pub mod types;
mod webhook;
mod worker;

pub use client::{Client, ClientBuilder, Pages};
pub use context::{Context, Reason, Stopped};
pub use end::End;
pub use error::{ApiError, Error, Fault, Refusal};
pub use time::{Length, When};
pub use tokio_util::sync::CancellationToken;
pub use transport::Backoff;
pub use types::{JobRequest, RetryPolicy, Schedule, Target};
pub use webhook::{WebhookError, verify, verify_at};
pub use worker::{Control, OnLeaseUnknown, Stats, Worker, WorkerBuilder};

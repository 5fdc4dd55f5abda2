//! The client: make, declare, look at and manage jobs.

mod jobs;
mod pages;
mod rest;
mod work;

pub use pages::Pages;

use crate::connection::Place;
use crate::error::Error;
use crate::transport::{Backoff, Call, Transport, headers};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One server. Clones share its connections; any number of tasks may use it at once.
///
/// An idempotency key is sent with everything that makes something, the caller's or a new one: a lost answer
/// makes no second job. Transport errors and refusals that may pass are retried ([`Backoff`]).
#[derive(Clone, Debug)]
pub struct Client {
    transport: Arc<Transport>,
}

/// How a client is made. What is not said comes from DULY_URL, DULY_API_KEY, DULY_NAMESPACE and DULY_CA_FILE,
/// as on the command line.
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    url: Option<String>,
    api_key: Option<String>,
    namespace: Option<String>,
    ca_file: Option<PathBuf>,
    timeout: Option<Duration>,
    backoff: Option<Backoff>,
}

impl ClientBuilder {
    crate::setters::texts! {
        /// Where the server is: `http://127.0.0.1:7070` unless said otherwise.
        url: String,
        /// `duly_<id>_<secret>`.
        api_key: String,
        /// With a key the key decides.
        namespace: String,
        /// Trust the certificates of this PEM file instead of the usual authorities.
        ca_file: PathBuf,
    }

    crate::setters::plain! {
        /// The longest wait for an answer: 30 s.
        timeout: Duration,
        /// How requests are retried.
        backoff: Backoff,
    }

    /// Nothing is sent yet.
    pub fn build(self) -> Result<Client, Error> {
        let env = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let url = self.url.or_else(|| env("DULY_URL"));
        let url = url.unwrap_or_else(|| "http://127.0.0.1:7070".to_string());
        let ca_file = self.ca_file.or_else(|| env("DULY_CA_FILE").map(PathBuf::from));
        let api_key = self.api_key.or_else(|| env("DULY_API_KEY"));
        let namespace = self.namespace.or_else(|| env("DULY_NAMESPACE"));
        let transport = Transport::new(
            Place::read(&url, ca_file.as_deref())?,
            headers(api_key.as_deref(), namespace.as_deref())?,
            self.timeout.unwrap_or(Duration::from_secs(30)),
            self.backoff.unwrap_or_default(),
        );
        Ok(Client { transport: Arc::new(transport) })
    }
}

impl Client {
    /// The server that DULY_URL names, or `http://127.0.0.1:7070`.
    pub fn new() -> Result<Client, Error> {
        Client::builder().build()
    }

    /// The server at this URL.
    pub fn at(url: impl Into<String>) -> Result<Client, Error> {
        Client::builder().url(url).build()
    }

    /// A client with more to say.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.transport.call(call).await
    }
}

//! Flags about where webhooks and messages may go, and the client that keeps to them.

use crate::failure::Failure;
use executor::Client;
use executor::resolve::System;
use executor::vet::Guard;
use node::Tasks;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where webhooks may go, and how.
#[derive(Debug, clap::Args)]
pub struct Egress {
    /// A network that webhooks may reach although it is not public, such as 10.20.0.0/16; may be
    /// given several times, in the environment with commas
    #[arg(long, value_name = "CIDR", env = "DULY_ALLOW_EGRESS", value_delimiter = ',')]
    allow_egress: Vec<ipnet::IpNet>,
    /// Certificate authorities (PEM) that are trusted besides the usual ones
    #[arg(long, value_name = "FILE", env = "DULY_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// How long an answer may take to begin; without it, as long as the attempt
    #[arg(long, value_name = "DURATION", env = "DULY_FIRST_BYTE_TIMEOUT")]
    first_byte_timeout: Option<String>,
}

impl Egress {
    pub fn client(&self, own: SocketAddr, tasks: &Tasks) -> Result<Client, Failure> {
        let wrong = |why: String| Failure { exit: 2, ..Failure::failed(why) };
        let first_byte = match &self.first_byte_timeout {
            None => None,
            Some(text) => {
                let micros = wire::duration::parse(text)
                    .map_err(|error| wrong(format!("--first-byte-timeout: {error}")))?;
                Some(Duration::from_micros(micros.unsigned_abs()))
            }
        };
        let guard = Guard::new(own, self.allow_egress.clone());
        let resolver = Arc::new(System::new(tasks.clone()));
        Client::new(guard, resolver, self.ca_file.as_deref(), first_byte).map_err(wrong)
    }
}

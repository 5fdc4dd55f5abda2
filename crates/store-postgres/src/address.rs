//! Where the database is: an address as PostgreSQL's own tools take it, and TLS.
//!
//! | `sslmode` | what is done |
//! |---|---|
//! | `disable` | no TLS |
//! | none, `prefer` | on this machine none; elsewhere TLS if the server offers it |
//! | `require`, `verify-full` | TLS or nothing |
//!
//! Where TLS is used the server's certificate and name are always checked, against the roots that
//! browsers trust or those in the file that `sslrootcert` names.
//!
//! Nothing is asked of the session (no `options`, no SET): a pooler in transaction mode hands a
//! connection to another server session after every transaction.

use crate::error::OpenError;
use crate::limits::CONNECT_WAIT;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The kernel gives up a connection whose other end is gone after this.
const SILENT_PEER: Duration = Duration::from_secs(10);

type Driver = Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>;

#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Address {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("hosts", &self.config.get_hosts()).finish_non_exhaustive()
    }
}

impl Address {
    pub fn parse(text: &str) -> Result<Address, OpenError> {
        let wrong = |words: String| OpenError::Address(words);
        let (text, roots) = without_roots(text);
        let text = text.replace("sslmode=verify-full", "sslmode=require");
        let mut config: Config =
            text.parse().map_err(|error: tokio_postgres::Error| wrong(words(&error)))?;
        config
            .application_name("duly")
            .connect_timeout(CONNECT_WAIT)
            .tcp_user_timeout(SILENT_PEER)
            .keepalives_idle(SILENT_PEER);
        let wanted = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !config.get_hosts().iter().all(is_here),
            _ => true,
        };
        let tls = if wanted { Some(connector(roots.as_deref())?) } else { None };
        Ok(Address { config, tls })
    }

    pub async fn connect(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, driver) = self.config.connect(tls.clone()).await?;
                Ok((client, Box::new(driver)))
            }
            None => {
                let (client, driver) = self.config.connect(NoTls).await?;
                Ok((client, Box::new(driver)))
            }
        }
    }
}

/// An error with its cause: the cause is what helps.
pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// The parameter that the library does not know.
fn without_roots(text: &str) -> (String, Option<String>) {
    let Some((head, query)) = text.split_once('?') else { return (text.to_string(), None) };
    let (roots, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|part| part.starts_with("sslrootcert="));
    let roots = roots.first().and_then(|part| part.split_once('=')).map(|(_, path)| path.into());
    let text = if rest.is_empty() { head.into() } else { format!("{head}?{}", rest.join("&")) };
    (text, roots)
}

fn connector(roots: Option<&str>) -> Result<MakeRustlsConnect, OpenError> {
    let mut store = rustls::RootCertStore::empty();
    match roots {
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let wrong = |error: String| OpenError::Address(format!("sslrootcert {path}: {error}"));
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                store.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Address(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses_tls(text: &str) -> bool {
        Address::parse(text).expect("an address").tls.is_some()
    }

    #[test]
    fn tls_is_used_where_the_table_says() {
        assert!(!uses_tls("postgres://u@127.0.0.1/d"));
        assert!(!uses_tls("postgres://u@%2Ftmp%2Fsocket/d"));
        assert!(uses_tls("postgres://u@db.example.org/d"));
        assert!(!uses_tls("postgres://u@db.example.org/d?sslmode=disable"));
        assert!(uses_tls("postgres://u@127.0.0.1/d?sslmode=require"));
        assert!(uses_tls("postgres://u@127.0.0.1/d?sslmode=verify-full"));
    }

    #[test]
    fn what_is_not_an_address_is_said() {
        let said = |text: &str| Address::parse(text).map(drop).expect_err("refused").to_string();
        assert!(said("postgres://u@h/d?sslmode=sometimes").contains("sslmode"));
        assert!(said("postgres://u@h/d?sslrootcert=/nowhere").contains("/nowhere"));
        let shown =
            format!("{:?}", Address::parse("postgres://u:secret@127.0.0.1/d").expect("one"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}

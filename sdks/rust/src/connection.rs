//! Connections to one server: made, kept, given out again. Each is driven by a task of the runtime it was
//! made on, and is closed when its sender is dropped, which ends a request that nobody waits for.

use crate::error::Error;
use crate::limits::{CONNECT_TIMEOUT, CONNECTIONS_KEPT};
use http_body_util::Full;
use hyper::Uri;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Where a server is, from its URL.
#[derive(Clone)]
pub(crate) struct Place {
    host: String,
    port: u16,
    /// What the header Host says.
    pub authority: String,
    /// Before every path.
    pub base: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.authority, self.base)
    }
}

impl Place {
    pub fn read(url: &str, ca_file: Option<&Path>) -> Result<Place, Error> {
        let bad = || {
            let example = "such as http://127.0.0.1:7070";
            Error::Invalid(format!("{url:?} is not the URL of a server, {example}"))
        };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(bad());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
        let tls = if secure {
            let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
            Some((TlsConnector::from(Arc::new(trust(ca_file)?)), name))
        } else {
            None
        };
        Ok(Place {
            host,
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_string(),
            tls,
        })
    }

    async fn dial(&self) -> Result<Sender, Error> {
        let why = |error: &dyn std::fmt::Display| Error::Transport(format!("{self:?}: {error}"));
        let stream = TcpStream::connect((self.host.as_str(), self.port));
        let stream = stream.await.map_err(|error| why(&error))?;
        // A request is written whole: waiting for more to send only delays it.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => shake(TokioIo::new(stream)).await.map_err(|error| why(&error)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| why(&error))?;
                shake(TokioIo::new(stream)).await.map_err(|error| why(&error))
            }
        }
    }
}

async fn shake<S: Read + Write + Unpin + Send + 'static>(stream: S) -> hyper::Result<Sender> {
    let (sender, connection) = handshake(stream).await?;
    tokio::spawn(async move {
        // Whoever waits for an answer is told of an error; here nobody is.
        let _ = connection.await;
    });
    Ok(sender)
}

fn trust(file: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = file {
        let refused = |why: &dyn std::fmt::Display| {
            Error::Invalid(format!("the certificates of {} cannot be used: {why}", file.display()))
        };
        let list =
            CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        roots = RootCertStore::empty();
        let (good, _) = roots.add_parsable_certificates(list.map_err(|error| refused(&error))?);
        if good == 0 {
            return Err(refused(&"there is none in it"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(format!("TLS: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[derive(Debug)]
pub(crate) struct Connections {
    pub place: Place,
    idle: Mutex<Vec<Sender>>,
}

impl Connections {
    pub fn new(place: Place) -> Connections {
        Connections { place, idle: Mutex::new(Vec::new()) }
    }

    /// One that was kept, if there is one: the other side may close it at any moment.
    pub async fn kept(&self) -> Option<Sender> {
        loop {
            let mut sender = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    pub async fn new_one(&self) -> Result<Sender, Error> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.place.dial()).await {
            Ok(dialled) => dialled,
            Err(_) => Err(Error::Transport(format!("{:?}: no connection in time", self.place))),
        }
    }

    pub fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < CONNECTIONS_KEPT && !sender.is_closed() {
            idle.push(sender);
        }
    }
}

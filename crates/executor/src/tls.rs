//! TLS towards receivers: rustls, the roots that browsers trust, and what `--ca-file` adds.

use crate::limits::{HANDSHAKE_TIMEOUT, TLS_BUFFER_MAX};
use crate::place::Place;
use crate::trouble::Trouble;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::host::Host;

/// `extra`: a PEM file with more authorities. `protocols`: what is spoken inside.
pub fn connector(extra: Option<&Path>, protocols: &[&[u8]]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = extra {
        let wrong = |why: String| format!("--ca-file {}: {why}", path.display());
        let found =
            CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        let mut count = 0;
        for one in found {
            let one = one.map_err(|error| wrong(error.to_string()))?;
            roots.add(one).map_err(|error| wrong(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(wrong("it holds no certificate in PEM form".to_string()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A certificate that is wrong today may be renewed tomorrow: everything here is tried again.
pub async fn shake(
    connector: &TlsConnector,
    place: &Place,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Trouble> {
    let failed = |why: &str| Trouble::Failed(format!("TLS with {place} failed: {why}"));
    let name = match &place.host {
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| failed("no certificate can be made out to this name"))?,
        Host::Address(ip) => ServerName::IpAddress(IpAddr::from(*ip)),
    };
    let handshake = connector.connect_with(name, stream, |session| {
        session.set_buffer_limit(Some(TLS_BUFFER_MAX));
    });
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => {
            let text = error.to_string();
            let help = match text.contains("UnknownIssuer") {
                true => " (an authority of your own is told to duly with --ca-file)",
                false => "",
            };
            Err(failed(&format!("{text}{help}")))
        }
        Err(_) => Err(failed("the handshake took longer than 5 s")),
    }
}

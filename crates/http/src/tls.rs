//! TLS for the accept loop: certificate and key from PEM files, read again when told to. A pair that
//! cannot be used leaves the one in use.

use rustls::ServerConfig;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Debug)]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: Arc<RwLock<Arc<ServerConfig>>>,
    /// What the files looked like when they were last read, well or badly.
    stamps: Arc<Mutex<Stamps>>,
}

/// Length and time of change of certificate and key.
type Stamps = [Option<(u64, SystemTime)>; 2];

impl Tls {
    /// Says which file is at fault and why.
    pub fn open(cert: &Path, key: &Path) -> Result<Tls, String> {
        let config = Arc::new(RwLock::new(Arc::new(read(cert, key)?)));
        let stamps = Arc::new(Mutex::new([stamp(cert), stamp(key)]));
        Ok(Tls { cert: cert.to_path_buf(), key: key.to_path_buf(), config, stamps })
    }

    pub fn has_changed(&self) -> bool {
        let kept = *self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        kept != [stamp(&self.cert), stamp(&self.key)]
    }

    /// New connections use the files as they are now.
    pub fn reload(&self) -> Result<(), String> {
        let stamps = [stamp(&self.cert), stamp(&self.key)];
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
        let config = Arc::new(read(&self.cert, &self.key)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        TlsAcceptor::from(config)
    }
}

fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.len(), data.modified().ok()?))
}

fn read(cert: &Path, key: &Path) -> Result<ServerConfig, String> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, PemError>>)
        .map_err(|error| format!("the certificate file {}: {error}", cert.display()))?;
    if chain.is_empty() {
        return Err(format!("the certificate file {} holds no certificate", cert.display()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        PemError::NoItemsFound => format!("the key file {} holds no private key", key.display()),
        error => format!("the key file {}: {error}", key.display()),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("{} and {} do not fit: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

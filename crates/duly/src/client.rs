//! Client commands: one request to a server, its answer as text, and the exit code it means.

use crate::failure::{
    EXIT_FAILED, EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, Failure,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wire::Problem;

pub(crate) const ANSWER_MAX: usize = 32 * 1024 * 1024;
pub(crate) const TIMEOUT: Duration = Duration::from_secs(35);

#[derive(Clone, Debug, clap::Args)]
pub struct Server {
    /// The server
    #[arg(long, env = "DULY_URL", default_value = "http://127.0.0.1:7070")]
    url: String,
    /// An API key, duly_<id>_<secret>; better in the environment than on the command line
    #[arg(long, env = "DULY_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
    /// The namespace; with a key the key decides
    #[arg(long, env = "DULY_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// Trust the certificates in this PEM file instead of the usual authorities
    #[arg(long, env = "DULY_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Server {
    /// Without a key or a namespace.
    pub fn at(url: String) -> Server {
        Server { url, api_key: None, namespace: None, ca_file: None }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same without a namespace in its requests.
    pub fn everywhere(&self) -> Server {
        Server { namespace: None, ..self.clone() }
    }

    pub fn get(&self, path: &str) -> Result<String, Failure> {
        self.ask("GET", path, None)
    }

    pub fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let text = self.get(path)?;
        serde_json::from_str(&text)
            .map_err(|_| Failure::failed(format!("{} is not a duly: {path}", self.url)))
    }

    pub fn post(&self, path: &str, body: String) -> Result<String, Failure> {
        self.ask("POST", path, Some(body))
    }

    pub fn delete(&self, path: &str) -> Result<String, Failure> {
        self.ask("DELETE", path, None)
    }

    /// The namespace that was named.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<String>) -> Result<String, Failure> {
        self.send(method, path, body, &[])
    }

    pub fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<String, Failure> {
        let talk = self.talk(method, path, body, headers);
        let talk = async { tokio::time::timeout(TIMEOUT, talk).await };
        match runtime()?.block_on(talk) {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("no answer in time")),
        }
    }

    /// Host and port of a server without TLS.
    pub fn plain_address(&self) -> Result<String, Failure> {
        let host = self.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| !host.contains('/')).ok_or_else(|| {
            let message = format!("--url {} is not http://HOST:PORT", self.url);
            let help = "--url http://127.0.0.1:7070".to_string();
            Failure { exit: EXIT_USAGE, message, help }
        })?;
        Ok(if host.contains(':') { host.to_string() } else { format!("{host}:80") })
    }

    /// Who asks, as lines of a request's head.
    pub fn header_lines(&self) -> String {
        let key = self.api_key.iter().map(|key| format!("Authorization: Bearer {key}\r\n"));
        let namespace = self.namespace.iter().map(|name| format!("X-Namespace: {name}\r\n"));
        key.chain(namespace).collect()
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        host: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", host)
            .header("content-type", "application/json");
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(namespace) = &self.namespace {
            request = request.header("x-namespace", namespace);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| Failure::failed(format!("bad request: {error}")))
    }

    async fn talk(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<String, Failure> {
        let (host, stream) = self.connect().await?;
        let broken = |error: hyper::Error| self.unreachable(&error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = self.request(method, path, host, body, headers)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            let body = body.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            if status < 400 { Ok(text) } else { Err(refused(status, &text)) }
        };
        tokio::pin!(exchange, connection);
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut exchange => return answer,
                _ = &mut connection, if open => open = false,
            }
        }
    }

    pub(crate) async fn connect(&self) -> Result<(&str, Box<dyn Stream>), Failure> {
        let (tls, rest) =
            match (self.url.strip_prefix("http://"), self.url.strip_prefix("https://")) {
                (Some(rest), _) => (false, rest),
                (_, Some(rest)) => (true, rest),
                _ => {
                    let help = "duly … --url http://127.0.0.1:7070".to_string();
                    let message = "--url begins with http:// or https://".to_string();
                    return Err(Failure { exit: EXIT_USAGE, message, help });
                }
            };
        let host = rest.trim_end_matches('/');
        let address = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_string(),
            _ => format!("{host}:{}", if tls { 443 } else { 80 }),
        };
        let stream =
            TcpStream::connect(&address).await.map_err(|e| self.unreachable(&e.to_string()))?;
        if !tls {
            return Ok((host, Box::new(stream)));
        }
        let name = address.rsplit_once(':').map_or(address.as_str(), |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_string();
        let name = ServerName::try_from(name)
            .map_err(|_| Failure::failed(format!("{} has no name that TLS can check", self.url)))?;
        let connector = TlsConnector::from(Arc::new(trust(self.ca_file.as_deref())?));
        let stream = connector.connect(name, stream).await.map_err(|error| Failure {
            exit: EXIT_UNREACHABLE,
            message: format!("{} cannot be trusted: {error}", self.url),
            help: "DULY_CA_FILE=cert.pem duly …, if the certificate is your own".to_string(),
        })?;
        Ok((host, Box::new(stream)))
    }

    pub(crate) fn unreachable(&self, why: &str) -> Failure {
        Failure {
            exit: EXIT_UNREACHABLE,
            message: format!("{} cannot be reached: {why}", self.url),
            help: "duly serve".to_string(),
        }
    }
}

pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no runtime: {error}")))
}

fn trust(file: Option<&Path>) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = file {
        let refused = |why: String| Failure {
            exit: EXIT_USAGE,
            message: format!("--ca-file {}: {why}", file.display()),
            help: "duly … --ca-file cert.pem".to_string(),
        };
        let list =
            CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let list = list.map_err(|error| refused(error.to_string()))?;
        roots = RootCertStore::empty();
        let (good, _) = roots.add_parsable_certificates(list);
        if good == 0 {
            return Err(refused("no certificate is in this file".to_string()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::failed(format!("TLS: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

pub(crate) fn refused(status: u16, text: &str) -> Failure {
    let exit = match status {
        404 | 410 => EXIT_NOT_FOUND,
        400..=499 => EXIT_REFUSED,
        _ => EXIT_FAILED,
    };
    let message = match serde_json::from_str::<Problem>(text) {
        Ok(problem) => format!("{} ({}, {status})", problem.detail, problem.code),
        Err(_) => format!("the server answered {status}"),
    };
    let code = serde_json::from_str::<Problem>(text).map(|problem| problem.code);
    let help = match (status, code.as_deref().unwrap_or_default()) {
        (_, "name_taken") => return Failure { exit, message, help: "duly job list".to_string() },
        (_, "not_dead") => return Failure { exit, message, help: "duly dead list".to_string() },
        (_, "version") => return Failure { exit, message, help: "duly job edit …".to_string() },
        (_, "not_recurring") => {
            return Failure { exit, message, help: "duly run list".to_string() };
        }
        _ => status,
    };
    let help = match help {
        401 => "export DULY_API_KEY=duly_…, made by `duly key create --scope admin`",
        403 => "duly key list",
        404 | 410 => "duly job list",
        429 | 500..=599 => "duly status",
        _ => "duly --help",
    };
    Failure { exit, message, help: help.to_string() }
}

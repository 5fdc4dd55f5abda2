//! Client commands: one request to a server, its answer as text, and the exit code it means.

use crate::failure::{EXIT_FAILED, EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNREACHABLE, Failure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;
use wire::Problem;

const ANSWER_MAX: usize = 32 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(35);

#[derive(Debug, clap::Args)]
pub struct Server {
    /// The server
    #[arg(long, env = "DULY_URL", default_value = "http://127.0.0.1:7070")]
    url: String,
}

impl Server {
    pub fn at(url: String) -> Server {
        Server { url }
    }

    pub fn get(&self, path: &str) -> Result<String, Failure> {
        self.ask("GET", path, None)
    }

    pub fn post(&self, path: &str, body: String) -> Result<String, Failure> {
        self.ask("POST", path, Some(body))
    }

    fn ask(&self, method: &str, path: &str, body: Option<String>) -> Result<String, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
        let talk = async { tokio::time::timeout(TIMEOUT, self.talk(method, path, body)).await };
        match runtime.block_on(talk) {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("no answer in time")),
        }
    }

    async fn talk(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<String, Failure> {
        let Some(host) = self.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'))
        else {
            let help = "duly … --url http://127.0.0.1:7070".to_string();
            return Err(Failure { exit: 2, help, ..Failure::failed("--url begins with http://") });
        };
        let stream =
            TcpStream::connect(host).await.map_err(|e| self.unreachable(&e.to_string()))?;
        let broken = |error: hyper::Error| self.unreachable(&error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| Failure::failed(format!("bad request: {error}")))?;
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

    fn unreachable(&self, why: &str) -> Failure {
        Failure {
            exit: EXIT_UNREACHABLE,
            message: format!("{} cannot be reached: {why}", self.url),
            help: "duly serve".to_string(),
        }
    }
}

fn refused(status: u16, text: &str) -> Failure {
    let exit = match status {
        404 | 410 => EXIT_NOT_FOUND,
        400..=499 => EXIT_REFUSED,
        _ => EXIT_FAILED,
    };
    let message = match serde_json::from_str::<Problem>(text) {
        Ok(problem) => format!("{} ({}, {status})", problem.detail, problem.code),
        Err(_) => format!("the server answered {status}"),
    };
    Failure { exit, message, help: "duly job create --help".to_string() }
}

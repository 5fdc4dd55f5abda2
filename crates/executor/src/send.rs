//! One request on one connection. Bounded in time by its caller, in bytes here. Dropping the future
//! closes the connection: that is how an attempt is stopped.

use crate::limits::{BODY_MAX, CONNECT_TIMEOUT, HEAD_MAX};
use crate::vet::Guard;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use model::Span;
use std::net::SocketAddr;
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Heard {
    pub code: u16,
    /// `X-Job-Outcome`.
    pub outcome: Option<String>,
    pub retry_after: Option<Span>,
    /// The first `BODY_MAX` bytes.
    pub body: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    Timeout,
    /// Will not go better next time.
    Refused(String),
    Failed(String),
}

pub async fn send(
    guard: &Guard,
    to: &Uri,
    request: Request<Full<Bytes>>,
) -> Result<Heard, Trouble> {
    let address = address(guard, to).await?;
    let connect = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
    let stream = match connect.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(Trouble::Failed(format!("could not connect: {error}"))),
        Err(_) => return Err(Trouble::Failed("could not connect in 5 s".to_string())),
    };
    let _ = stream.set_nodelay(true);
    let failed = |error: hyper::Error| Trouble::Failed(format!("the connection failed: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let talk = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        Ok(hear(response).await)
    };
    tokio::pin!(talk, connection);
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            heard = &mut talk => return heard,
            _ = &mut connection, if open => open = false,
        }
    }
}

/// Resolves, and refuses if any address is refused: a name with one bad address is a bad name.
async fn address(guard: &Guard, uri: &Uri) -> Result<SocketAddr, Trouble> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(80);
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = match found {
        Ok(found) => found.collect(),
        Err(error) => {
            return Err(Trouble::Failed(format!("{host} could not be resolved: {error}")));
        }
    };
    for address in &found {
        if let Err(why) = guard.vet(*address) {
            return Err(Trouble::Refused(format!("{host} is {}: refused, {why}", address.ip())));
        }
    }
    let first = found.first().copied();
    first.ok_or_else(|| Trouble::Failed(format!("{host} has no address")))
}

/// The head, and what of the body fits. A body that breaks off or is too long does not undo the
/// status the receiver gave.
async fn hear(response: Response<Incoming>) -> Heard {
    let code = response.status().as_u16();
    let outcome = text(response.headers(), "x-job-outcome");
    let retry_after = text(response.headers(), "retry-after")
        .and_then(|text| text.trim().parse::<u32>().ok())
        .map(|seconds| Span::from_secs(i64::from(seconds)));
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while body.len() < BODY_MAX
        && let Some(Ok(frame)) = incoming.frame().await
    {
        if let Ok(data) = frame.into_data() {
            let room = BODY_MAX - body.len();
            body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    Heard { code, outcome, retry_after, body }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_ascii_lowercase)
}

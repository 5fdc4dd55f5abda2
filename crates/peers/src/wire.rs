//! One request to another node over a connection of its own or a kept one, and what its failure
//! means. Three ends: answered; **not heard** (no connection was made, or nothing of the request was
//! written); **unknown** (it broke off after that).

use crate::limits::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, IDLE_MAX};
use crate::secret::{Said, Secret, node_text};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::{NodeId, Text, Time};
use node::Tasks;
use node::clock::BootClock;
use std::time::Duration;
use tokio::net::TcpStream;

pub const FROM: &str = "duly-from";
pub const TO: &str = "duly-to";
pub const AT: &str = "duly-at";
pub const CODE: &str = "duly-code";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The other node did not hear of it.
    NotHeard(String),
    /// It may have heard it.
    Unknown(String),
}

/// What every request needs.
#[derive(Clone, Debug)]
pub struct Line {
    pub secret: Secret,
    pub from: NodeId,
    pub to: NodeId,
    pub address: String,
    /// Where we are reached.
    pub own: Text,
    pub tasks: Tasks,
}

/// A connection, if there is one, and when it was used last.
#[derive(Debug, Default)]
pub struct Kept(Option<(SendRequest<Full<Bytes>>, Time)>);

impl Kept {
    /// One that was idle for long may be closed by the other side in this very moment, and then
    /// nobody would know whether it heard.
    fn take(&mut self) -> Option<SendRequest<Full<Bytes>>> {
        let (sender, used) = self.0.take()?;
        let idle = BootClock.local().since(used).micros();
        (0..IDLE_MAX.as_micros() as i64).contains(&idle).then_some(sender)
    }
}

impl Line {
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failed> {
        let not_heard = |why: String| Failed::NotHeard(format!("{}: {why}", self.address));
        let connecting = async {
            let stream = TcpStream::connect(&self.address).await.map_err(|e| e.to_string())?;
            let _ = stream.set_nodelay(true);
            let shaking = hyper::client::conn::http1::handshake(TokioIo::new(stream));
            shaking.await.map_err(|e| e.to_string())
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Err(_) => Err(not_heard("no connection in time".to_string())),
            Ok(Err(why)) => Err(not_heard(why)),
            Ok(Ok((sender, connection))) => {
                // It ends with its sender.
                self.tasks.start(async move {
                    let _ = connection.await;
                });
                Ok(sender)
            }
        }
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failed> {
        let (from, to, address) = (self.from, self.to, &*self.own);
        let said = Said { method, path, from, to, address, body: &body };
        let code = self.secret.code(said);
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header(FROM, node_text(self.from))
            .header(TO, node_text(self.to))
            .header(AT, address)
            .header(CODE, code)
            .body(Full::new(body))
            .map_err(|error| Failed::NotHeard(error.to_string()))
    }

    /// Sends and waits for the head of the answer. A kept connection that was closed meanwhile is
    /// replaced, as long as nothing was written to it.
    pub async fn send(
        &self,
        kept: &mut Kept,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failed> {
        let mut request = self.request(method, path, body)?;
        for fresh in [false, true] {
            let mut sender = match kept.take() {
                Some(sender) if !fresh => sender,
                _ => self.connect().await?,
            };
            if sender.ready().await.is_err() {
                if fresh {
                    break;
                }
                continue;
            }
            let sent = tokio::time::timeout(ANSWER_TIMEOUT, sender.try_send_request(request));
            match sent.await {
                Ok(Ok(response)) => {
                    kept.0 = Some((sender, BootClock.local()));
                    return Ok(response);
                }
                Ok(Err(mut error)) => match error.take_message() {
                    // Nothing of it was written.
                    Some(back) => request = back,
                    None => return Err(Failed::Unknown(error.into_error().to_string())),
                },
                Err(_) => return Err(Failed::Unknown("no answer in time".to_string())),
            }
        }
        Err(Failed::NotHeard(format!("{}: the connection closed", self.address)))
    }
}

/// The body of an answer, at most so long and within this time.
pub async fn body_of(
    response: Response<Incoming>,
    bytes: usize,
    within: Duration,
) -> Result<Bytes, Failed> {
    let unknown = |why: String| Failed::Unknown(why);
    let reading = Limited::new(response.into_body(), bytes).collect();
    match tokio::time::timeout(within, reading).await {
        Err(_) => Err(unknown("the answer did not end in time".to_string())),
        Ok(Err(error)) => Err(unknown(error.to_string())),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

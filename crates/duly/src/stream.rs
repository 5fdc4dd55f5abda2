//! A stream of events, read on the thread that asked for it: `hear` is called between two reads, so it
//! may ask the server something else.

use crate::client::{ANSWER_MAX, Server, TIMEOUT, refused, runtime};
use crate::failure::Failure;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Told {
    pub name: String,
    pub data: Value,
}

/// A connection is driven by whoever reads from it.
struct Connection {
    future: Pin<Box<dyn Future<Output = Result<(), hyper::Error>>>>,
    open: bool,
}

impl Server {
    /// Listens to a stream of events until `hear` has enough or the stream ends; `last` is the id
    /// of the last one. The first that is heard, named `listening`, says that the stream is open.
    pub fn listen(
        &self,
        path: &str,
        last: &mut Option<String>,
        mut hear: impl FnMut(&Told) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        let runtime = runtime()?;
        let open = async { tokio::time::timeout(TIMEOUT, self.open(path, last.as_deref())).await };
        let (mut body, mut connection) = match runtime.block_on(open) {
            Ok(opened) => opened?,
            Err(_) => return Err(self.unreachable("no answer in time")),
        };
        let mut told = Told { name: "listening".to_string(), data: Value::Null };
        if hear(&told).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut rest = Vec::new();
        loop {
            let frame = runtime.block_on(async {
                loop {
                    tokio::select! {
                        biased;
                        frame = body.frame() => return frame,
                        _ = &mut connection.future, if connection.open => connection.open = false,
                    }
                }
            });
            let Some(frame) = frame else { return Ok(ControlFlow::Continue(())) };
            let frame = frame.map_err(|error| self.unreachable(&error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            rest.extend_from_slice(&data);
            if rest.len() > ANSWER_MAX {
                return Err(self.unreachable("an event without an end"));
            }
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end();
                if let Some(id) = line.strip_prefix("id: ") {
                    *last = Some(id.to_string());
                } else if let Some(name) = line.strip_prefix("event: ") {
                    told.name = name.to_string();
                } else if let Some(data) = line.strip_prefix("data: ") {
                    told.data = serde_json::from_str(data).unwrap_or_default();
                    if hear(&told).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
    }

    async fn open(
        &self,
        path: &str,
        last: Option<&str>,
    ) -> Result<(Incoming, Connection), Failure> {
        let (host, stream) = self.connect().await?;
        let broken = |error: hyper::Error| self.unreachable(&error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let last: Vec<(&str, &str)> = last.map(|id| ("last-event-id", id)).into_iter().collect();
        let request = self.request("GET", path, host, None, &last)?;
        let mut connection = Connection { future: Box::pin(connection), open: true };
        let response = {
            let answer = sender.send_request(request);
            tokio::pin!(answer);
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer.map_err(broken)?,
                    _ = &mut connection.future, if connection.open => connection.open = false,
                }
            }
        };
        // The sender is dropped here; the connection goes on while its body is read.
        let status = response.status().as_u16();
        if status < 400 {
            return Ok((response.into_body(), connection));
        }
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect();
        tokio::pin!(body);
        let body = loop {
            tokio::select! {
                biased;
                body = &mut body => break body,
                _ = &mut connection.future, if connection.open => connection.open = false,
            }
        };
        let body = body.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
        Err(refused(status, &String::from_utf8_lossy(&body)))
    }
}

//! The demo's receiver: remembers when each run came.

use crate::clock;
use crate::failure::Failure;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::Time;
use node::Tasks;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// Each attempt takes a moment, so that some are under way when the server is killed.
const WORK: Duration = Duration::from_millis(5);

type Heard = BTreeMap<String, Vec<Time>>;

#[derive(Clone, Debug)]
pub struct Receiver {
    url: String,
    heard: Arc<Mutex<Heard>>,
}

impl Receiver {
    pub async fn start(tasks: Tasks) -> Result<Receiver, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let url = format!("http://{}/demo", listener.local_addr().map_err(failed)?);
        let receiver = Receiver { url, heard: Arc::default() };
        let mine = receiver.clone();
        let starter = tasks.clone();
        tasks.start(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = mine.clone();
                starter.start(async move {
                    let service = service_fn(move |request| hear(receiver.clone(), request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(receiver)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many different runs have come.
    pub fn runs(&self) -> usize {
        self.lock().len()
    }

    pub fn heard(&self) -> Heard {
        self.lock().clone()
    }
}

async fn hear(
    receiver: Receiver,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let at = clock::now();
    let run = request.headers().get("x-run-id").and_then(|value| value.to_str().ok());
    if let Some(run) = run {
        receiver.lock().entry(run.to_string()).or_default().push(at);
    }
    tokio::time::sleep(WORK).await;
    Ok(Response::new(Full::new(Bytes::new())))
}

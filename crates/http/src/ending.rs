//! A stream without an end of its own (server-sent events) ends when the server is told to stop, so that
//! its reader sees an end and not a broken connection, and nobody waits for it.

use axum::body::{Body, Bytes};
use hyper::HeaderMap;
use hyper::body::Frame;
use hyper::header::CONTENT_TYPE;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Ending {
    body: Body,
    stop: Stop,
}

/// Is this answer one that would never end?
pub fn is_endless(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

impl Ending {
    pub fn new(body: Body, stop: impl Future<Output = ()> + Send + 'static) -> Ending {
        Ending { body, stop: Box::pin(stop) }
    }
}

impl hyper::body::Body for Ending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.stop.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Pin::new(&mut self.body).poll_frame(context),
        }
    }
}

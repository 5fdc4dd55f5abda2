//! One connection and one exchange on it. Whoever holds the connection drives it: nothing runs in
//! the background, so dropping it ends everything, in the middle of a request too. That is how
//! an attempt is stopped.

use crate::answer::Heard;
use crate::limits::{BODY_MAX, HEAD_MAX, HEADERS_MAX, REUSE_WAIT};
use crate::stream::{Kind, Stream};
use crate::trouble::Trouble;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use model::{Span, Time};
use node::clock::BootClock;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

type Driver = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    open: bool,
    heard: Arc<AtomicU64>,
    /// When it was made, by the boot clock.
    pub made: Time,
}

/// When an attempt must end, by the boot clock.
#[derive(Clone, Copy, Debug)]
pub struct Until(pub Time);

impl Until {
    pub fn after(span: Span) -> Until {
        Until(BootClock.local().plus(span))
    }

    pub fn left(self) -> Duration {
        Duration::from_micros(self.0.since(BootClock.local()).micros().max(0).unsigned_abs())
    }
}

impl Connection {
    pub async fn new(kind: Kind) -> Result<Connection, Trouble> {
        let (stream, heard) = Stream::new(kind);
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Trouble::connection(&error))?;
        let made = BootClock.local();
        Ok(Connection { sender, driver: Box::pin(driver), open: true, heard, made })
    }

    /// Bytes that came from the receiver so far.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Looks once: a connection that was closed, or on which something came that nobody asked for
    /// (an answer too many would be taken for the answer to the next request), is of no more use.
    pub async fn is_usable(&mut self) -> bool {
        let driver = &mut self.driver;
        let ended = poll_fn(|context| Poll::Ready(driver.as_mut().poll(context).is_ready())).await;
        self.open = self.open && !ended;
        self.open && self.sender.is_ready()
    }

    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        drive(&mut self.driver, &mut self.open, work).await
    }

    /// Sends and listens. The status counts as soon as its head is complete: a body that breaks
    /// off, is too long or comes too slowly does not undo it.
    /// True: the connection can be used again.
    pub async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        first_byte: Option<Duration>,
        until: Until,
        now: Time,
    ) -> Result<(Heard, bool), Trouble> {
        let left = until.left();
        let sending = self.sender.send_request(request);
        let head = drive(&mut self.driver, &mut self.open, sending);
        let wait = first_byte.map_or(left, |limit| limit.min(left));
        let response = match tokio::time::timeout(wait, head).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Trouble::connection(&error)),
            Err(_) if wait < left => {
                return Err(Trouble::Silent(format!("no answer began within {wait:?}")));
            }
            Err(_) => return Err(Trouble::Timeout),
        };
        let mut heard = Heard::head(response.status().as_u16(), response.headers(), now);
        let body = response.into_body();
        let listen = self.drive(listen(body, &mut heard.body));
        let whole = tokio::time::timeout(until.left(), listen).await.unwrap_or(false);
        Ok((heard, whole && self.is_free_again().await))
    }

    async fn is_free_again(&mut self) -> bool {
        let ready = drive(&mut self.driver, &mut self.open, self.sender.ready());
        let ready = tokio::time::timeout(REUSE_WAIT, ready).await;
        matches!(ready, Ok(Ok(()))) && self.is_usable().await
    }
}

/// Works while the connection moves its bytes.
async fn drive<T>(
    driver: &mut Pin<Box<Driver>>,
    open: &mut bool,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = driver.as_mut(), if *open => *open = false,
        }
    }
}

/// True if the body came whole and within its bound.
async fn listen(mut incoming: Incoming, body: &mut Vec<u8>) -> bool {
    loop {
        match incoming.frame().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                let room = BODY_MAX - body.len();
                body.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    return false;
                }
            }
        }
    }
}

//! The bytes of one connection, plain or TLS, with a count of what came in: whether a receiver has
//! said anything decides whether a request may be sent again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub enum Kind {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub struct Stream {
    kind: Kind,
    heard: Arc<AtomicU64>,
}

impl Stream {
    pub fn new(kind: Kind) -> (Stream, Arc<AtomicU64>) {
        let heard = Arc::new(AtomicU64::new(0));
        (Stream { kind, heard: heard.clone() }, heard)
    }
}

macro_rules! inner {
    ($self:ident, $io:ident => $call:expr) => {
        match &mut $self.get_mut().kind {
            Kind::Plain(io) => {
                let $io = Pin::new(io);
                $call
            }
            Kind::Tls(io) => {
                let $io = Pin::new(io.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let heard = self.heard.clone();
        let polled = inner!(self, io => io.poll_read(context, into));
        heard.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self, io => io.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, io => io.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        // The payload is shared with the store's copy; joining the parts would copy it.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, io => io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, io => io.poll_shutdown(context))
    }
}

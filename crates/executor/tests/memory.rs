//! What an attempt holds in memory when its receiver does its worst: a head as large as is taken, a
//! body as large as is kept, and then silence. A thousand of them at once, counted by the allocator;
//! then the same through TLS.
//!
//! The counts include what this test itself holds for each attempt: its task and the receiver's, and
//! through TLS the receiver's side of it. So they are above what an attempt costs.
//! The figures in docs/adr/0009-webhooks.md: `cargo test -p executor --test memory -- --nocapture`.
#![allow(clippy::expect_used, clippy::panic)]

mod hostile;

use executor::place::Place;
use executor::resolve::{Resolve, Resolving};
use executor::vet::Guard;
use executor::{Client, Until};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Uri};
use model::{Span, Time};
use peak_alloc::PeakAlloc;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MOST: usize = 128 * 1024;

#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, _name: &str) -> Resolving {
        Box::pin(async { Err("no names here".to_string()) })
    }
}

fn client() -> Arc<Client> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &hostile::tls::pki().authority).expect("written");
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let guard = Guard::new(own, Vec::new());
    Arc::new(Client::new(guard, Arc::new(NoNames), Some(&file), None).expect("a client"))
}

/// 15 KiB of head in many headers, a body just below the cap, and no end.
fn worst() -> &'static [u8] {
    let mut worst = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n".to_vec();
    for n in 0..30 {
        worst.extend(format!("X-Large-{n}: {}\r\n", "a".repeat(500)).into_bytes());
    }
    worst.extend(b"\r\n");
    worst.extend(vec![b'b'; 16 * 1024 - 1]);
    worst.leak()
}

async fn misbehave(mut stream: impl AsyncRead + AsyncWrite + Unpin, worst: &'static [u8]) {
    let mut few = [0; 64];
    let _ = stream.read(&mut few).await;
    let _ = stream.write_all(worst).await;
    let _ = stream.flush().await;
    // The rest of the request is never read.
    std::future::pending::<()>().await;
}

/// Bytes per attempt when so many are held at once.
async fn measure(attempts: usize, tls: bool) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (worst, client) = (worst(), client());
    let acceptor = TlsAcceptor::from(hostile::tls::pki().good.clone());
    let heard_of = Arc::new(AtomicUsize::new(0));
    let count = heard_of.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match tls {
                    false => misbehave(stream, worst).await,
                    true => {
                        let stream = acceptor.accept(stream).await.expect("a handshake");
                        misbehave(stream, worst).await;
                    }
                }
            });
        }
    });
    // The payload is shared: a larger one costs an attempt nothing.
    let payload = Bytes::from(vec![b'p'; 256 * 1024]);
    let scheme = if tls { "https" } else { "http" };
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let mut under_way = Vec::new();
    for n in 0..attempts {
        // The listener's backlog is no part of what is measured.
        while heard_of.load(Ordering::SeqCst) + 32 < n {
            tokio::task::yield_now().await;
        }
        let (client, payload) = (client.clone(), payload.clone());
        under_way.push(tokio::spawn(async move {
            let uri: Uri = format!("{scheme}://127.0.0.1:{port}/x").parse().expect("a URL");
            let place = Place::of(&uri).expect("a place");
            let request = || {
                let request = Request::post("/x").header("host", "x");
                request.body(Full::new(payload.clone())).map_err(|error| error.to_string())
            };
            let first = request().expect("a request");
            let until = Until::after(Span::from_secs(15));
            client.send(&place, first, request, until, Time::from_micros(0)).await
        }));
    }
    for attempt in under_way {
        // Each lasts until its time is over, so all were held at once.
        let heard = attempt.await.expect("no panic").expect("a status came");
        assert_eq!(heard.body.len(), 16 * 1024 - 1, "every attempt held its body");
    }
    assert_eq!(heard_of.load(Ordering::SeqCst), attempts);
    let each = (PeakAlloc.peak_usage() - before) / attempts;
    println!("{scheme}: {each} bytes per attempt at the peak of {attempts}");
    each
}

#[tokio::test]
async fn a_thousand_hostile_attempts_hold_at_most_128_kib_each() {
    let each = measure(1_000, false).await;
    assert!(each <= MOST, "{each} bytes per attempt");
    let each = measure(200, true).await;
    assert!(each <= MOST, "{each} bytes per attempt through TLS, both sides");
}

//! What an attempt holds in memory when its receiver does its worst: a head as large as is taken, a
//! body as large as is kept, and then silence. A thousand of them at once, counted by the allocator.
//!
//! The counts include what this test itself holds for each attempt (its task, the receiver's task).
//! The figure in docs/adr/0009-webhooks.md: `cargo test -p executor --test memory -- --nocapture`.
#![allow(clippy::expect_used, clippy::panic)]

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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const ATTEMPTS: usize = 1_000;
const MOST: usize = 128 * 1024;

#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, _name: &str) -> Resolving {
        Box::pin(async { Err("no names here".to_string()) })
    }
}

#[tokio::test]
async fn a_thousand_hostile_attempts_hold_at_most_128_kib_each() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // 31 KiB of head in many headers, a body just below the cap, and no end.
    let mut worst = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n".to_vec();
    for n in 0..60 {
        worst.extend(format!("X-Large-{n}: {}\r\n", "a".repeat(500)).into_bytes());
    }
    worst.extend(b"\r\n");
    worst.extend(vec![b'b'; 16 * 1024 - 1]);
    let worst: &'static [u8] = worst.leak();
    let (tell, mut told) = mpsc::channel(ATTEMPTS);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut few = [0; 64];
                let _ = stream.read(&mut few).await;
                let _ = stream.write_all(worst).await;
                let _ = tell.send(()).await;
                while stream.read(&mut few).await.is_ok_and(|n| n > 0) {}
            });
        }
    });
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let client = Client::new(Guard::new(own, Vec::new()), Arc::new(NoNames), None, None);
    let client = Arc::new(client.expect("a client"));
    // The payload is shared: a larger one costs an attempt nothing.
    let payload = Bytes::from(vec![b'p'; 256 * 1024]);
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let mut attempts = Vec::new();
    for _ in 0..ATTEMPTS {
        let (client, payload) = (client.clone(), payload.clone());
        attempts.push(tokio::spawn(async move {
            let uri: Uri = format!("http://127.0.0.1:{port}/x").parse().expect("a URL");
            let place = Place::of(&uri).expect("a place");
            let request = Request::post("/x").header("host", "x").body(Full::new(payload));
            let request = request.expect("a request");
            let until = Until::after(Span::from_secs(20));
            client.send(&place, request, until, Time::from_micros(0)).await
        }));
    }
    for _ in 0..ATTEMPTS {
        told.recv().await.expect("a receiver has said its worst");
    }
    let mut kept = 0;
    for attempt in attempts {
        let heard = attempt.await.expect("no panic").expect("a status came");
        kept += usize::from(heard.body.len() == 16 * 1024 - 1);
    }
    assert_eq!(kept, ATTEMPTS, "every attempt held its body");
    let each = (PeakAlloc.peak_usage() - before) / ATTEMPTS;
    println!("{each} bytes per attempt at the peak, {ATTEMPTS} attempts");
    assert!(each <= MOST, "{each} bytes per attempt");
}

//! Hostile clients against the accept loop with small bounds: each is bounded by itself, and a good
//! client is answered all the time. Nothing here measures time; bounds are waited for.

#![allow(clippy::expect_used, clippy::panic)] // A helper of a test may fail the test.

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use http_api::tls::Tls;
use http_api::{Bounds, Server, serve};
use node::Tasks;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    server: Server,
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
}

fn bounds() -> Bounds {
    Bounds {
        connections: 64,
        connections_of_peer: 64,
        handshake: Duration::from_millis(300),
        head: Duration::from_millis(300),
        read_stall: Duration::from_millis(300),
        close_grace: Duration::from_millis(500),
    }
}

fn start(bounds: Bounds, tls: Option<Tls>) -> Running {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let routes = Router::new()
        .route("/", get(|| async { "good" }))
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/large", get(|| async { "x".repeat(64 * 1024 * 1024) }))
        .route(
            "/events",
            get(|| async { ([("content-type", "text/event-stream")], endless().await) }),
        )
        .route("/endless", get(endless));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    let tasks = Tasks::new(runtime.handle().clone());
    let server = serve(&tasks, listener, routes, tls, bounds);
    Running { server, address, runtime }
}

/// An answer that begins and never ends, as a stream of events does.
async fn endless() -> axum::body::Body {
    struct Never(bool);
    impl hyper::body::Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            if std::mem::replace(&mut self.0, true) {
                return std::task::Poll::Pending;
            }
            let first = hyper::body::Frame::data(Bytes::from_static(b"data: 1\n\n"));
            std::task::Poll::Ready(Some(Ok(first)))
        }
    }
    axum::body::Body::new(Never(false))
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Reads until the other side ends it; a reset is an end too.
fn until_closed(stream: &mut TcpStream) -> String {
    let (mut all, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection is still open: {error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn is_good(to: SocketAddr) {
    let mut stream = connect(to);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let answer = until_closed(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("good"), "{answer:?}");
}

#[test]
fn silent_and_slow_heads_are_closed() {
    let running = start(bounds(), None);
    let mut silent = connect(running.address);
    let mut slow = connect(running.address);
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").expect("sent");
    is_good(running.address);
    until_closed(&mut silent);
    until_closed(&mut slow);
    is_good(running.address);
}

#[test]
fn an_endless_head_is_refused() {
    let running = start(bounds(), None);
    let mut stream = connect(running.address);
    stream.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
    let line = format!("X-Filler: {}\r\n", "y".repeat(1_000));
    // Ten times what is allowed; the server closes long before.
    for _ in 0..1_000 {
        if stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    let answer = until_closed(&mut stream);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    let mut many = connect(running.address);
    let lines: String = (0..150).map(|n| format!("X-{n}: y\r\n")).collect();
    let _ = many.write_all(format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n").as_bytes());
    let answer = until_closed(&mut many);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    is_good(running.address);
}

#[test]
fn the_idle_give_way_and_the_busy_stay() {
    let running = start(Bounds { head: PATIENCE * 10, ..bounds() }, None);
    let mut stream = connect(running.address);
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut first = [0; 512];
    let got = stream.read(&mut first).expect("the stream begins");
    assert!(got > 0);
    // Many times more than there is room for, all silent.
    let idle: Vec<TcpStream> = (0..500).map(|_| connect(running.address)).collect();
    for _ in 0..20 {
        is_good(running.address);
        assert!(running.server.open_connections() <= 64);
    }
    // The stream was never idle, so it was not cut.
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    let mut rest = [0; 512];
    let mut seen = String::from_utf8_lossy(&first[..got]).into_owned();
    loop {
        match stream.read(&mut rest) {
            Ok(0) => panic!("the stream was cut: {seen}"),
            Ok(n) => seen.push_str(&String::from_utf8_lossy(&rest[..n])),
            Err(_) => break,
        }
    }
    assert!(seen.contains("data: 1"), "{seen}");
    drop(idle);
}

#[test]
fn who_does_not_read_is_cut() {
    let running = start(bounds(), None);
    let mut stream = connect(running.address);
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut first = [0; 64];
    assert!(stream.read(&mut first).expect("the answer begins") > 0);
    // Reads no more until the server has given up, then finds less than the answer.
    let (mut waited, pause) = (Duration::ZERO, Duration::from_millis(10));
    while running.server.open_connections() > 0 {
        assert!(waited < PATIENCE, "the connection is still held");
        std::thread::sleep(pause);
        waited += pause;
    }
    let got = until_closed(&mut stream).len();
    assert!(got < 64 * 1024 * 1024, "{got}");
    is_good(running.address);
}

#[test]
fn a_half_closed_connection_holds_nothing() {
    let running = start(bounds(), None);
    let mut stream = connect(running.address);
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        .expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    until_closed(&mut stream);
    is_good(running.address);
}

#[test]
fn a_stop_ends_open_streams() {
    let running = start(bounds(), None);
    let mut stream = connect(running.address);
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut first = [0; 64];
    assert!(stream.read(&mut first).expect("the stream begins") > 0);
    // Events end as an answer ends; others are cut after the grace.
    let mut events = connect(running.address);
    events.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    assert!(events.read(&mut first).expect("the stream begins") > 0);
    running.runtime.block_on(running.server.stop());
    until_closed(&mut stream);
    let rest = until_closed(&mut events);
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
    assert!(TcpStream::connect(running.address).is_err(), "nobody listens any more");
}

#[test]
fn tls_serves_reloads_and_cuts_slow_handshakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let write = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).expect("made");
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        made.cert.pem()
    };
    assert!(Tls::open(&cert, &key).expect_err("no file").contains("cert.pem"));
    let first = write();
    std::fs::write(&key, "not a key").expect("written");
    assert!(Tls::open(&cert, &key).expect_err("no key").contains("holds no private key"));
    let other = rcgen::KeyPair::generate().expect("a key");
    std::fs::write(&key, other.serialize_pem()).expect("written");
    assert!(Tls::open(&cert, &key).expect_err("another key").contains("do not fit"));
    let first = if first.is_empty() { first } else { write() };

    let tls = Tls::open(&cert, &key).expect("a good pair");
    let running = start(bounds(), Some(tls.clone()));
    let mut silent = connect(running.address);
    assert!(secure(running.address, &first).expect("trusted").ends_with("good"));
    until_closed(&mut silent);
    let second = write();
    assert!(tls.has_changed());
    tls.reload().expect("read again");
    assert!(!tls.has_changed());
    assert!(secure(running.address, &first).is_err(), "the old certificate is gone");
    assert!(secure(running.address, &second).expect("trusted").ends_with("good"));
    // A pair that cannot be used leaves the one in use.
    std::fs::write(&key, "not a key").expect("written");
    assert!(tls.reload().is_err());
    assert!(secure(running.address, &second).expect("trusted").ends_with("good"));
}

fn secure(to: SocketAddr, trusted: &str) -> std::io::Result<String> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let cert = rustls::pki_types::CertificateDer::from_pem_slice(trusted.as_bytes()).expect("PEM");
    roots.add(cert).expect("a root");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut session =
        rustls::ClientConnection::new(std::sync::Arc::new(config), name).expect("a session");
    let mut stream = connect(to);
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    tls.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    match tls.read_to_string(&mut answer) {
        Ok(_) => Ok(answer),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(answer),
        Err(error) => Err(error),
    }
}

//! A receiver for every way of misbehaving: each behaviour has a port of its own, plain threads, and
//! knows how an attempt at it must end.
#![allow(dead_code)] // Each test file uses its part.
#![allow(clippy::expect_used, clippy::panic)] // A helper of a test may fail the test.

pub mod plain;
pub mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How an attempt must end.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Status(u16),
    /// The same, and its body never ends.
    Begun(u16),
    /// Tried again later; the error says this.
    Failed(&'static str),
    TimedOut,
    /// Whichever comes first.
    NoAnswer,
}

impl Wanted {
    /// How long an attempt may take. Whoever comes to an end gets the time for it, however busy the
    /// machine is; who begins to answer may need a moment; the others never end.
    pub fn timeout(self) -> Duration {
        match self {
            Wanted::TimedOut | Wanted::NoAnswer => Duration::from_millis(1_500),
            Wanted::Begun(_) => Duration::from_secs(10),
            Wanted::Status(_) | Wanted::Failed(_) => Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Copy)]
pub struct Behaviour {
    pub name: &'static str,
    pub tls: bool,
    pub wanted: Wanted,
    pub act: fn(TcpStream),
}

pub struct Receiver {
    pub behaviour: Behaviour,
    pub address: SocketAddr,
    /// Connections that came.
    pub came: Arc<AtomicUsize>,
}

impl Receiver {
    pub fn start(behaviour: Behaviour) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let came = Arc::new(AtomicUsize::new(0));
        let count = came.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                // No thread outlives its peer by much, whatever it does.
                let patience = Some(Duration::from_secs(30));
                let _ = stream.set_read_timeout(patience);
                let _ = stream.set_write_timeout(patience);
                std::thread::spawn(move || (behaviour.act)(stream));
            }
        });
        Receiver { behaviour, address, came }
    }

    pub fn url(&self) -> String {
        let scheme = if self.behaviour.tls { "https" } else { "http" };
        format!("{scheme}://{}/hook", self.address)
    }
}

pub fn all() -> Vec<Behaviour> {
    plain::BEHAVIOURS.iter().chain(tls::BEHAVIOURS).copied().collect()
}

/// Reads one request, head and body. None: the peer went away.
pub fn hear(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut one = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut one).ok()? == 0 {
            return None;
        }
        head.push(one[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

/// Says it and ends.
pub fn say(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// Holds the connection until the peer closes it.
pub fn hold(stream: &mut impl Read) {
    let mut rest = [0; 1_024];
    while stream.read(&mut rest).is_ok_and(|n| n > 0) {}
}

/// Says it again and again until the peer has had enough; `pause` between two.
pub fn forever(stream: &mut impl Write, text: &[u8], pause: Duration) {
    while stream.write_all(text).and_then(|()| stream.flush()).is_ok() {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

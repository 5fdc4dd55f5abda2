//! Passes bytes. `lose` cuts connections instead of passing an answer on; `cut` refuses everything.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub struct Proxy {
    pub url: String,
    rules: Arc<Rules>,
}

#[derive(Default)]
struct Rules {
    lost: Mutex<HashMap<String, u64>>,
    /// The connections of now; cancelled when they are cut.
    open: Mutex<CancellationToken>,
    is_cut: AtomicBool,
    over: CancellationToken,
}

impl Proxy {
    pub async fn start(upstream: &str) -> Proxy {
        let upstream = upstream.strip_prefix("http://").unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let rules = Arc::new(Rules::default());
        tokio::spawn(accept(listener, upstream, Arc::clone(&rules)));
        Proxy { url, rules }
    }

    pub fn lose(&self, path: &str, answers: u64) {
        self.rules.lost.lock().unwrap().insert(path.to_string(), answers);
    }

    pub fn cut(&self, on: bool) {
        self.rules.is_cut.store(on, Ordering::SeqCst);
        if on {
            std::mem::take(&mut *self.rules.open.lock().unwrap()).cancel();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut(true);
        self.rules.over.cancel();
    }
}

async fn accept(listener: TcpListener, upstream: String, rules: Arc<Rules>) {
    loop {
        let client = tokio::select! {
            () = rules.over.cancelled() => return,
            client = listener.accept() => client.unwrap().0,
        };
        let open = rules.open.lock().unwrap().clone();
        if rules.is_cut.load(Ordering::SeqCst) {
            continue;
        }
        let server = TcpStream::connect(&upstream).await.unwrap();
        tokio::spawn(pass(client, server, open, Arc::clone(&rules)));
    }
}

async fn pass(client: TcpStream, server: TcpStream, open: CancellationToken, rules: Arc<Rules>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let doomed = AtomicBool::new(false);
    tokio::select! {
        () = open.cancelled() => {}
        () = requests(from_client, to_server, &doomed, &rules) => {}
        () = answers(from_server, to_client, &doomed) => {}
    }
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    doomed: &AtomicBool,
    rules: &Rules,
) {
    let mut chunk = vec![0; 65_536];
    while let Ok(size @ 1..) = client.read(&mut chunk).await {
        let head = String::from_utf8_lossy(&chunk[..size.min(200)]).into_owned();
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default();
        if ["POST", "PUT", "GET"].contains(&method) && rules.is_lost(path) {
            doomed.store(true, Ordering::SeqCst);
        }
        if server.write_all(&chunk[..size]).await.is_err() {
            return;
        }
    }
}

async fn answers(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, doomed: &AtomicBool) {
    let mut chunk = vec![0; 65_536];
    while let Ok(size @ 1..) = server.read(&mut chunk).await {
        let lost = doomed.load(Ordering::SeqCst);
        if lost || client.write_all(&chunk[..size]).await.is_err() {
            return;
        }
    }
}

impl Rules {
    fn is_lost(&self, path: &str) -> bool {
        let mut lost = self.lost.lock().unwrap();
        let left = lost.entry(path.to_string()).or_default();
        let is_lost = *left > 0;
        *left = left.saturating_sub(1);
        is_lost
    }
}

//! The accept loop: connections have room or give way (`room`), handshakes and heads must come in
//! time, a peer that does not read is cut (`patience`), and a stop lets open requests finish.

use crate::ending::{Ending, is_endless};
use crate::limits::{
    CLOSE_GRACE, CONNECTIONS_MAX, HANDSHAKE_TIMEOUT, HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX,
    PEER_CONNECTIONS_MAX, READ_STALL_MAX,
};
use crate::patience::Patient;
use crate::room::{Room, Seat};
use crate::tls::Tls;
use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use node::Tasks;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// Pause after a failed accept: out of descriptors is not cured by trying faster.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What a connection may take. The product uses the limits; tests use smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub connections: usize,
    pub connections_of_peer: usize,
    pub handshake: Duration,
    pub head: Duration,
    pub read_stall: Duration,
    pub close_grace: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: CONNECTIONS_MAX,
            connections_of_peer: PEER_CONNECTIONS_MAX,
            handshake: HANDSHAKE_TIMEOUT,
            head: HEAD_TIMEOUT,
            read_stall: READ_STALL_MAX,
            close_grace: CLOSE_GRACE,
        }
    }
}

#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
    room: Arc<Room>,
}

pub fn serve(
    tasks: &Tasks,
    listener: TcpListener,
    routes: Router,
    tls: Option<Tls>,
    bounds: Bounds,
) -> Server {
    let (stop, stopped) = watch::channel(false);
    let (end, ended) = oneshot::channel();
    let room = Room::new(bounds.connections, bounds.connections_of_peer);
    let server = Server { stop, ended, room: room.clone() };
    let line = Line { routes, tls, bounds };
    let starter = tasks.clone();
    tasks.start(async move {
        accept(starter, listener, line, room, stopped).await;
        let _ = end.send(());
    });
    server
}

impl Server {
    /// Accepts nothing more and waits for open requests, within the grace.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.ended.await;
    }

    pub fn open_connections(&self) -> usize {
        self.room.open()
    }

    pub fn room(&self) -> Arc<Room> {
        self.room.clone()
    }
}

/// What each connection is served with.
#[derive(Clone)]
struct Line {
    routes: Router,
    tls: Option<Tls>,
    bounds: Bounds,
}

async fn accept(
    tasks: Tasks,
    listener: TcpListener,
    line: Line,
    room: Arc<Room>,
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told_to_stop(&mut stopped) => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // Without room the connection is closed at once: whoever waits for us learns it soonest.
        let Some(seat) = room.enter(peer.ip().to_canonical()) else { continue };
        let (line, watcher) = (line.clone(), graceful.watcher());
        let mut stopped = stopped.clone();
        let grace = line.bounds.close_grace;
        tasks.start(async move {
            let seat = Arc::new(seat);
            tokio::select! {
                () = connection(stream, peer, line, seat.clone(), watcher, stopped.clone()) => {}
                () = seat.evicted() => {}
                // Streams that do not end by themselves are cut.
                () = async { told_to_stop(&mut stopped).await; tokio::time::sleep(grace).await } => {}
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(line.bounds.close_grace, graceful.shutdown()).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    line: Line,
    seat: Arc<Seat>,
    watcher: Watcher,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, line.bounds.read_stall);
    match &line.tls {
        None => talk(stream, peer, &line, seat, watcher, stopped).await,
        Some(tls) => {
            let handshake = tls.acceptor().accept(stream);
            if let Ok(Ok(stream)) = tokio::time::timeout(line.bounds.handshake, handshake).await {
                talk(stream, peer, &line, seat, watcher, stopped).await;
            }
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    line: &Line,
    seat: Arc<Seat>,
    watcher: Watcher,
    stopped: watch::Receiver<bool>,
) {
    let routes = line.routes.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = seat.busy();
        request.extensions_mut().insert(Peer(peer));
        let answer = TowerToHyperService::new(routes.clone());
        let mut stopped = stopped.clone();
        async move {
            let response: Response<Body> = hyper::service::Service::call(&answer, request).await?;
            let endless = is_endless(response.headers());
            let response = response.map(|body| match endless {
                true => {
                    Body::new(Ending::new(body, async move { told_to_stop(&mut stopped).await }))
                }
                false => body,
            });
            // A stream keeps its connection busy until its end.
            Ok::<_, Infallible>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _ = &busy;
                    frame
                })
            }))
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(line.bounds.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    // A broken connection is its client's affair.
    let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

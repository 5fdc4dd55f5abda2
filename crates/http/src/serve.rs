//! The accept loop: connections are counted, heads must come in time, and a stop lets open requests
//! finish.

use crate::limits::{CLOSE_GRACE, CONNECTIONS_MAX, HEAD_TIMEOUT};
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use node::Tasks;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};

/// Pause after a failed accept: out of descriptors is not cured by trying faster.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

pub fn serve(tasks: &Tasks, listener: TcpListener, routes: Router) -> Server {
    let (stop, stopped) = watch::channel(false);
    let (end, ended) = oneshot::channel();
    let starter = tasks.clone();
    tasks.start(async move {
        accept(starter, listener, routes, stopped).await;
        let _ = end.send(());
    });
    Server { stop, ended }
}

impl Server {
    /// Accepts nothing more and waits for open requests, within the grace.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.ended.await;
    }
}

async fn accept(
    tasks: Tasks,
    listener: TcpListener,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told_to_stop(&mut stopped) => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let service = TowerToHyperService::new(routes.clone());
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        tasks.start(async move {
            // A broken connection is its client's affair.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(CLOSE_GRACE, graceful.shutdown()).await;
}

async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

//! What comes from other nodes: a door of its own, which only nodes pass, and the letters behind it.

use crate::codec::{self, Read};
use crate::limits::BODY_BYTES_MAX;
use crate::secret::{Said, node_of};
use crate::send::Peers;
use crate::wire::{AT, CODE, FROM, TO};
use crate::{LETTERS, REFUSED};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::{HeaderMap, StatusCode};
use model::NodeId;
use node::{Letter, Post};
use std::sync::Arc;

/// The node that sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Sender(pub NodeId);

/// The letters, and whatever else nodes ask each other, behind one door.
pub fn routes(peers: &Arc<Peers>, others: Router) -> Router {
    Router::new()
        .route(LETTERS, post(letters))
        .with_state(peers.clone())
        .merge(others)
        .layer(axum::middleware::from_fn_with_state(peers.clone(), guard))
}

/// Nothing was heard, and the sender may rely on it.
fn refused(why: &'static str) -> Response {
    let status = StatusCode::from_u16(REFUSED).unwrap_or(StatusCode::MISDIRECTED_REQUEST);
    (status, why).into_response()
}

async fn guard(State(peers): State<Arc<Peers>>, request: Request, next: Next) -> Response {
    let Some(node) = peers.node() else { return refused("this node is starting") };
    let (head, body) = request.into_parts();
    let named = |name: &str| text_of(&head.headers, name).and_then(node_of);
    let (Some(from), Some(to)) = (named(FROM), named(TO)) else {
        return refused("this door is for nodes of the cluster");
    };
    // A former life had this address.
    if to != node.node() {
        return refused("this is another node");
    }
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return refused("the request is too large or broke off");
    };
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let address = text_of(&head.headers, AT).unwrap_or_default();
    let said = Said { method: head.method.as_str(), path, from, to, address, body: &body };
    let code = text_of(&head.headers, CODE).unwrap_or_default();
    if !peers.secret().proves(said, code) {
        return refused("the cluster's secret is another one");
    }
    peers.meet(from, address);
    let mut request = Request::from_parts(head, Body::from(body));
    request.extensions_mut().insert(Sender(from));
    next.run(request).await
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn letters(
    State(peers): State<Arc<Peers>>,
    Extension(Sender(from)): Extension<Sender>,
    body: Bytes,
) -> Response {
    let Some(node) = peers.node() else { return refused("this node is starting") };
    let Some(read) = codec::read(&body) else {
        return refused("the letters are of a version that is not known here");
    };
    let mut heard = Vec::with_capacity(read.len());
    let mut refuse = Vec::new();
    for one in read {
        match one {
            Read::Letter(letter) => heard.push(letter),
            Read::Refuse(letter) => refuse.push(letter),
        }
    }
    if !node.letters(from, heard) {
        return refused("too much is waiting");
    }
    answer(&peers, from, refuse);
    StatusCode::OK.into_response()
}

fn answer(peers: &Peers, to: NodeId, letters: Vec<Letter>) {
    for letter in letters {
        // If there is no room its caller hears that nobody knows.
        let _ = peers.send(to, None, letter);
    }
}

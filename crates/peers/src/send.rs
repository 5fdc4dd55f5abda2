//! Letters to other nodes: a few lanes per node, each a connection, a bounded queue before it and one
//! request at a time. What waits while a request is under way goes together in the next one.
//!
//! - Nothing was written (nobody there, the queue is full, the node refused): the letters **bounce**,
//!   they were definitely not heard, and the core may send its commands elsewhere.
//! - It broke off later: commands are left to their deadlines, because they may have been heard; the
//!   other letters may be said twice without harm, and are, once.

use crate::codec::Batch;
use crate::limits::{
    ANSWER_TIMEOUT, BATCH_BYTES, BATCH_LETTERS, LANES, MET_KEPT, PEER_QUEUE_MAX, PEERS_MAX,
    QUESTION_BYTES_MAX, TROUBLE_EVERY,
};
use crate::secret::Secret;
use crate::wire::{Failed, Kept, Line, body_of};
use crate::{LETTERS, REFUSED};
use model::{NodeId, Text, Time};
use node::clock::BootClock;
use node::{Letter, NodeHandle, Post, Tasks};
use shard::Message;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc;

/// All other nodes, as letters are sent to them.
#[derive(Debug)]
pub struct Peers {
    secret: Secret,
    tasks: Tasks,
    /// Where other nodes reach us.
    own: Text,
    node: OnceLock<NodeHandle>,
    peers: Mutex<BTreeMap<NodeId, Lanes>>,
}

/// The ways to one node.
#[derive(Debug)]
struct Lanes {
    lanes: Vec<mpsc::Sender<Letter>>,
    /// When the node was last known to be there (local time).
    met: Time,
}

impl Peers {
    pub fn new(secret: Secret, own: &str, tasks: Tasks) -> Peers {
        let own = Text::from(own);
        Peers { secret, tasks, own, node: OnceLock::new(), peers: Mutex::default() }
    }

    /// Whose letters these are. Before this nothing is sent.
    pub fn join(&self, node: NodeHandle) {
        let _ = self.node.set(node);
    }

    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    pub fn node(&self) -> Option<&NodeHandle> {
        self.node.get()
    }

    pub(crate) fn line(&self, to: NodeId, address: &str) -> Option<Line> {
        Some(Line {
            secret: self.secret.clone(),
            from: self.node.get()?.node(),
            to,
            address: address.to_string(),
            own: self.own.clone(),
            tasks: self.tasks.clone(),
        })
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<NodeId, Lanes>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node wrote to us and says where it is: it may be so new that its lease row was not seen yet,
    /// and it waits for answers.
    pub(crate) fn meet(&self, node: NodeId, address: &str) {
        let mut peers = self.peers();
        if let Some(known) = peers.get_mut(&node) {
            known.met = BootClock.local();
        } else if peers.len() < PEERS_MAX
            && let Some(lanes) = self.begin(node, address)
        {
            peers.insert(node, lanes);
        }
    }

    fn begin(&self, to: NodeId, address: &str) -> Option<Lanes> {
        let node = self.node.get()?;
        let line = self.line(to, address)?;
        let lanes = (0..LANES).map(|_| {
            let (send, letters) = mpsc::channel(PEER_QUEUE_MAX);
            let lane = Lane {
                line: line.clone(),
                node: node.clone(),
                kept: Kept::default(),
                complained: None,
            };
            self.tasks.start(lane.run(letters));
            send
        });
        Some(Lanes { lanes: lanes.collect(), met: BootClock.local() })
    }
}

impl Post for Peers {
    fn send(&self, to: NodeId, address: Option<&Text>, letter: Letter) -> Option<Letter> {
        let mut peers = self.peers();
        if !peers.contains_key(&to)
            && peers.len() < PEERS_MAX
            && let Some(lanes) = address.and_then(|address| self.begin(to, address))
        {
            peers.insert(to, lanes);
        }
        let lanes = peers.get(&to).map(|known| known.lanes.as_slice()).unwrap_or_default();
        match lanes.get(lane_of(&letter)) {
            Some(lane) => lane.try_send(letter).err().map(|refused| match refused {
                mpsc::error::TrySendError::Full(letter)
                | mpsc::error::TrySendError::Closed(letter) => letter,
            }),
            None => Some(letter),
        }
    }

    fn keep(&self, alive: &[NodeId]) {
        // A lane whose sender is gone sends what it has and ends.
        let now = BootClock.local();
        let fresh = |known: &Lanes| now.since(known.met).micros() < MET_KEPT.as_micros() as i64;
        self.peers().retain(|node, known| alive.contains(node) || fresh(known));
    }
}

/// Letters about one command keep their order.
fn lane_of(letter: &Letter) -> usize {
    match letter {
        Letter::Core(
            Message::Forward { id, .. } | Message::Answer { id, .. } | Message::Gone { id },
        ) => (id.0 % LANES as u64) as usize,
        _ => 0,
    }
}

/// Saying it twice does no harm.
fn is_repeatable(letter: &Letter) -> bool {
    !matches!(letter, Letter::Core(Message::Forward { .. }))
}

struct Lane {
    line: Line,
    node: NodeHandle,
    kept: Kept,
    complained: Option<Time>,
}

impl Lane {
    async fn run(mut self, mut letters: mpsc::Receiver<Letter>) {
        let mut waiting: VecDeque<Letter> = VecDeque::new();
        let mut heard = Vec::with_capacity(BATCH_LETTERS);
        loop {
            if waiting.is_empty() {
                if letters.recv_many(&mut heard, BATCH_LETTERS).await == 0 {
                    return;
                }
                waiting.extend(heard.drain(..));
            }
            self.next(&mut waiting).await;
        }
    }

    /// Sends the first of what waits, as much as one request takes.
    async fn next(&mut self, waiting: &mut VecDeque<Letter>) {
        let mut batch = Batch::default();
        let mut sent = Vec::new();
        while batch.size() < BATCH_BYTES
            && let Some(letter) = waiting.pop_front()
        {
            match batch.add(&letter) {
                Ok(()) => sent.push(letter),
                // A value without a place in this version: it cannot be said.
                Err(_) => self.node.bounced(self.line.to, vec![letter]),
            }
        }
        if sent.is_empty() {
            return;
        }
        let body = hyper::body::Bytes::from(batch.into_bytes());
        match self.post(body.clone()).await {
            Ok(()) => {}
            Err(Failed::NotHeard(why)) => {
                self.complain(&why);
                self.node.bounced(self.line.to, sent);
            }
            Err(Failed::Unknown(why)) => {
                self.complain(&why);
                let mut again = Batch::default();
                sent.retain(is_repeatable);
                sent.iter().for_each(|letter| drop(again.add(letter)));
                let body = hyper::body::Bytes::from(again.into_bytes());
                if !sent.is_empty() && self.post(body).await.is_err() {
                    self.node.bounced(self.line.to, sent);
                }
            }
        }
    }

    async fn post(&mut self, body: hyper::body::Bytes) -> Result<(), Failed> {
        let response = self.line.send(&mut self.kept, "POST", LETTERS, body).await?;
        let status = response.status();
        let text = body_of(response, QUESTION_BYTES_MAX, ANSWER_TIMEOUT).await?;
        match status.as_u16() {
            200 => Ok(()),
            // It says so itself: it heard none of them.
            REFUSED => Err(Failed::NotHeard(String::from_utf8_lossy(&text).into_owned())),
            other => Err(Failed::Unknown(format!("answered {other}"))),
        }
    }

    /// In the log, not for every request.
    fn complain(&mut self, why: &str) {
        let now = BootClock.local();
        let pause = TROUBLE_EVERY.as_micros() as i64;
        if self.complained.is_none_or(|at| now.since(at).micros() >= pause) {
            self.complained = Some(now);
            let node = crate::secret::node_text(self.line.to);
            tracing::warn!(node, why, "letters to another node did not arrive");
        }
    }
}

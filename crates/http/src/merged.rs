//! One stream of what happens at all nodes. Each node counts its own events, so a cursor names every
//! node with its number: `life-number.life-number`. A listener goes on with it at any node.
//!
//! - Events of one node come in its order; those of two nodes as they arrive.
//! - A node that leaves ends its stream when all was told. One that dies may have had more to tell:
//!   then there is a `gap`, as there is when a cursor names a node that is gone.
//! - A node that comes is listened to from its first event on.
//!
//! Between nodes the same text is spoken as to listeners; only the ids are put together here.

use crate::Api;
use crate::cluster::events_path;
use crate::events::{Counted, Filter, Stream};
use crate::limits::{STREAM_JOIN, STREAM_LOOK, STREAM_QUIET, STREAM_RETRY_MS};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use model::{NodeId, Text};
use node::clock::BootClock;
use node::events::cursor_of;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

pub struct Merged {
    api: Arc<Api>,
    filter: Filter,
    /// How far each node's events were told, by its life.
    told: BTreeMap<u64, u64>,
    sources: BTreeMap<u64, Waiting>,
    /// Lives that are over and were told to their end.
    ended: BTreeSet<u64>,
    gap: bool,
    begun: bool,
    over: bool,
    _counted: Counted,
}

type Waiting = Pin<Box<dyn Future<Output = (Source, Got)> + Send>>;

enum Source {
    Here(Box<Stream>),
    There(Remote),
}

enum Got {
    Text(String),
    /// All was told.
    Ended,
    /// It broke off.
    Broken,
}

struct Remote {
    api: Arc<Api>,
    node: NodeId,
    address: Text,
    path: String,
    body: Option<Incoming>,
    /// What was read and is not a whole event yet.
    rest: Vec<u8>,
}

impl Merged {
    pub fn new(api: Arc<Api>, filter: Filter, given: Option<&str>, counted: Counted) -> Merged {
        let mut merged = Merged {
            api,
            filter,
            told: BTreeMap::new(),
            sources: BTreeMap::new(),
            ended: BTreeSet::new(),
            gap: false,
            begun: false,
            over: false,
            _counted: counted,
        };
        let cursors: Option<BTreeMap<u64, u64>> = given
            .map(|text| text.split('.').map(cursor_of).collect::<Option<_>>().unwrap_or_default());
        let view = merged.api.node.view();
        let mut alive: BTreeSet<u64> = view.peers().map(|lease| lease.node.boot).collect();
        alive.insert(merged.api.node.events().boot());
        if let Some(cursors) = &cursors {
            // A node that is gone may have had more to tell.
            merged.gap = cursors.is_empty() || cursors.keys().any(|boot| !alive.contains(boot));
        }
        for boot in alive {
            let after = match (&cursors, merged.gap) {
                // Nodes that the cursor does not know came after it was made.
                (Some(cursors), false) => Some(cursors.get(&boot).copied().unwrap_or(0)),
                _ => None,
            };
            merged.listen(boot, after);
        }
        merged
    }

    /// Begins to listen to a life of a node.
    fn listen(&mut self, boot: u64, after: Option<u64>) {
        if let Some(after) = after {
            self.told.insert(boot, after);
        }
        let source = if boot == self.api.node.events().boot() {
            let (api, filter) = (self.api.clone(), self.filter.clone());
            Source::Here(Box::new(Stream::new(api, filter, after, false)))
        } else {
            let view = self.api.node.view();
            let Some(lease) = view.peers().find(|lease| lease.node.boot == boot) else { return };
            Source::There(Remote {
                api: self.api.clone(),
                node: lease.node,
                address: lease.address.clone().unwrap_or_else(|| Text::from("")),
                path: events_path(&self.filter, after),
                body: None,
                rest: Vec::new(),
            })
        };
        self.sources.insert(boot, Box::pin(source.next()));
    }

    /// The next piece of the stream.
    pub async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        let mut text = String::new();
        if !self.begun {
            self.begin(&mut text).await;
            return Some(text);
        }
        let began = BootClock.local();
        while text.is_empty() {
            self.follow(&mut text);
            if self.over || !text.is_empty() {
                break;
            }
            tokio::select! {
                (boot, source, got) = first(&mut self.sources) => {
                    self.take(boot, source, got, &mut text);
                }
                () = tokio::time::sleep(STREAM_LOOK) => {
                    let quiet = BootClock.local().since(began).micros();
                    if quiet >= STREAM_QUIET.as_micros() as i64 {
                        text.push_str(": quiet\n\n");
                    }
                }
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// A cursor at once, so that a listener that saw nothing yet can still go on from here: each node
    /// says where it stands. One that does not is listened to from where it is reached.
    async fn begin(&mut self, text: &mut String) {
        let mut events = String::new();
        let enough = tokio::time::sleep(STREAM_JOIN);
        tokio::pin!(enough);
        let mut silent: BTreeSet<u64> = self.sources.keys().copied().collect();
        while !silent.is_empty() && !self.over {
            tokio::select! {
                (boot, source, got) = first(&mut self.sources) => {
                    self.take(boot, source, got, &mut events);
                    silent.remove(&boot);
                }
                () = &mut enough => break,
            }
        }
        self.begun = true;
        text.push_str(&format!("retry: {STREAM_RETRY_MS}\n"));
        match self.gap {
            true => {
                text.push_str(&self.gap_event("events were lost here; read again what matters"))
            }
            false => text.push_str(&format!("id: {}\n: listening\n\n", self.cursor())),
        }
        text.push_str(&events);
    }

    /// Nodes that came, and nodes that went without a word.
    fn follow(&mut self, text: &mut String) {
        let view = self.api.node.view();
        let alive: BTreeSet<u64> = view.peers().map(|lease| lease.node.boot).collect();
        let here = self.api.node.events().boot();
        for boot in &alive {
            if !self.sources.contains_key(boot) && !self.ended.contains(boot) {
                let after = self.told.get(boot).copied().unwrap_or(0);
                self.listen(*boot, Some(after));
            }
        }
        let gone = |boot: &u64| *boot != here && !alive.contains(boot);
        let dead: Vec<u64> = self.told.keys().copied().filter(gone).collect();
        for boot in dead {
            self.sources.remove(&boot);
            self.told.remove(&boot);
            text.push_str(&self.gap_event("a node is gone; read again what matters"));
        }
        self.ended.retain(|boot| alive.contains(boot));
    }

    fn take(&mut self, boot: u64, source: Source, got: Got, text: &mut String) {
        match got {
            Got::Text(piece) => {
                self.rewrite(boot, &piece, text);
                if !self.over {
                    self.sources.insert(boot, Box::pin(source.next()));
                }
            }
            Got::Ended if matches!(source, Source::Here(_)) => self.over = true,
            Got::Ended => {
                self.told.remove(&boot);
                self.ended.insert(boot);
            }
            // Listened to again from where it was, if it is still there.
            Got::Broken => {}
        }
    }

    /// The same events with ids that name all nodes.
    fn rewrite(&mut self, boot: u64, piece: &str, text: &mut String) {
        for block in piece.split("\n\n").filter(|block| !block.is_empty()) {
            let id = block.lines().find_map(|line| line.strip_prefix("id: "));
            if let Some((_, seq)) = id.and_then(cursor_of) {
                self.told.insert(boot, seq);
            }
            let lines: Vec<&str> = block.lines().collect();
            let event = lines.iter().find_map(|line| line.strip_prefix("event: "));
            let data = lines.iter().find_map(|line| line.strip_prefix("data: "));
            let (Some(event), Some(data)) = (event, data) else { continue };
            let id = self.cursor();
            text.push_str(&format!("id: {id}\nevent: {event}\ndata: {data}\n\n"));
            // That node's ring has run over: the listener comes again, as it does alone.
            self.over |= event == "gap" && data.contains("lost here");
        }
    }

    fn cursor(&self) -> String {
        let each = self.told.iter().map(|(boot, seq)| format!("{boot:016x}-{seq}"));
        each.collect::<Vec<_>>().join(".")
    }

    fn gap_event(&self, detail: &str) -> String {
        let data = json!({"type": "gap", "detail": detail});
        format!("id: {}\nevent: gap\ndata: {data}\n\n", self.cursor())
    }
}

/// The first source that has something. It is taken out of the others.
async fn first(sources: &mut BTreeMap<u64, Waiting>) -> (u64, Source, Got) {
    let (boot, (source, got)) = poll_fn(|context| {
        for (boot, waiting) in sources.iter_mut() {
            if let Poll::Ready(answer) = waiting.as_mut().poll(context) {
                return Poll::Ready((*boot, answer));
            }
        }
        Poll::Pending
    })
    .await;
    sources.remove(&boot);
    (boot, source, got)
}

impl Source {
    async fn next(self) -> (Source, Got) {
        match self {
            Source::Here(mut stream) => {
                let got = stream.next().await.map_or(Got::Ended, Got::Text);
                (Source::Here(stream), got)
            }
            Source::There(mut remote) => {
                let got = remote.next().await;
                (Source::There(remote), got)
            }
        }
    }
}

impl Remote {
    async fn next(&mut self) -> Got {
        let Some(peers) = self.api.peers().cloned() else { return Got::Ended };
        loop {
            let Some(body) = &mut self.body else {
                let (node, address) = (self.node, self.address.clone());
                let asked = peers.stream(node, &address, "GET", &self.path, Bytes::new()).await;
                match asked {
                    Ok(response) if response.status().is_success() => {
                        self.body = Some(response.into_body());
                    }
                    _ => {
                        tokio::time::sleep(STREAM_LOOK).await;
                        return Got::Broken;
                    }
                }
                continue;
            };
            match body.frame().await {
                None => return Got::Ended,
                Some(Err(_)) => return Got::Broken,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                    if let Some(text) = self.whole() {
                        return Got::Text(text);
                    }
                }
            }
        }
    }

    /// The events that were read to their end.
    fn whole(&mut self) -> Option<String> {
        let end = self.rest.windows(2).rposition(|two| two == b"\n\n")? + 2;
        let rest = self.rest.split_off(end);
        let whole = std::mem::replace(&mut self.rest, rest);
        Some(String::from_utf8_lossy(&whole).into_owned())
    }
}

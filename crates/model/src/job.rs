//! What a user registered. A **spec** never changes: a new version is a new spec, and a run keeps
//! the version that was in force at its nominal instant.

use crate::id::{KeyId, Namespace};
use crate::schedule::ScheduleSpec;
use crate::time::{Span, Time};
use std::sync::Arc;

/// Short text that many rows share.
pub type Text = Arc<str>;
/// Opaque bytes: never parsed, never copied.
pub type Bytes = Arc<[u8]>;

/// How long after it is due a run may start, and be done; after that it ends as expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    pub start: Option<Span>,
    pub finish: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub namespace: Namespace,
    pub name: Option<Text>,
    pub owner: Option<Text>,
    pub tags: Vec<(Text, Text)>,
    pub schedule: ScheduleSpec,
    pub target: Target,
    pub payload: Bytes,
    pub content_type: Text,
    pub queue: Text,
    pub group: Option<Text>,
    /// 0 to 9, 9 first.
    pub priority: u8,
    pub policy: Policy,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// Answers of a webhook that are not retried; none = the list of the public contract.
    pub permanent: Option<Arc<[u16]>>,
    /// How long after its time a run of it may start, and be done.
    pub within: Within,
    /// The X-Request-Id of the request that made this version: sent with every attempt.
    pub request_id: Option<Text>,
    /// The API key that the job was made with, if that key has a quota of what there is: only then
    /// somebody counts.
    pub api_key: Option<KeyId>,
    pub origin: Origin,
}

/// Where a version of a recurring job comes from. Nothing that is decided depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// When it came into force. None of a first version, whose job knows when it was made, and of one
    /// that was written before this was.
    pub since: Option<Time>,
    pub by: Author,
}

/// Who asked for a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Author {
    /// It was not written down: jobs that run once, and versions made before this was.
    #[default]
    NotKnown,
    NoKey,
    /// An API key, by its id, and its name at that time.
    Key {
        id: Text,
        name: Option<Text>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    Http {
        url: Text,
        method: Text,
        headers: Vec<(Text, Text)>,
    },
    Worker {
        kind: Text,
    },
    /// A program of this machine, without a shell.
    Command {
        argv: Vec<Text>,
        env: Vec<(Text, Text)>,
    },
    /// A message to a broker.
    Publish(Broker),
}

/// Where a message goes. The URL may hold a password: it is not shown to readers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broker {
    /// An entry of a stream, which keeps about `max_len` of them.
    Redis { url: Text, stream: Text, max_len: Option<u64> },
    /// A persistent message; an empty exchange is the default one, which routes to the queue of that
    /// name.
    RabbitMq { url: Text, exchange: Text, routing_key: Text },
}

impl Target {
    /// The kinds that executors inside a node offer.
    pub const BUILT_IN: [&str; 3] = ["http", "command", "publish"];

    /// What a claimer must offer to get runs of this target. A worker's kinds
    /// stand behind `worker:` so that no user's kind can be mistaken for one of those.
    pub fn kind(&self) -> Text {
        match self {
            Target::Http { .. } => Text::from("http"),
            Target::Worker { kind } => Text::from(format!("worker:{kind}")),
            Target::Command { .. } => Text::from("command"),
            Target::Publish(_) => Text::from("publish"),
        }
    }
}

/// How an attempt is bounded and what follows a bad one. Shared by most jobs, so it is interned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Policy {
    pub max_retries: u16,
    pub initial: Span,
    pub factor: u16,
    pub cap: Span,
    /// Attempts whose holder vanished; bounded apart, so that a crash of ours spends no retry and
    /// a job that kills its workers is still stopped.
    pub max_lost: u16,
    /// One attempt may take so long.
    pub timeout: Span,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            max_retries: 5,
            initial: Span::from_secs(10),
            factor: 4,
            cap: Span::from_secs(3_600),
            max_lost: 5,
            timeout: Span::from_secs(30),
        }
    }
}

/// What happens when an occurrence falls due while a fresh run of the same job is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// One waits until the running one ends; further ones are skipped.
    #[default]
    QueueOne,
    Skip,
    Allow,
    CancelRunning,
}

/// What happens to occurrences that were missed (down, stalled): those later than a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// One run stands for all that were missed.
    #[default]
    Once,
    Skip,
    /// Each one, in the backfill lane: not older than `window`, at most `max`, at `per_second`.
    All {
        window: Span,
        max: u32,
        per_second: u32,
    },
}

impl CatchUp {
    pub const ALL: CatchUp =
        CatchUp::All { window: Span::from_secs(86_400), max: 100, per_second: 10 };
}

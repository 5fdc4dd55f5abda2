//! Values that commands and answers share.

use super::bytes::{Fields, Reader, Writer};
use model::row::{Holder, Made, Scope};
use model::{Bytes, JobId, Namespace, NodeId, RunId, Span, Spec, Text, Time};
use shard::command::{KeyOf, Refused};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use store::codec::{NotKnown, encode, ids};

pub fn text(bytes: &[u8]) -> Option<Text> {
    std::str::from_utf8(bytes).ok().map(Text::from)
}

pub fn opaque(bytes: &[u8]) -> Option<Bytes> {
    Some(Bytes::from(bytes))
}

pub fn time(bytes: &[u8]) -> Option<Time> {
    Reader(bytes).signed().map(Time::from_micros)
}

pub fn span(bytes: &[u8]) -> Option<Span> {
    Reader(bytes).signed().map(Span::from_micros)
}

pub fn run(bytes: &[u8]) -> Option<RunId> {
    ids::run_id(bytes)
}

pub fn job(bytes: &[u8]) -> Option<JobId> {
    ids::job_id(bytes)
}

pub fn narrow<T: TryFrom<u64>>(bytes: &[u8]) -> Option<T> {
    T::try_from(Reader(bytes).number()?).ok()
}

pub fn write_time(out: &mut Writer, tag: u8, time: Option<Time>) {
    if let Some(time) = time {
        out.signed_field(tag, time.micros());
    }
}

pub fn write_opaque(out: &mut Writer, tag: u8, bytes: Option<&Bytes>) {
    if let Some(bytes) = bytes {
        out.bytes(tag, bytes);
    }
}

/// The spec's body and, behind it, its payload.
pub fn write_spec(out: &mut Writer, body: u8, payload: u8, spec: &Spec) -> Result<(), NotKnown> {
    out.bytes(body, &encode::encode(spec)?);
    out.bytes(payload, &spec.payload);
    Ok(())
}

pub fn spec(fields: &Fields<'_>, body: u8, payload: u8) -> Option<Arc<Spec>> {
    encode::decode(fields.one(body)?, Bytes::from(fields.one(payload)?)).map(Arc::new)
}

pub fn write_key(out: &mut Writer, key: u8, body: u8, of: Option<&KeyOf>) {
    if let Some(of) = of {
        out.text(key, &of.key);
        out.number_field(body, of.body);
    }
}

pub fn key(fields: &Fields<'_>, key: u8, body: u8) -> Option<Option<KeyOf>> {
    match fields.one(key) {
        None => Some(None),
        Some(bytes) => Some(Some(KeyOf { key: text(bytes)?, body: fields.number(body)? })),
    }
}

pub fn write_node(out: &mut Writer, node: NodeId) {
    out.number(node.node.into());
    out.number(node.boot);
}

pub fn node(reader: &mut Reader<'_>) -> Option<NodeId> {
    let node = u32::try_from(reader.number()?).ok()?;
    Some(NodeId { node, boot: reader.number()? })
}

pub fn write_holder(out: &mut Writer, holder: &Holder) {
    match holder {
        Holder::Node(node) => {
            out.number(0);
            write_node(out, *node);
        }
        Holder::Worker(name) => {
            out.number(1);
            out.raw(name.as_bytes());
        }
    }
}

pub fn holder(bytes: &[u8]) -> Option<Holder> {
    let mut reader = Reader(bytes);
    match reader.number()? {
        0 => node(&mut reader).map(Holder::Node),
        1 => text(reader.0).map(Holder::Worker),
        _ => None,
    }
}

pub fn write_scope(out: &mut Writer, scope: &Scope) {
    match scope {
        Scope::All => out.number(0),
        Scope::Namespace(namespace) => {
            out.number(1);
            out.number(namespace.0.into());
        }
        Scope::Queue(namespace, queue) => {
            out.number(2);
            out.number(namespace.0.into());
            out.raw(queue.as_bytes());
        }
    }
}

pub fn scope(bytes: &[u8]) -> Option<Scope> {
    let mut reader = Reader(bytes);
    let namespace = |reader: &mut Reader<'_>| narrow_next(reader).map(Namespace);
    Some(match reader.number()? {
        0 => Scope::All,
        1 => Scope::Namespace(namespace(&mut reader)?),
        2 => {
            let namespace = namespace(&mut reader)?;
            Scope::Queue(namespace, text(reader.0)?)
        }
        _ => return None,
    })
}

fn narrow_next<T: TryFrom<u64>>(reader: &mut Reader<'_>) -> Option<T> {
    T::try_from(reader.number()?).ok()
}

pub fn write_made(out: &mut Writer, made: Made) {
    match made {
        Made::Job(id) => {
            out.number(0);
            out.raw(&ids::job_bytes(id));
        }
        Made::Run(id) => {
            out.number(1);
            out.raw(&ids::run_bytes(id));
        }
        Made::Backlog(id) => {
            out.number(2);
            out.raw(&ids::backlog_bytes(id));
        }
    }
}

pub fn made(bytes: &[u8]) -> Option<Made> {
    let mut reader = Reader(bytes);
    Some(match reader.number()? {
        0 => Made::Job(ids::job_id(reader.0)?),
        1 => Made::Run(ids::run_id(reader.0)?),
        2 => Made::Backlog(ids::backlog_id(reader.0)?),
        _ => return None,
    })
}

// Never reuse a number.
const REFUSED: [(u64, Refused); 11] = [
    (1, Refused::NotFound),
    (2, Refused::KeyReused),
    (3, Refused::Taken),
    (4, Refused::Conflict),
    (7, Refused::Busy),
    (8, Refused::Full),
    (9, Refused::NotOwner),
    (10, Refused::TooLate),
    (11, Refused::Unknown),
    (12, Refused::Poison),
    (13, Refused::Shed),
];
const VERSION_MISMATCH: u64 = 5;
const INVALID: u64 = 6;

pub fn write_refused(out: &mut Writer, refused: Refused) {
    match refused {
        Refused::VersionMismatch { found } => {
            out.number(VERSION_MISMATCH);
            out.number(found.into());
        }
        Refused::Invalid(why) => {
            out.number(INVALID);
            out.raw(why.as_bytes());
        }
        other => {
            let number = REFUSED.iter().find(|(_, one)| *one == other).map_or(0, |(n, _)| *n);
            out.number(number);
        }
    }
}

/// A refusal of a kind that is not known here is one all the same: nothing was done, or it says that
/// it does not know.
pub fn refused(bytes: &[u8]) -> Option<Refused> {
    let mut reader = Reader(bytes);
    Some(match reader.number()? {
        VERSION_MISMATCH => Refused::VersionMismatch { found: narrow_next(&mut reader)? },
        INVALID => Refused::Invalid(words(std::str::from_utf8(reader.0).ok()?)),
        number => match REFUSED.iter().find(|(one, _)| *one == number) {
            Some((_, refused)) => *refused,
            None => Refused::Invalid(NOT_KNOWN),
        },
    })
}

const REFUSED_IT: &str = "the owner of its shard refused it";
const NOT_KNOWN: &str = "the owner of its shard refused it for a reason not known here";

/// The core's reasons are words of its program. Those of another version of it are kept for ever,
/// so there is a bound on how many.
fn words(text: &str) -> &'static str {
    const KEPT: usize = 64;
    static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // Our own words for what is not kept come back as they are, however many others there were.
    if let Some(ours) = [REFUSED_IT, NOT_KNOWN].into_iter().find(|ours| *ours == text) {
        return ours;
    }
    let mut kept = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    if kept.len() >= KEPT || text.len() > 200 {
        return REFUSED_IT;
    }
    let leaked: &'static str = Box::leak(text.to_string().into_boxed_str());
    kept.insert(leaked);
    leaked
}

//! What nodes send each other, as bytes: a version, then letters, each a tag, a length and fields.
//!
//! Nodes of two versions run side by side while a cluster is upgraded. A field that is not known is
//! passed over. A letter that is not known is passed over, too; a forward whose command is not known
//! is answered with a refusal, because somebody waits for it. Whatever an older node could not do
//! without needs a new version byte, and is sent only when every node reads it.

mod answer;
mod bytes;
mod command;
mod parts;
#[cfg(test)]
mod tests;

use bytes::{Fields, Reader, Writer};
use model::{Epoch, ShardId, Span, Token};
use node::{Changed, Letter};
use shard::Message;
use shard::command::{Answer, CommandId, Refused};
use store::codec::{NotKnown, ids};

const VERSION: u8 = 1;

// Never reuse a number.
const FORWARD: u8 = 1;
const ANSWER: u8 = 2;
const GONE: u8 = 3;
const ASK: u8 = 4;
const GAVE: u8 = 5;
const STOP: u8 = 6;
const CHANGED: u8 = 7;
const WATCH: u8 = 8;
const ENDED: u8 = 9;
const CHANGES: [(u64, Changed); 3] =
    [(1, Changed::Keys), (2, Changed::Operations), (3, Changed::Queues)];

/// Letters one behind the other, ready to be sent.
#[derive(Debug)]
pub struct Batch {
    out: Writer,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { out: Writer(vec![VERSION]) }
    }
}

impl Batch {
    /// On an error nothing was added: a value that this version has no place for.
    pub fn add(&mut self, letter: &Letter) -> Result<(), NotKnown> {
        let mut inner = Writer::default();
        let tag = write(&mut inner, letter)?;
        self.out.bytes(tag, &inner.0);
        Ok(())
    }

    pub fn size(&self) -> usize {
        self.out.0.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.out.0
    }
}

fn write(out: &mut Writer, letter: &Letter) -> Result<u8, NotKnown> {
    Ok(match letter {
        Letter::Core(Message::Forward { id, shard, command, wait, try_no }) => {
            out.number_field(1, id.0);
            out.number_field(2, shard.0.into());
            out.signed_field(3, wait.micros());
            out.number_field(4, (*try_no).into());
            out.field(5, |out| command::write(out, command))?;
            FORWARD
        }
        Letter::Core(Message::Answer { id, answer, try_no }) => {
            out.number_field(1, id.0);
            out.number_field(2, (*try_no).into());
            out.field(3, |out| {
                answer::write(out, answer);
                Ok::<(), NotKnown>(())
            })?;
            ANSWER
        }
        Letter::Core(Message::Gone { id }) => {
            out.number_field(1, id.0);
            GONE
        }
        Letter::Core(Message::Ask { shard }) => {
            out.number_field(1, shard.0.into());
            ASK
        }
        Letter::Core(Message::Gave { shard, epoch }) => {
            out.number_field(1, shard.0.into());
            if let Some(epoch) = epoch {
                out.number_field(2, epoch.0.into());
            }
            GAVE
        }
        Letter::Stop(run, token) => {
            out.bytes(1, &ids::run_bytes(*run));
            out.number_field(2, token.0);
            STOP
        }
        Letter::Changed(what) => {
            let number = CHANGES.iter().find(|(_, one)| one == what).map_or(0, |(n, _)| *n);
            out.number_field(1, number);
            CHANGED
        }
        Letter::Watch(run) => {
            out.bytes(1, &ids::run_bytes(*run));
            WATCH
        }
        Letter::Ended(run) => {
            out.bytes(1, &ids::run_bytes(*run));
            ENDED
        }
    })
}

/// A letter as it was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    Letter(Letter),
    /// Somebody waits for an answer to what this node does not understand.
    Refuse(Letter),
}

/// None where the bytes are not of a version or form that is known here: nothing was heard.
pub fn read(bytes: &[u8]) -> Option<Vec<Read>> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let mut reader = Reader(rest);
    let mut letters = Vec::new();
    while !reader.0.is_empty() {
        let (tag, value) = reader.field()?;
        letters.extend(read_letter(tag, &Fields::read(value)?)?);
    }
    Some(letters)
}

/// The outer none: it is broken. The inner one: it is not known here.
fn read_letter(tag: u8, fields: &Fields<'_>) -> Option<Option<Read>> {
    let id = || fields.number(1).map(CommandId);
    let run = || parts::run(fields.one(1)?);
    let other = |letter| Some(Some(Read::Letter(letter)));
    let shard = |tag| fields.narrow(tag).map(ShardId);
    let message = match tag {
        FORWARD => {
            let (id, try_no) = (id()?, fields.narrow(4)?);
            let Some(command) = command::read(fields.one(5)?) else {
                let refused = Refused::Invalid(OLDER);
                let answer = Message::Answer { id, answer: Answer::Refused(refused), try_no };
                return Some(Some(Read::Refuse(Letter::Core(answer))));
            };
            let wait = Span::from_micros(fields.signed(3)?);
            Message::Forward { id, shard: shard(2)?, command, wait, try_no }
        }
        ANSWER => {
            // The caller learns that it may have been done.
            let answer = answer::read(fields.one(3)?).unwrap_or(Answer::Refused(Refused::Unknown));
            Message::Answer { id: id()?, answer, try_no: fields.narrow(2)? }
        }
        GONE => Message::Gone { id: id()? },
        ASK => Message::Ask { shard: shard(1)? },
        GAVE => {
            // Older nodes do not say it.
            let epoch = match fields.one(2) {
                Some(_) => Some(Epoch(fields.narrow(2)?)),
                None => None,
            };
            Message::Gave { shard: shard(1)?, epoch }
        }
        STOP => return other(Letter::Stop(run()?, Token(fields.number(2)?))),
        CHANGED => {
            let number = fields.number(1)?;
            let what = CHANGES.iter().find(|(one, _)| *one == number);
            return Some(what.map(|(_, what)| Read::Letter(Letter::Changed(*what))));
        }
        WATCH => return other(Letter::Watch(run()?)),
        ENDED => return other(Letter::Ended(run()?)),
        _ => return Some(None),
    };
    Some(Some(Read::Letter(Letter::Core(message))))
}

const OLDER: &str =
    "the node that owns its shard does not know this request; it is of another version";

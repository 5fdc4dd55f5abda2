//! Ids. A job id is a UUIDv7 whose 12 random bits after the version are the **slot**, so that any
//! node can tell from an id alone which shard holds it. A run id is made of its job's id and of
//! what the run is for, so that every node, and the user, computes the same id for the same work.

use crate::time::Time;
use std::fmt;

/// Shards in every store, for its whole life: ids carry their slot, so it can never change.
pub const SHARDS: u16 = 256;
const SLOTS_PER_SHARD: u16 = 4096 / SHARDS;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// 12 bits: where (namespace, queue, partition) lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u16);

impl Slot {
    /// A fixed hash; `crates/model/tests/slots.rs` pins its values, because a change would send
    /// every stored job to a shard that does not hold it.
    pub fn of(namespace: Namespace, queue: &str, partition: u16) -> Slot {
        let mut hash = crate::hash::Hasher::new(0);
        hash.write(&namespace.0.to_be_bytes());
        hash.write(queue.as_bytes());
        hash.write(&[0]);
        hash.write(&partition.to_be_bytes());
        Slot((hash.finish() >> 52) as u16)
    }

    pub const fn from_bits(bits: u16) -> Slot {
        Slot(bits & 0x0fff)
    }

    pub const fn bits(self) -> u16 {
        self.0
    }

    pub const fn shard(self) -> ShardId {
        ShardId(self.0 / SLOTS_PER_SHARD)
    }
}

/// A tenant: text outside, a number inside, first in every key. 0 is `default`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Namespace(pub u32);

/// An API key by its public id, which is 12 hexadecimal digits outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(u64);

impl KeyId {
    /// So many digits.
    const DIGITS: usize = 12;

    pub const fn from_bits(bits: u64) -> KeyId {
        KeyId(bits & 0xffff_ffff_ffff)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub fn parse(text: &str) -> Option<KeyId> {
        let fits = text.len() == Self::DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| fits).map(KeyId)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    hi: u64,
    lo: u64,
}

impl JobId {
    /// `random` fills the 62 free bits; the caller owns the randomness because this crate has none.
    pub const fn mint(at: Time, slot: Slot, random: u64) -> JobId {
        let millis = (at.micros().div_euclid(1_000) as u64) & 0xffff_ffff_ffff;
        JobId { hi: millis << 16 | 7 << 12 | slot.0 as u64, lo: random >> 2 | 2 << 62 }
    }

    pub const fn from_bits(hi: u64, lo: u64) -> JobId {
        JobId { hi, lo }
    }

    pub const fn bits(self) -> (u64, u64) {
        (self.hi, self.lo)
    }

    pub const fn slot(self) -> Slot {
        Slot::from_bits(self.hi as u16)
    }

    pub const fn shard(self) -> ShardId {
        self.slot().shard()
    }

    /// When it was minted, to the millisecond.
    pub const fn minted(self) -> Time {
        Time::from_millis((self.hi >> 16) as i64)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.hi) << 64 | u128::from(self.lo)).to_be_bytes()
    }
}

/// Why this run exists; with the job it makes the run's id. Packed into 64 bits (a tag of four and
/// sixty of value), because ready runs are held in memory by the million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The only run of a one-off job.
    OneOff,
    /// The run of one nominal instant.
    Occurrence(Time),
    /// A person or program asked for a run now; 50 bits minted where the request arrived.
    Trigger(u64),
    /// Made by backfill number `operation` of this job for the nominal second.
    Backfill { operation: u16, second: i64 },
    /// The n-th run of something that succeeded.
    Rerun(u32),
}

const TAG: u32 = 60;
const VALUE: u64 = (1 << TAG) - 1;
const BACKFILL_SECOND: u32 = 36;
/// Backfills one job can have in its life: what fits beside a second in ten letters.
pub const BACKFILLS_MAX: u16 = (1 << 14) - 1;

impl Part {
    pub const fn new(cause: Cause) -> Part {
        match cause {
            Cause::OneOff => Part(0),
            Cause::Occurrence(at) => Part(1 << TAG | (at.micros() as u64 & VALUE)),
            Cause::Trigger(id) => Part(2 << TAG | (id & ((1 << 50) - 1))),
            Cause::Backfill { operation, second } => Part(
                3 << TAG
                    | (operation as u64) << BACKFILL_SECOND
                    | (second as u64 & ((1 << BACKFILL_SECOND) - 1)),
            ),
            Cause::Rerun(n) => Part(4 << TAG | n as u64),
        }
    }

    pub const fn cause(self) -> Cause {
        let value = self.0 & VALUE;
        match self.0 >> TAG {
            1 => Cause::Occurrence(Time::from_micros(value as i64)),
            2 => Cause::Trigger(value),
            3 => Cause::Backfill {
                operation: (value >> BACKFILL_SECOND) as u16,
                second: (value & ((1 << BACKFILL_SECOND) - 1)) as i64,
            },
            4 => Cause::Rerun(value as u32),
            _ => Cause::OneOff,
        }
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub const fn from_bits(bits: u64) -> Part {
        Part(bits)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    pub job: JobId,
    pub part: Part,
}

impl RunId {
    pub const fn new(job: JobId, cause: Cause) -> RunId {
        RunId { job, part: Part::new(cause) }
    }

    pub const fn cause(self) -> Cause {
        self.part.cause()
    }

    /// The smallest id of any run of this job: where a scan over its runs begins.
    pub const fn first_of(job: JobId) -> RunId {
        RunId { job, part: Part(0) }
    }
}

/// Who owns a shard, counted: every change of owner makes it larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Tokens stay below 2^53 (JSON integers) while the epoch stays below 2^21.
    pub const MAX: Epoch = Epoch((1 << 21) - 1);
    /// How far epochs jump when a store came back with less than it had acknowledged: further
    /// than any epoch that could have been given out in the lost part.
    pub const JUMP: u32 = 1_024;
    /// How far apart the epochs of two incarnations of a store begin. Wider than a jump, so that an
    /// owner that jumps in one incarnation does not reach into the range of the next.
    pub const INCARNATION: u32 = 8 * Epoch::JUMP;
}

/// One per attempt; grows over all attempts of all runs of a shard, so that users can fence their
/// own writes with it. Zero is no token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

impl Token {
    pub const NONE: Token = Token(0);
    /// Of the note beside a run that fired later than its time: before every attempt's.
    pub const DELAYED: Token = Token(1);

    pub const fn new(epoch: Epoch, counter: u32) -> Token {
        Token((epoch.0 as u64) << 32 | counter as u64)
    }

    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }
}

/// One life of one process. A restarted node is another node: what its former life held is dead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    pub node: u32,
    pub boot: u64,
}

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 32, self.0 as u32)
    }
}
impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.boot)
    }
}
impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cause())
    }
}

//! A batch: what one commit will change, and what may leave once it is durable.

use crate::command::{Answer, Command, CommandId};
use crate::shard::Caller;
use model::row::Change;
use std::sync::Arc;

#[derive(Debug)]
pub struct Batch {
    pub seq: u64,
    /// The latest instant a decision in it was made at.
    pub decided: model::Time,
    /// Shared with the commit once it is sent; nobody adds to it then.
    pub changes: Arc<Vec<Change>>,
    /// Released only when the commit is durable: persist, then act.
    pub outputs: Vec<Output>,
    /// Callers' commands decided in it, kept so that they can be decided again.
    pub commands: Vec<(Caller, Command)>,
    /// Decisions of our own in it (fires, rescues): what to leave alone if one of them is poison.
    pub own: Vec<Own>,
    /// It adds work: the store may have no room for that.
    pub grows: bool,
}

/// A decision nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Own {
    Due(model::read::WheelKey),
    Rescue(model::RunId),
}

/// What a shard tells the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Reply(CommandId, Answer),
    /// The holder of this attempt, if it is inside a node, shall stop.
    Stop(model::RunId, model::Token),
    /// A queue's service level was broken, or is kept again. Nothing that is stored.
    Level(crate::flows::LevelChange),
    Event(Event),
    /// The answer to this claim that was said and not told yet is void; another one follows.
    Withdraw(CommandId),
}

/// What happened, for metrics, alerts and the simulator's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Reloaded,
    Divergence,
    PoisonIsolated,
    UnknownLanded,
    UnknownLandedWithClaims,
    UnknownLost,
    PoisonUnderBuiltBatch,
    PageWhileTouched,
    ReadOlderThanAck,
    BornLeased,
    Rescued,
    RescuedAtLoad,
    CaughtUp,
    BacklogBesideFresh,
    KeyReplayed,
    KeyReplayedAfterEnd,
    SettleRepeated,
    StaleRefused,
    OverlapSkipped,
    OverlapQueued,
    OverlapCancelled,
    BackfillOverFired,
    UpdatedBetweenAttempts,
    Dead,
    Spilled,
    PageMerged,
    HorizonLowered,
    RoomShort,
    LostWithoutRetries,
    CancelledRunning,
    SuccessBeatCancel,
    Quarantined,
    LateFire,
    ClockRanWild,
    LostTail,
    TookOver,
    TookOverRunning,
    /// The same while as much of a queue ran as its strict limit allows; told by the simulator.
    TookOverFull,
    Gave,
    /// A node that left had given everything away and finished what it sent.
    Left,
    /// A shard was taken because its former owner said that it had given it.
    TookGift,
    StalledNobodyTook,
    RestartedWithHerd,
    /// A new epoch because the tokens of the old one were used up.
    FreshTokens,
    /// A claim went back because its caller hung up while it was on its way to the store.
    ClaimUndone,
    /// A recurring job's fire was put off: it would have been too much.
    FirePutOff,
    /// One that was put off happened.
    FiredLate,
    /// New work gave way, because its queue's service level is broken.
    Shed,
    /// A claim was answered before its runs are due.
    Reserved,
    /// A lease went back before its time, and nothing remained of it.
    Unreserved,
}

impl Event {
    /// States that are rare and interesting: a set of simulated worlds that never reached one of
    /// them has proved nothing about it.
    pub const SOMETIMES: &[Event] = &[
        Event::Reloaded,
        Event::PoisonIsolated,
        Event::UnknownLanded,
        Event::UnknownLandedWithClaims,
        Event::UnknownLost,
        Event::PoisonUnderBuiltBatch,
        Event::PageWhileTouched,
        Event::ReadOlderThanAck,
        Event::BornLeased,
        Event::Rescued,
        Event::RescuedAtLoad,
        Event::CaughtUp,
        Event::BacklogBesideFresh,
        Event::KeyReplayed,
        Event::KeyReplayedAfterEnd,
        Event::SettleRepeated,
        Event::StaleRefused,
        Event::OverlapSkipped,
        Event::OverlapQueued,
        Event::OverlapCancelled,
        Event::BackfillOverFired,
        Event::UpdatedBetweenAttempts,
        Event::Dead,
        Event::Spilled,
        Event::PageMerged,
        Event::HorizonLowered,
        Event::RoomShort,
        Event::LostWithoutRetries,
        Event::CancelledRunning,
        Event::SuccessBeatCancel,
        Event::LateFire,
        Event::ClockRanWild,
        Event::LostTail,
        Event::TookOver,
        Event::TookOverRunning,
        Event::Gave,
        Event::Left,
        Event::TookGift,
        Event::StalledNobodyTook,
        Event::RestartedWithHerd,
        Event::FreshTokens,
        Event::ClaimUndone,
        Event::Reserved,
        Event::Unreserved,
    ];

    /// The same for worlds that have limits and quotas.
    pub const SOMETIMES_LIMITED: &[Event] =
        &[Event::FirePutOff, Event::FiredLate, Event::Shed, Event::TookOverFull];
}

impl Batch {
    /// `size` changes are expected, so that a batch does not grow by copying.
    pub fn new(seq: u64, size: usize) -> Batch {
        Batch {
            seq,
            decided: model::Time::MIN,
            changes: Arc::new(Vec::with_capacity(size)),
            outputs: Vec::new(),
            commands: Vec::new(),
            own: Vec::new(),
            grows: false,
        }
    }
}

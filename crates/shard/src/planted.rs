//! Faults that the simulator plants, one at a time, to prove that its checker would notice them.
//! Without the feature `planted` every question here is answered "no" at compile time.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A single-line fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $($(#[$doc])* $name,)* }
        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$name,)*];
        }
    };
}

bugs! {
    /// A deposed owner does not notice that its commit was fenced.
    IgnoreFence,
    /// Replies leave before their commit is durable.
    ReplyBeforeCommit,
    /// A claim's dispatch leaves before its commit is durable.
    DispatchBeforeCommit,
    /// The page of the wheel is read before the horizon is raised.
    HorizonAfterRead,
    /// The page of the wheel is read before the batches decided earlier are durable.
    PageBeforeDurable,
    /// A page is merged without looking at what was touched meanwhile.
    NoTouchedSet,
    /// Decisions do not see rows of batches that are not durable yet.
    ForgetOverlay,
    /// Overlay entries leave at once when their batch is acknowledged.
    RetireTooEarly,
    /// The mark moves past an instant that was not decided.
    MarkSkipsOne,
    /// The mark is not moved with the fire.
    MarkNotMoved,
    /// Timers round down.
    FireEarly,
    /// An attempt lost to a dead holder spends a retry.
    LostSpendsRetry,
    /// Retries are not counted.
    RetryNotCounted,
    /// A settle is accepted whatever its token.
    AcceptStaleToken,
    /// A settle after the end is answered "stale" although it was ours.
    ForgetEnded,
    /// A backlog row is dropped when its job is updated.
    DropBacklog,
    /// The missed range is not written as a verdict.
    DropRangeVerdict,
    /// Tokens begin at the same number in every epoch of a shard.
    TokenIgnoresEpoch,
    /// An unknown commit is taken as not landed.
    UnknownMeansLost,
    /// An unknown commit is taken as landed.
    UnknownMeansLanded,
    /// The idempotency row is not written.
    NoIdempotencyRow,
    /// The idempotency row is found but its body is not compared.
    IgnoreBody,
    /// Leases are not loaded after a takeover.
    ForgetLeases,
    /// A rescue forgets to remove the old lease's validity: the old token still counts.
    RescueKeepsToken,
    /// A cancelled waiting run stays in its flow.
    CancelLeavesReady,
    /// A hold is not looked at by claims.
    IgnoreHold,
    /// An update changes the version of runs that are already made.
    UpdateTouchesRuns,
    /// A version that is no longer kept is not removed.
    VersionNotDropped,
    /// A version that is no longer kept is removed although a run names it.
    VersionDroppedInUse,
    /// Overlap is not looked at.
    IgnoreOverlap,
    /// A run that ends does not release the one that waits for it.
    WaitingNotReleased,
    /// An attempt's end is not written to the history.
    NoHistory,
    /// A poisoned batch is dropped with everybody's commands in it.
    PoisonDropsAll,
    /// A flow whose page ended is believed complete although a run arrived meanwhile.
    FlowForgetsArrival,
    /// Ready runs are said to begin behind the first one.
    ReadyStartsBehind,
    /// A run that is ready and due before all others does not lower where they begin.
    ReadyStartStays,
    /// Leases are said to begin behind the first one.
    LeasesStartBehind,
    /// A claimer hears of a reserved run before its time.
    ReservedToldAtOnce,
    /// A claimer hears of a reserved run when a clock says so that runs wild.
    ReservedByAnyClock,
    /// A reserved run that goes back is ready at once.
    UnreservedIsReady,
    /// A reserved run starts although a hold has come.
    HoldLeavesReserved,
    /// Runs do not expire.
    NeverExpires,
    /// A start is not counted towards the limits of its queue.
    LimitNotCounted,
    /// The limits of queues are not loaded after a takeover.
    ForgetLimits,
    /// After a takeover what runs is not counted towards limits.
    LoadForgetsRunning,
    /// The end of an attempt is not counted: its place is never free again.
    EndNotCounted,
    /// The end of an attempt is counted twice.
    EndCountedTwice,
    /// A start spends nothing of a rate.
    RateNotSpent,
    /// After a takeover a rate begins with its whole burst.
    RateFullAtLoad,
    /// Groups are not limited.
    GroupNotShut,
    /// A group that was shut stays so.
    GroupNotOpened,
    /// A flow that is new to memory does not ask whether its group is shut.
    NewFlowNotShut,
    /// New limits are kept in memory only.
    LimitsNotStored,
    /// New limits are stored and not kept until the next load.
    LimitsNotKept,
    /// A fire that would be too much is dropped.
    PutOffDropped,
    /// A fire that was put off makes the run of the instant at which it happens.
    PutOffOtherRun,
    /// Work of the usual priority gives way as well.
    ShedsUsual,
    /// What is shed is made all the same.
    ShedIsMade,
    /// A service level that was broken once stays so.
    LevelStaysBroken,
}

impl Bug {
    /// Does it show only where queues have limits?
    pub fn is_of_limits(self) -> bool {
        self >= Bug::NeverExpires
    }
}

/// The fault planted in this state machine, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(pub Option<Bug>);

impl Planted {
    #[inline(always)]
    pub fn is(self, bug: Bug) -> bool {
        cfg!(feature = "planted") && self.0 == Some(bug)
    }
}

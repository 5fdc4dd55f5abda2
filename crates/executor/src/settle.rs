//! Ends of attempts on their way to the store. The first one goes at once; what ends in the same shard
//! while it is on its way goes with the next one. So a busy host costs one command for each commit and
//! not one for each webhook, and a lone end waits for nobody. Where many end at once, and claimed runs wait
//! for slots, the next ends wait for the next claim of their shard, a few milliseconds at most: one commit has
//! room for both.
//!
//! What an attempt holds (`Ended::_permit`) is held until its end is in the store: whoever drains waits for it,
//! and no more ends can wait here than attempts may exist.

use crate::claim::Context;
use crate::limits::{
    SETTLE_AGAIN_FIRST, SETTLE_AGAIN_MAX, SETTLE_GATHER, SETTLE_TRIES, SETTLES_MANY,
    SETTLES_TOGETHER,
};
use model::{Cause, RunId, ShardId, Text};
use node::crash;
use shard::command::{Answer, Command, Settle};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// An attempt that has ended.
#[derive(Debug)]
pub struct Ended {
    pub settle: Settle,
    /// Its receiver said that it is gone for good: a recurring job is paused.
    pub gone: bool,
    pub _permit: OwnedSemaphorePermit,
}

/// Ends that wait, of shards that have somebody on the way.
#[derive(Debug, Default)]
pub struct Settler {
    lines: Mutex<BTreeMap<ShardId, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: Vec<Ended>,
    /// There is no reason to wait for more.
    now: Arc<Notify>,
    /// A claim took some along since somebody last looked.
    along: bool,
}

impl Line {
    fn take(&mut self) -> Vec<Ended> {
        let later = self.waiting.split_off(self.waiting.len().min(SETTLES_TOGETHER));
        std::mem::replace(&mut self.waiting, later)
    }
}

impl Settler {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<ShardId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: somebody is on the way and takes it along. Otherwise the caller is the one who goes.
    fn add(&self, shard: ShardId, ended: Ended) -> Option<(Ended, Arc<Notify>)> {
        match self.lines().entry(shard) {
            Entry::Occupied(mut there) => {
                let line = there.get_mut();
                line.waiting.push(ended);
                if line.waiting.len() == SETTLES_TOGETHER {
                    line.now.notify_one();
                }
                None
            }
            Entry::Vacant(free) => Some((ended, free.insert(Line::default()).now.clone())),
        }
    }

    /// What has come meanwhile; nothing, if claims take it along. None: the way is free for the next who comes.
    fn next(&self, shard: ShardId) -> Option<Vec<Ended>> {
        let mut lines = self.lines();
        let line = lines.get_mut(&shard)?;
        if line.waiting.is_empty() && !std::mem::take(&mut line.along) {
            lines.remove(&shard);
            return None;
        }
        Some(line.take())
    }

    /// What waits, for a claim that goes now.
    fn along(&self, shard: ShardId) -> Vec<Ended> {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(&shard) else { return Vec::new() };
        line.along |= !line.waiting.is_empty();
        line.take()
    }
}

/// Brings the end of one attempt to the store, or leaves it to whoever is on the way.
pub async fn bring(context: &Arc<Context>, ended: Ended) {
    let shard = ended.settle.run.job.shard();
    if let Some((first, now)) = context.settler.add(shard, ended) {
        // In a box: most attempts do not go, and carry no room for it.
        Box::pin(go(context, shard, first, &now)).await;
    }
}

async fn go(context: &Arc<Context>, shard: ShardId, first: Ended, now: &Notify) {
    let (mut together, mut good) = (vec![first], true);
    loop {
        let many = together.is_empty() || together.len() >= SETTLES_MANY;
        good = carry(context, shard, together, good).await;
        if many && good && context.slots.are_waited_for() {
            // Whether there is a reason to hurry or not.
            let _ = tokio::time::timeout(SETTLE_GATHER, now.notified()).await;
        }
        let Some(next) = context.settler.next(shard) else { return };
        together = next;
    }
}

/// A claim of this shard is about to be sent: what waits is sent here and now, so that both come to the driver in
/// the same moment and into the same commit. Somebody else hears the answer.
pub async fn go_along(context: &Arc<Context>, shard: ShardId) {
    let together = context.settler.along(shard);
    if together.is_empty() {
        return;
    }
    let here = context.clone();
    let mut going = Box::pin(async move {
        carry(&here, shard, together, true).await;
    });
    // Never waits: whoever drops us in this moment drops no end.
    let done = poll_fn(|waker| Poll::Ready(going.as_mut().poll(waker).is_ready())).await;
    if !done {
        context.tasks.start(going);
    }
}

/// False: the store did not answer, and each of them is repeated by itself; as all are if `good` is false: one
/// wait is enough for all that wait behind it.
async fn carry(context: &Arc<Context>, shard: ShardId, together: Vec<Ended>, good: bool) -> bool {
    if together.is_empty() {
        return good;
    }
    let good = good && is_stored(context, shard, &together).await;
    for ended in together {
        match good {
            true => pause(context, &ended).await,
            false => go_alone(context, shard, ended),
        }
    }
    good
}

async fn is_stored(context: &Context, shard: ShardId, together: &[Ended]) -> bool {
    let settles = together.iter().map(|ended| ended.settle.clone()).collect();
    let answer = context.node.call(shard, Command::Settle(settles)).await;
    crash::point("settle-after");
    matches!(answer, Answer::Settled(_))
}

/// Whatever is wrong with one of them is not the others' fault: each is repeated by itself.
fn go_alone(context: &Arc<Context>, shard: ShardId, ended: Ended) {
    let here = context.clone();
    context.tasks.start(async move {
        tokio::time::sleep(SETTLE_AGAIN_FIRST).await;
        settle(&here, shard, vec![ended.settle.clone()]).await;
        pause(&here, &ended).await;
    });
}

async fn pause(context: &Context, ended: &Ended) {
    let run = ended.settle.run;
    if ended.gone && run.cause() != Cause::OneOff {
        let reason = Text::from("the receiver answered 410: gone");
        let pause = Command::Pause { job: run.job, reason, until: None };
        context.node.call(run.job.shard(), pause).await;
    }
}

/// Repeats it until it is answered, within a bound.
pub async fn settle(context: &Context, shard: ShardId, settles: Vec<Settle>) {
    let mut pause = SETTLE_AGAIN_FIRST;
    for _ in 0..SETTLE_TRIES {
        let again = Command::Settle(settles.clone());
        if let Answer::Settled(_) = context.node.call(shard, again).await {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SETTLE_AGAIN_MAX);
    }
    let runs: Vec<RunId> = settles.iter().map(|one| one.run).collect();
    tracing::warn!("the end of {runs:?} could not be stored; it counts as lost and is tried again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{JobId, Slot, Time, Token};
    use shard::command::End;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    fn ended(attempts: &Arc<Semaphore>, number: u64) -> Ended {
        let job = JobId::mint(Time::from_secs(1), Slot::from_bits(1), number << 2);
        let run = RunId::new(job, Cause::OneOff);
        let settle = Settle { run, token: Token(number), end: End::Released };
        let permit = attempts.clone().try_acquire_owned().expect("room for an attempt");
        Ended { settle, gone: false, _permit: permit }
    }

    #[tokio::test]
    async fn one_goes_and_the_others_are_taken_along_in_their_order() {
        let (attempts, settler) = (Arc::new(Semaphore::new(1_000)), Settler::default());
        let (one, other) = (ShardId(1), ShardId(2));
        let (first, now) = settler.add(one, ended(&attempts, 0)).expect("the first one goes");
        let told = || tokio::time::timeout(Duration::from_secs(30), now.notified());
        assert!(
            settler.add(other, ended(&attempts, 0)).is_some(),
            "another shard's way is its own"
        );
        let many = SETTLES_TOGETHER as u64 + 3;
        for number in 1..=many {
            assert!(settler.add(one, ended(&attempts, number)).is_none(), "{number} waits");
        }
        drop(first);
        told().await.expect("as many as can go together do not wait for more");
        let numbers = |list: &[Ended]| -> Vec<u64> {
            list.iter().map(|ended| ended.settle.token.0).collect()
        };
        let together = settler.next(one).expect("they wait");
        assert_eq!(numbers(&together), (1..=SETTLES_TOGETHER as u64).collect::<Vec<u64>>());
        assert_eq!(
            attempts.available_permits(),
            1_000 - many as usize,
            "those who wait still count"
        );
        drop(together);
        assert!(settler.add(one, ended(&attempts, many + 1)).is_none(), "somebody is on the way");
        assert!(settler.along(other).is_empty());
        assert_eq!(numbers(&settler.along(one)), [many - 2, many - 1, many, many + 1]);
        assert!(settler.next(one).is_some_and(|next| next.is_empty()), "claims take them along");
        assert!(settler.add(one, ended(&attempts, many + 2)).is_none());
        assert_eq!(settler.next(one).map(|next| numbers(&next)), Some(vec![many + 2]));
        assert!(settler.along(one).is_empty());
        assert!(settler.next(one).is_none());
        assert!(settler.add(one, ended(&attempts, 0)).is_some(), "the way is free again");
    }
}

//! A claim over queues of several shards. Each shard leases on its own, so asking each of them for all
//! that the worker wants would lease several times as much and give most of it back. Here nobody is asked
//! for more than the worker has room for: every shard for its share, then those that had that much for
//! what is left; and what several of them gave is one answer.
//!
//! Only when nothing is ready anywhere do all of them wait, each for its share. The first that has work
//! is the answer; the others are dropped, which undoes them.
//!
//! A request that is repeated finds its leases: a shard is asked under the number of the request the
//! first time, and under one that follows from it the second.

use crate::limits::{CLAIM_AGAIN_MAX, CLAIM_GATHER};
use model::{ShardId, Span};
use shard::command::{Answer, Leased, Refused};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What one shard is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub shard: ShardId,
    pub max: usize,
    /// Names the request to the shard.
    pub request: u64,
    pub wait: Span,
}

/// All that the shards of one claim gave, at most `max` unless an earlier answer was lost: then what
/// it held comes again, and `max` may be exceeded.
pub async fn claim<F: Future<Output = Answer>>(
    shards: &[ShardId],
    max: usize,
    request: u64,
    wait: Span,
    ask: impl Fn(Part) -> F,
) -> Answer {
    if let [shard] = shards {
        return ask(Part { shard: *shard, max, request, wait }).await;
    }
    let mut refused = None;
    let got = ready(shards, max, request, &ask, &mut refused).await;
    if !got.is_empty() {
        return Answer::Claimed(got);
    }
    if let Some(refused) = refused {
        return Answer::Refused(refused);
    }
    if wait <= Span::ZERO {
        return Answer::Claimed(Vec::new());
    }
    let share = (max / shards.len().max(1)).max(1);
    let parts = shards.iter().map(|shard| ask(Part { shard: *shard, max: share, request, wait }));
    first_with_work(parts.collect(), max).await
}

/// What is ready now.
async fn ready<F: Future<Output = Answer>>(
    shards: &[ShardId],
    max: usize,
    request: u64,
    ask: &impl Fn(Part) -> F,
    refused: &mut Option<Refused>,
) -> Vec<Leased> {
    // Another one begins each time, so that a worker with little room comes round to all.
    let first = usize::try_from(request).unwrap_or(0) % shards.len().max(1);
    let mut fresh: VecDeque<ShardId> = shards.iter().copied().collect();
    fresh.rotate_left(first);
    let mut had_enough: VecDeque<ShardId> = VecDeque::new();
    let mut got: Vec<Leased> = Vec::new();
    let mut again = 0;
    while again <= CLAIM_AGAIN_MAX {
        let left = max.saturating_sub(got.len());
        let is_first = !fresh.is_empty();
        let from = if is_first { &mut fresh } else { &mut had_enough };
        let group: Vec<ShardId> = from.drain(..from.len().min(left)).collect();
        if group.is_empty() {
            break;
        }
        again += usize::from(!is_first);
        let request = if is_first { request } else { follows(request, again) };
        let parts: Vec<Part> = shares(&group, left, request);
        let answers = gather(parts.iter().map(|part| ask(*part)).collect()).await;
        for (part, answer) in parts.into_iter().zip(answers) {
            match answer {
                Some(Answer::Claimed(runs)) => {
                    if runs.len() == part.max {
                        had_enough.push_back(part.shard);
                    }
                    got.extend(runs);
                }
                Some(Answer::Refused(why)) => *refused = Some(why),
                _ => {}
            }
        }
    }
    got
}

fn shares(group: &[ShardId], left: usize, request: u64) -> Vec<Part> {
    let (each, more) = (left / group.len(), left % group.len());
    let part = |(at, shard): (usize, &ShardId)| Part {
        shard: *shard,
        max: each + usize::from(at < more),
        request,
        wait: Span::ZERO,
    };
    group.iter().enumerate().map(part).collect()
}

/// The name of a later round of a request. Stores keep it as a signed number.
fn follows(request: u64, round: usize) -> u64 {
    model::hash::hash(request, &(round as u64).to_be_bytes()) >> 1
}

/// All answers; those that come much later than the first are given up, which undoes them: a shard whose
/// owner has died must not hold up what others have.
async fn gather<F: Future<Output = Answer>>(asked: Vec<F>) -> Vec<Option<Answer>> {
    let mut asked: Vec<Asked<F>> = asked.into_iter().map(Asked::new).collect();
    let all_but_one = asked.len().saturating_sub(1);
    until(&mut asked, all_but_one).await;
    // What has not come by then is none of the answer.
    let _ = tokio::time::timeout(CLAIM_GATHER, until(&mut asked, 0)).await;
    asked.into_iter().map(|one| one.answer).collect()
}

/// The first answer that brings runs, with what else is there at the same moment and fits; or a refusal;
/// or nothing, when all have ended.
async fn first_with_work<F: Future<Output = Answer>>(asked: Vec<F>, max: usize) -> Answer {
    let mut asked: Vec<Asked<F>> = asked.into_iter().map(Asked::new).collect();
    poll_fn(|context| {
        let (mut got, mut waiting) = (Vec::new(), 0);
        for one in &mut asked {
            // What was heard would have to be handed on: beyond `max` nobody is asked.
            if got.len() >= max {
                break;
            }
            if one.poll(context).is_none() {
                waiting += usize::from(!one.over);
                continue;
            }
            one.over = true;
            match one.answer.take() {
                Some(Answer::Claimed(runs)) => got.extend(runs),
                Some(other) if got.is_empty() => return Poll::Ready(other),
                _ => {}
            }
        }
        match got.is_empty() && waiting > 0 {
            true => Poll::Pending,
            false => Poll::Ready(Answer::Claimed(got)),
        }
    })
    .await
}

/// A call, and its answer once it is there.
struct Asked<F: Future> {
    call: Pin<Box<F>>,
    answer: Option<F::Output>,
    over: bool,
}

impl<F: Future> Asked<F> {
    fn new(call: F) -> Asked<F> {
        Asked { call: Box::pin(call), answer: None, over: false }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Option<&F::Output> {
        if self.answer.is_none()
            && !self.over
            && let Poll::Ready(answer) = self.call.as_mut().poll(context)
        {
            self.answer = Some(answer);
        }
        self.answer.as_ref()
    }
}

/// Waits until at most so many have not answered.
async fn until<F: Future>(asked: &mut [Asked<F>], most: usize) {
    poll_fn(|context| {
        // Each is asked, so that each wakes this again.
        let waiting = asked.iter_mut().filter_map(|one| one.poll(context).is_none().then_some(()));
        if waiting.count() > most { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Every answer, in the order of the questions, which are asked at the same time.
pub async fn together<F: Future>(asked: Vec<F>) -> Vec<F::Output> {
    let mut asked: Vec<Asked<F>> = asked.into_iter().map(Asked::new).collect();
    until(&mut asked, 0).await;
    asked.into_iter().filter_map(|one| one.answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cause, JobId, RunId, Slot, Time, Token};
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Shards that have so many ready runs each; what each was asked.
    #[derive(Default)]
    struct Shards {
        ready: RefCell<BTreeMap<ShardId, usize>>,
        asked: RefCell<Vec<Part>>,
        dead: Option<ShardId>,
    }

    impl Shards {
        fn with(ready: &[usize]) -> Shards {
            let each = ready.iter().enumerate().map(|(at, count)| (ShardId(at as u16), *count));
            Shards { ready: RefCell::new(each.collect()), ..Shards::default() }
        }

        fn all(&self) -> Vec<ShardId> {
            self.ready.borrow().keys().copied().collect()
        }

        async fn answer(&self, part: Part) -> Answer {
            self.asked.borrow_mut().push(part);
            if self.dead == Some(part.shard) || part.wait > Span::ZERO {
                std::future::pending::<()>().await;
            }
            let mut ready = self.ready.borrow_mut();
            let left = ready.get_mut(&part.shard).expect("a known shard");
            let given = part.max.min(*left);
            *left -= given;
            Answer::Claimed((0..given).map(|_| leased(part.shard)).collect())
        }

        async fn claim(&self, max: usize) -> usize {
            let wait = Span::ZERO;
            match claim(&self.all(), max, 5, wait, |part| self.answer(part)).await {
                Answer::Claimed(runs) => runs.len(),
                other => panic!("{other:?}"),
            }
        }

        fn left(&self) -> usize {
            self.ready.borrow().values().sum()
        }
    }

    fn leased(shard: ShardId) -> Leased {
        let id = JobId::mint(Time::MIN, Slot::from_bits(shard.0), 0);
        Leased {
            reserved: false,
            run: RunId::new(id, Cause::OneOff),
            attempt: 1,
            token: Token(1),
            nominal: Time::MIN,
            due: Time::MIN,
            version: 1,
            lease: Span::ZERO,
            deadline: Time::MIN,
            checkpoint: false,
        }
    }

    #[tokio::test]
    async fn no_more_is_leased_than_was_asked_for() {
        for (ready, max) in [
            (vec![1_000; 12], 250),
            (vec![1_000; 12], 1),
            (vec![1_000; 3], 2),
            (vec![0, 0, 1_000, 0, 0], 250),
            (vec![10, 0, 7, 1_000], 250),
        ] {
            let shards = Shards::with(&ready);
            let before = shards.left();
            assert_eq!(shards.claim(max).await, max, "{ready:?}");
            assert_eq!(before - shards.left(), max, "{ready:?}");
        }
    }

    #[tokio::test]
    async fn what_is_ready_anywhere_is_found() {
        let shards = Shards::with(&[0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(shards.claim(1).await, 1, "a worker with room for one looks everywhere");
        assert_eq!(shards.claim(1).await, 0);
    }

    #[tokio::test]
    async fn one_full_queue_among_many_fills_the_claim_in_two_rounds() {
        let shards = Shards::with(&[0, 0, 0, 1_000]);
        assert_eq!(shards.claim(100).await, 100);
        let asked = shards.asked.borrow();
        let full: Vec<&Part> = asked.iter().filter(|part| part.shard == ShardId(3)).collect();
        assert_eq!(full.len(), 2);
        assert_ne!(full[0].request, full[1].request, "the second is no repetition of the first");
    }

    #[tokio::test]
    async fn a_shard_that_does_not_answer_holds_up_nobody() {
        let mut shards = Shards::with(&[5, 1_000, 5]);
        shards.dead = Some(ShardId(1));
        assert_eq!(shards.claim(30).await, 10);
    }

    #[tokio::test]
    async fn when_nothing_is_ready_all_of_them_wait_for_their_share() {
        let shards = Shards::with(&[0, 0, 0, 0]);
        let all = shards.all();
        let wait = Span::from_secs(20);
        let claim = claim(&all, 100, 7, wait, |part| shards.answer(part));
        let over = tokio::time::timeout(std::time::Duration::from_millis(50), claim).await;
        assert!(over.is_err(), "it waits");
        let asked = shards.asked.borrow();
        let waiting: Vec<&Part> = asked.iter().filter(|part| part.wait == wait).collect();
        assert_eq!(waiting.len(), 4);
        // A request that is repeated must find what it got while it waited.
        assert!(waiting.iter().all(|part| part.max == 25 && part.request == 7));
    }

    #[tokio::test]
    async fn what_waits_is_answered_together_up_to_the_room_there_is() {
        let answer = |count: usize| async move {
            Answer::Claimed((0..count).map(|_| leased(ShardId(0))).collect())
        };
        let got = |answer| match answer {
            Answer::Claimed(runs) => runs.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(got(first_with_work(vec![answer(2), answer(0), answer(2)], 4).await), 4);
        assert_eq!(got(first_with_work(vec![answer(1), answer(1), answer(1)], 1).await), 1);
        assert_eq!(got(first_with_work(vec![answer(0), answer(0)], 1).await), 0);
    }
}

//! How fast queues move: attempts that came and attempts that ended, counted in slices of a few seconds over the
//! last minute. Counted by whoever owns the queue's shard, from what its durable commits say (`events`), and lost
//! with the process: nothing here is truth.
//!
//! An attempt *comes* when its run becomes ready: the first one, and each retry. A run that waits says so in its row,
//! but one that is claimed in the commit that makes it ready does not. So it is counted how many wait: a start while
//! somebody waits is one of those, counted before; a start while nobody does has come just now. If the two are ever
//! mixed up, the total still fits.

use crate::events::{Happened, What};
use crate::limits::{RATE_SLICE, RATE_SLICES, RATES_MAX};
use model::{Namespace, Text, Time};
use std::collections::BTreeMap;

/// How fast a queue moved in the last minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Attempts that came, and those that ended, per second.
    pub arrival: f64,
    pub service: f64,
    /// How long those that ended took on average, in seconds.
    pub length: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: i64,
    came: u64,
    ended: u64,
    /// What those that ended took, in microseconds.
    took: i64,
}

#[derive(Debug)]
struct Counted {
    since: Time,
    slices: [Slice; RATE_SLICES],
    /// Counted as come, and not started.
    waiting: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Rates {
    queues: BTreeMap<(Namespace, Text), Counted>,
    /// The slice in which room was last looked for.
    swept: i64,
}

fn number(at: Time) -> i64 {
    at.micros().div_euclid(RATE_SLICE.micros())
}

impl Counted {
    fn slice(&mut self, at: Time) -> &mut Slice {
        let number = number(at);
        let place = number.rem_euclid(RATE_SLICES as i64) as usize;
        let slice = &mut self.slices[place];
        if slice.number < number {
            *slice = Slice { number, ..Slice::default() };
        }
        slice
    }

    fn count(&mut self, happened: &Happened) {
        let at = happened.at;
        match &happened.what {
            What::RunReady => {
                self.waiting += 1;
                self.slice(at).came += 1;
            }
            What::RunStarted { .. } if self.waiting > 0 => self.waiting -= 1,
            What::RunStarted { .. } => self.slice(at).came += 1,
            What::AttemptEnded(ended) => match ended.started {
                Some(started) => {
                    let slice = self.slice(at);
                    slice.ended += 1;
                    slice.took = slice.took.saturating_add(at.since(started).micros().max(0));
                }
                // It waited for an attempt, and was given up.
                None if ended.due <= at => self.waiting = self.waiting.saturating_sub(1),
                None => {}
            },
            _ => {}
        }
    }

    fn is_quiet(&self, at: Time) -> bool {
        let oldest = number(at) - RATE_SLICES as i64;
        self.slices.iter().all(|slice| slice.number <= oldest)
    }

    fn rate(&self, now: Time) -> Rate {
        let newest = number(now);
        let oldest = newest - RATE_SLICES as i64 + 1;
        let begun = Time::from_micros(oldest.saturating_mul(RATE_SLICE.micros()));
        // Not shorter than a slice: the first second of a queue says little.
        let over = now.since(begun.max(self.since)).micros().max(RATE_SLICE.micros());
        let seconds = over as f64 / 1e6;
        let seen = self.slices.iter().filter(|one| (oldest..=newest).contains(&one.number));
        let (mut came, mut ended, mut took) = (0, 0, 0_i64);
        for slice in seen {
            came += slice.came;
            ended += slice.ended;
            took = took.saturating_add(slice.took);
        }
        let length = (ended > 0).then(|| took as f64 / ended as f64 / 1e6);
        Rate { arrival: came as f64 / seconds, service: ended as f64 / seconds, length }
    }
}

impl Rates {
    pub fn count(&mut self, happened: &Happened) {
        let counts = matches!(
            happened.what,
            What::RunReady | What::RunStarted { .. } | What::AttemptEnded(_)
        );
        let (true, Some(namespace), Some(queue)) = (counts, happened.namespace, &happened.queue)
        else {
            return;
        };
        let place = (namespace, queue.clone());
        if !self.queues.contains_key(&place) && !self.has_room(happened.at) {
            return;
        }
        let since = happened.at;
        let slices = [Slice::default(); RATE_SLICES];
        let new = || Counted { since, slices, waiting: 0 };
        self.queues.entry(place).or_insert_with(new).count(happened);
    }

    /// Queues that nothing happened in for a minute make room, looked for once per slice.
    fn has_room(&mut self, at: Time) -> bool {
        if self.queues.len() >= RATES_MAX && self.swept != number(at) {
            self.swept = number(at);
            self.queues.retain(|_, counted| !counted.is_quiet(at));
        }
        self.queues.len() < RATES_MAX
    }

    /// The queues of a namespace that something happened in.
    pub fn of(&self, namespace: Namespace, now: Time) -> BTreeMap<Text, Rate> {
        let from = self.queues.range((namespace, Text::from(""))..);
        let own = from.take_while(|((of, _), _)| *of == namespace);
        own.map(|((_, queue), counted)| (queue.clone(), counted.rate(now))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Ended;
    use model::{RunState, Span, Status, Token};

    const NS: Namespace = Namespace(3);

    fn at(seconds: f64) -> Time {
        Time::from_secs(1_806_000_000).plus(Span::from_micros((seconds * 1e6) as i64))
    }

    fn happened(seconds: f64, queue: &str, what: What) -> Happened {
        let (namespace, queue) = (Some(NS), Some(Text::from(queue)));
        Happened { seq: 0, at: at(seconds), what, namespace, queue, job: None, run: None }
    }

    fn started() -> What {
        What::RunStarted { attempt: 1, token: Token(1), worker: None }
    }

    fn ended(due: f64, started: Option<f64>) -> What {
        What::AttemptEnded(Ended {
            status: Status::Succeeded,
            after: RunState::Succeeded,
            attempt: 1,
            code: None,
            error: None,
            next: None,
            due: at(due),
            started: started.map(at),
        })
    }

    fn rate(rates: &Rates, seconds: f64) -> Rate {
        rates.of(NS, at(seconds))[&Text::from("q")]
    }

    #[test]
    fn each_attempt_comes_once_whether_it_waited_or_not() {
        let mut rates = Rates::default();
        for second in 0..60 {
            let second = f64::from(second);
            // One waits half a second, one is claimed as it becomes ready; both take a quarter of a second.
            rates.count(&happened(second, "q", What::RunReady));
            rates.count(&happened(second + 0.5, "q", started()));
            rates.count(&happened(second + 0.6, "q", started()));
            rates.count(&happened(second + 0.75, "q", ended(second, Some(second + 0.5))));
            rates.count(&happened(second + 0.85, "q", ended(second, Some(second + 0.6))));
        }
        let found = rate(&rates, 59.999);
        assert!((found.arrival - 2.0).abs() < 0.05, "{found:?}");
        assert!((found.service - 2.0).abs() < 0.05, "{found:?}");
        assert!((found.length.unwrap_or_default() - 0.25).abs() < 1e-6, "{found:?}");
        let later = rate(&rates, 125.0);
        assert_eq!(later, Rate { arrival: 0.0, service: 0.0, length: None });
    }

    #[test]
    fn runs_that_are_given_up_do_not_hide_those_that_come_later() {
        let mut rates = Rates::default();
        for _ in 0..10 {
            rates.count(&happened(0.0, "q", What::RunReady));
            rates.count(&happened(1.0, "q", ended(0.0, None)));
            // One that was not due yet did not wait.
            rates.count(&happened(1.0, "q", ended(99.0, None)));
        }
        rates.count(&happened(2.0, "q", started()));
        let found = rate(&rates, 10.0);
        assert!((found.arrival - 1.1).abs() < 1e-9, "{found:?}");
        assert_eq!(found.service, 0.0, "an end without an attempt is no service");
    }

    #[test]
    fn the_number_of_queues_is_bounded_and_quiet_ones_make_room() {
        let mut rates = Rates::default();
        for number in 0..RATES_MAX + 5 {
            rates.count(&happened(0.0, &format!("q{number}"), started()));
        }
        assert_eq!(rates.queues.len(), RATES_MAX);
        rates.count(&happened(100.0, "late", started()));
        assert_eq!(rates.queues.len(), 1);
    }
}

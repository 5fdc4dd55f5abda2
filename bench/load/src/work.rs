//! The works: each says what is submitted, who works it off and when it is done.

use crate::Options;
use crate::limits::{FOREIGN_NUMBERS, SINGLE_THREADS};
use crate::receiver::Receiver;
use crate::report::{Millis, Row, curve};
use crate::seen::{Due, Seen, Tally, histogram, now};
use crate::submit::{Shape, bulk};
use crate::{single, tenants, worker};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Jobs of the far future, in batches: submission alone.
    Submit,
    /// Jobs that are ready at once and that nobody works off, in batches.
    Fill,
    /// One job per request.
    Single,
    /// Submitted, claimed and settled by workers at the same time.
    Noop,
    /// Submitted first, and then claimed and settled: how fast a full queue empties.
    Drain,
    /// Submitted, posted to a receiver, recorded.
    Webhook,
    /// All due at one instant, workers waiting.
    Burst,
    /// All due at one instant, as webhooks.
    BurstWebhook,
    /// Due one after the other over ten seconds, workers waiting.
    Spread,
    /// The same as webhooks.
    SpreadWebhook,
    /// Jobs that recur daily, none of them for the next hours: registration alone.
    Recurring,
    /// Jobs that recur daily, all due at one instant, as webhooks.
    Stampede,
    /// Jobs of many groups that arrive at an even rate beside whatever else their queue holds.
    Tenants,
}

pub const ALL: [(&str, Work); 13] = [
    ("submit", Work::Submit),
    ("fill", Work::Fill),
    ("single", Work::Single),
    ("noop", Work::Noop),
    ("drain", Work::Drain),
    ("webhook", Work::Webhook),
    ("burst", Work::Burst),
    ("burst-webhook", Work::BurstWebhook),
    ("spread", Work::Spread),
    ("spread-webhook", Work::SpreadWebhook),
    ("recurring", Work::Recurring),
    ("stampede", Work::Stampede),
    ("tenants", Work::Tenants),
];

/// 2050: nothing of it falls due while anybody measures.
const FAR: Due = Due { first: 2_524_608_000_000_000, step: 1_000 };
const SPREAD_MICROS: i64 = 10_000_000;
/// When the first of many jobs that recur is due, and over how long they are spread.
const RECURRING_LEAD_MICROS: i64 = 7_200_000_000;
const DAY_MICROS: i64 = 86_400_000_000;
/// How long before they are due the jobs of an instant are begun to be submitted: the time that
/// their submission takes at least at 5,000 a second, and some.
fn lead(jobs: u64) -> i64 {
    3_000_000 + i64::try_from(jobs).unwrap_or(i64::MAX).saturating_mul(200)
}

impl std::str::FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let found = ALL.iter().find(|(name, _)| *name == text).map(|(_, work)| *work);
        let names = ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("one of {names}, or all"))
    }
}

impl Work {
    /// All but those that leave work behind for others.
    pub fn all() -> impl Iterator<Item = Work> {
        let left = |work: &Work| {
            matches!(work, Work::Fill | Work::Recurring | Work::Stampede | Work::Tenants)
        };
        ALL.into_iter().map(|(_, work)| work).filter(move |work| !left(work))
    }

    pub fn name(self) -> &'static str {
        ALL.iter().find(|(_, work)| *work == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn run(
        self,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Row, String> {
        match self {
            Work::Submit => self.submissions(options, Some(FAR), progress),
            Work::Fill => self.submissions(options, None, progress),
            Work::Recurring => {
                let due = spread(options, RECURRING_LEAD_MICROS, DAY_MICROS);
                self.submissions(options, Some(due), progress)
            }
            Work::Single => self.singles(options, progress),
            Work::Noop | Work::Drain => self.with_workers(options, None, progress),
            Work::Burst => {
                let due = Due { first: millis(now() + lead(options.jobs)), step: 0 };
                self.with_workers(options, Some(due), progress)
            }
            Work::Spread => {
                let due = spread(options, lead(options.jobs), SPREAD_MICROS);
                self.with_workers(options, Some(due), progress)
            }
            Work::SpreadWebhook => {
                let due = spread(options, lead(options.jobs), SPREAD_MICROS);
                self.with_receiver(options, Some(due), progress)
            }
            Work::Tenants => self.tenants(options, progress),
            Work::Webhook => self.with_receiver(options, None, progress),
            Work::BurstWebhook | Work::Stampede => {
                let due = Due { first: millis(now() + lead(options.jobs)), step: 0 };
                self.with_receiver(options, Some(due), progress)
            }
        }
    }

    fn submissions(
        self,
        options: &Options,
        due: Option<Due>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Row, String> {
        let shape = self.shape(options, WORKER.to_string(), due);
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let begun = Instant::now();
        let all = Threads::default();
        std::thread::scope(|scope| {
            for _ in 0..options.connections {
                scope.spawn(|| {
                    all.note(bulk(
                        &options.server,
                        &shape,
                        options.jobs,
                        options.batch,
                        &next,
                        &done,
                    ));
                });
            }
            all.wait(options, &done, progress)
        })?;
        Ok(self.row(options.jobs, begun.elapsed(), &histogram()?, Tally::default()))
    }

    fn singles(self, options: &Options, progress: &mut dyn FnMut(u64, u64)) -> Result<Row, String> {
        let shape = self.shape(options, WORKER.to_string(), Some(FAR));
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let all_times = Mutex::new(histogram()?);
        let begun = Instant::now();
        let all = Threads::default();
        std::thread::scope(|scope| {
            for _ in 0..SINGLE_THREADS {
                scope.spawn(|| {
                    let end = single::one_by_one(options, &shape, &next, &done);
                    all.note(end.and_then(|times| {
                        let mut all_times =
                            all_times.lock().unwrap_or_else(PoisonError::into_inner);
                        all_times.add(&times).map_err(|error| error.to_string())
                    }));
                });
            }
            all.wait(options, &done, progress)
        })?;
        let seconds = begun.elapsed();
        let times = all_times.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(self.row(options.jobs, seconds, &times, Tally::default()))
    }

    fn with_workers(
        self,
        options: &Options,
        due: Option<Due>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Row, String> {
        let shape = self.shape(options, WORKER.to_string(), due);
        let seen = Seen::new(options.jobs, due)?;
        let (next, sent, settled) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        let all = Threads::default();
        let produce = || {
            let (jobs, batch) = (options.jobs, options.batch);
            all.note(bulk(&options.server, &shape, jobs, batch, &next, &sent));
        };
        if self == Work::Drain {
            std::thread::scope(|scope| {
                for _ in 0..options.connections {
                    scope.spawn(produce);
                }
                all.wait(options, &sent, &mut |_, _| ())
            })?;
        }
        let begun = Instant::now();
        let took = std::thread::scope(|scope| {
            for number in 0..options.connections {
                let (all, seen, settled, over) = (&all, &seen, &settled, &over);
                // Nothing is left to submit when the queue is full already.
                scope.spawn(produce);
                scope.spawn(move || {
                    let (name, queue) = (format!("bench-{number}"), &options.queue);
                    let state = &mut worker::State::default();
                    all.note(worker::work(
                        &options.server,
                        queue,
                        &name,
                        seen,
                        settled,
                        over,
                        state,
                    ));
                });
            }
            let end = all.wait(options, &settled, progress);
            // Before the workers end: each still waits for more, as long as it said.
            let took = begun.elapsed();
            over.store(true, Ordering::Relaxed);
            end.map(|()| took)
        })?;
        let took = match due {
            // From the instant on, until the last one was heard of.
            Some(_) => Duration::from_micros(seen.lateness().max()),
            None => took,
        };
        Ok(self.row(options.jobs, took, &seen.lateness(), seen.tally()))
    }

    fn with_receiver(
        self,
        options: &Options,
        due: Option<Due>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Row, String> {
        let seen = Arc::new(Seen::new(options.jobs, due)?);
        let receiver = Receiver::start(Arc::clone(&seen)).map_err(|error| error.to_string())?;
        let target = format!(r#"{{"http":{{"url":"http://{}/bench"}}}}"#, receiver.address);
        let shape = self.shape(options, target, due);
        let (next, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let begun = Instant::now();
        let all = Threads::default();
        std::thread::scope(|scope| {
            for _ in 0..options.connections {
                scope.spawn(|| {
                    let (jobs, batch) = (options.jobs, options.batch);
                    all.note(bulk(&options.server, &shape, jobs, batch, &next, &sent));
                });
            }
            all.wait_for(options, || seen.distinct(), progress)
        })?;
        // Received is not recorded: none of them may be left under way.
        wait_until_empty(options)?;
        let took = match due {
            Some(_) => Duration::from_micros(seen.lateness().max()),
            None => begun.elapsed(),
        };
        Ok(self.row(options.jobs, took, &seen.lateness(), seen.tally()))
    }

    fn tenants(self, options: &Options, progress: &mut dyn FnMut(u64, u64)) -> Result<Row, String> {
        let step = 1_000_000 / i64::try_from(options.rate.max(1)).unwrap_or(i64::MAX);
        let due = Due { first: now() + 1_000_000, step: step.max(1) };
        let shape = self.shape(options, WORKER.to_string(), None);
        let seen = Seen::new(options.jobs, Some(due))?;
        let (sent, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        let all = Threads::default();
        let begun = Instant::now();
        let took = std::thread::scope(|scope| {
            for number in 0..options.connections {
                let (all, shape, seen) = (&all, &shape, &seen);
                let (sent, settled, over) = (&sent, &settled, &over);
                let part = (number as u64, options.connections as u64);
                scope.spawn(move || all.note(tenants::arrive(options, shape, due, part, sent)));
                scope.spawn(move || {
                    let name = format!("tenants-{number}");
                    all.note(tenants::work(options, &name, seen, settled, over));
                });
            }
            // Seen and not settled: a settle whose answer was lost is counted by nobody.
            let end = all.wait_for(options, || seen.distinct(), progress);
            let took = begun.elapsed();
            over.store(true, Ordering::Relaxed);
            end.map(|()| took)
        })?;
        Ok(self.row(options.jobs, took, &seen.lateness(), seen.tally()))
    }

    fn shape(self, options: &Options, target: String, due: Option<Due>) -> Shape {
        Shape {
            target,
            queue: options.queue.clone(),
            payload_bytes: options.payload_bytes,
            due,
            recurs: matches!(self, Work::Recurring | Work::Stampede),
            group: options.group.clone(),
            offset: if options.group.is_some() { FOREIGN_NUMBERS } else { 0 },
        }
    }

    fn row(self, jobs: u64, took: Duration, micros: &Histogram<u64>, tally: Tally) -> Row {
        let seconds = took.as_secs_f64();
        let per_second = if seconds > 0.0 { jobs as f64 / seconds } else { 0.0 };
        let (millis, curve) = (Millis::of(micros), curve(micros));
        Row { work: self.name().to_string(), jobs, seconds, per_second, millis, curve, tally }
    }
}

#[derive(serde::Deserialize)]
struct Queue {
    ready: u64,
    running: u64,
    retrying: u64,
}

/// Nothing in the queue is unfinished.
fn wait_until_empty(options: &Options) -> Result<(), String> {
    let mut connection = options.server.connect().map_err(|error| error.to_string())?;
    let path = format!("/v1/queues/{}", options.queue);
    let begun = Instant::now();
    while begun.elapsed() < options.time_limit {
        let reply = connection.get(&path).map_err(|error| error.to_string())?;
        let queue: Queue =
            serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
        if queue.ready + queue.running + queue.retrying == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(format!("some runs did not end within {:?}", options.time_limit))
}

const WORKER: &str = r#"{"worker":{"kind":"bench"}}"#;

fn millis(micros: i64) -> i64 {
    micros / 1_000 * 1_000
}

/// One after the other over so long, beginning so long from now; whole milliseconds, as the interface
/// has them.
fn spread(options: &Options, lead: i64, over: i64) -> Due {
    let step = (over / options.jobs.max(1) as i64).max(1_000) / 1_000 * 1_000;
    Due { first: millis(now() + lead), step }
}

/// The threads of a work: the first trouble of any of them ends it.
#[derive(Debug, Default)]
struct Threads {
    trouble: Mutex<Option<String>>,
}

impl Threads {
    fn note(&self, end: Result<(), String>) {
        if let Err(trouble) = end {
            self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
        }
    }

    fn wait(
        &self,
        options: &Options,
        done: &AtomicU64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), String> {
        self.wait_for(options, || done.load(Ordering::Relaxed), progress)
    }

    fn wait_for(
        &self,
        options: &Options,
        done: impl Fn() -> u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let done = done();
            progress(done, options.jobs);
            if done >= options.jobs {
                return Ok(());
            }
            if let Some(trouble) =
                self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                return Err(trouble);
            }
            if begun.elapsed() > options.time_limit {
                return Err(format!("{done} of {} after {:?}", options.jobs, begun.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

//! What is asked for, and whether a row is it. Every store uses these, so that all agree.

use super::{JobFound, RunFound};
use model::row::{HistoryRow, Holder, JobState, LeaseRow, RunRow};
use model::{Broker, Cause, JobId, Namespace, RunId, RunState, Spec, Status, Text, Time};

/// A set of states; empty = every state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(u16);

impl States {
    pub fn of(states: &[RunState]) -> States {
        States(states.iter().fold(0, |bits, state| bits | 1 << *state as u16))
    }

    pub fn has(self, state: RunState) -> bool {
        self.0 == 0 || self.0 & (1 << state as u16) != 0
    }

    /// Is any unfinished state in it? Any final one?
    pub fn live(self) -> bool {
        RunState::ALL.iter().any(|state| !state.is_final() && self.has(*state))
    }

    pub fn ended(self) -> bool {
        RunState::ALL.iter().any(|state| state.is_final() && self.has(*state))
    }

    /// Nothing but this one?
    pub fn only(self, state: RunState) -> bool {
        self == States::of(&[state])
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindJobs {
    pub namespace: Namespace,
    /// Recurring jobs in these states; one-offs in those. `None` for one of them leaves that kind
    /// of job out; empty lists mean every state.
    pub recurring: Option<Vec<JobState>>,
    pub one_off: Option<States>,
    pub queue: Option<Text>,
    /// A tag and, if it matters, its value.
    pub tag: Option<(Text, Option<Text>)>,
    pub owner: Option<Text>,
    /// Somewhere in the name, the id, the target or a tag, in either case.
    pub text: Option<Text>,
    pub after: Option<Text>,
    pub limit: usize,
}

impl FindJobs {
    pub fn matches(&self, found: &JobFound) -> bool {
        match found {
            JobFound::Recurring { row, spec } => {
                let wanted = self.recurring.as_ref();
                wanted.is_some_and(|wanted| wanted.is_empty() || wanted.contains(&row.state))
                    && self.matches_spec(found.id(), spec)
            }
            JobFound::OneOff { run, spec } => {
                let RunFound::Live { row, lease, .. } = run else { return false };
                self.one_off.is_some_and(|wanted| wanted.has(state_of(row, lease.as_ref())))
                    && self.matches_spec(found.id(), spec)
            }
            // Its definition is gone with it; only what history keeps can be asked for.
            JobFound::Finished(row) => {
                let flow = row.flow.as_ref();
                row.namespace == self.namespace
                    && self.one_off.is_some_and(|wanted| wanted.has(row.after))
                    && self.tag.is_none()
                    && self.owner.is_none()
                    && self
                        .queue
                        .as_ref()
                        .is_none_or(|queue| flow.is_some_and(|flow| flow.queue == *queue))
                    && self.text.as_ref().is_none_or(|text| {
                        holds(&row.run.job.to_string(), text)
                            || flow.is_some_and(|flow| holds(&flow.kind, text))
                    })
            }
        }
    }

    fn matches_spec(&self, id: JobId, spec: &Spec) -> bool {
        spec.namespace == self.namespace
            && self.queue.as_ref().is_none_or(|queue| spec.queue == *queue)
            && self.owner.is_none_or_eq(spec.owner.as_ref())
            && self.tag.as_ref().is_none_or(|(key, value)| {
                spec.tags.iter().any(|(k, v)| k == key && value.as_ref().is_none_or(|w| w == v))
            })
            && self.text.as_ref().is_none_or(|text| {
                spec.name.as_ref().is_some_and(|name| holds(name, text))
                    || holds(&id.to_string(), text)
                    || spec.tags.iter().any(|(k, v)| holds(k, text) || holds(v, text))
                    || match &spec.target {
                        model::Target::Http { url, .. } => holds(url, text),
                        model::Target::Worker { kind } => holds(kind, text),
                        model::Target::Command { argv, .. } => {
                            argv.iter().any(|one| holds(one, text))
                        }
                        // Not the URL: asking letter by letter would tell its password.
                        model::Target::Publish(Broker::Redis { stream, .. }) => holds(stream, text),
                        model::Target::Publish(Broker::RabbitMq {
                            exchange, routing_key, ..
                        }) => holds(exchange, text) || holds(routing_key, text),
                        _ => false,
                    }
            })
    }
}

trait NoneOrEq {
    fn is_none_or_eq(&self, other: Option<&Text>) -> bool;
}

impl NoneOrEq for Option<Text> {
    fn is_none_or_eq(&self, other: Option<&Text>) -> bool {
        self.is_none() || self.as_ref() == other
    }
}

/// Why a run exists, without its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    OneOff,
    Occurrence,
    Trigger,
    Backfill,
    Rerun,
}

impl CauseKind {
    pub fn of(run: RunId) -> CauseKind {
        match run.cause() {
            Cause::OneOff => CauseKind::OneOff,
            Cause::Occurrence(_) => CauseKind::Occurrence,
            Cause::Trigger(_) => CauseKind::Trigger,
            Cause::Backfill { .. } => CauseKind::Backfill,
            Cause::Rerun(_) => CauseKind::Rerun,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindRuns {
    pub namespace: Namespace,
    pub job: Option<JobId>,
    pub states: States,
    pub queue: Option<Text>,
    /// Who has it, or had it last.
    pub worker: Option<Text>,
    pub cause: Option<CauseKind>,
    /// Somewhere in the id, the error or the worker, in either case.
    pub text: Option<Text>,
    /// Finished runs that ended in `[since, until)`, unfinished ones that are due in it.
    pub since: Option<Time>,
    pub until: Option<Time>,
    pub after: Option<Text>,
    pub limit: usize,
}

impl FindRuns {
    pub fn matches(&self, found: &RunFound) -> bool {
        match found {
            RunFound::Live { row, lease, last } => {
                let holder = lease.as_ref().and_then(holder);
                let worker = holder.or_else(|| last.as_ref().and_then(|last| last.worker.clone()));
                row.flow.namespace == self.namespace
                    && self.states.has(state_of(row, lease.as_ref()))
                    && self.is_in(row.due)
                    && self.queue.as_ref().is_none_or(|queue| row.flow.queue == *queue)
                    && self.of_cause(row.id)
                    && self.worker.is_none_or_eq(worker.as_ref())
                    && self.says(row.id, worker.as_ref(), last.as_deref())
            }
            RunFound::Ended(row) => {
                row.namespace == self.namespace
                    && is_end(row)
                    && self.states.has(row.after)
                    && self.is_in(row.finished)
                    && self.queue.as_ref().is_none_or(|queue| {
                        row.flow.as_ref().is_some_and(|flow| flow.queue == *queue)
                    })
                    && self.of_cause(row.run)
                    && self.worker.is_none_or_eq(row.worker.as_ref())
                    && self.says(row.run, row.worker.as_ref(), Some(row))
            }
        }
    }

    fn is_in(&self, at: Time) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    fn of_cause(&self, run: RunId) -> bool {
        self.cause.is_none_or(|cause| cause == CauseKind::of(run))
    }

    fn says(&self, run: RunId, worker: Option<&Text>, last: Option<&HistoryRow>) -> bool {
        self.text.as_ref().is_none_or(|text| {
            holds(&run.to_string(), text)
                || worker.is_some_and(|worker| holds(worker, text))
                || last.and_then(|last| last.error.as_ref()).is_some_and(|error| holds(error, text))
        })
    }
}

/// The state that people see: a run under a lease is running, whatever its row says.
pub fn state_of(row: &RunRow, lease: Option<&LeaseRow>) -> RunState {
    if lease.is_some() { RunState::Running } else { row.state }
}

/// Is this row the end of a run, and not one of its attempts or the verdict of an instant that made
/// none?
pub fn is_end(row: &HistoryRow) -> bool {
    row.after.is_final() && !row.status.is_verdict_only()
}

/// Kept for longer: somebody will ask.
pub fn is_failure(status: Status) -> bool {
    !matches!(status, Status::Succeeded | Status::Released | Status::Snoozed | Status::Delayed)
        && !status.is_verdict_only()
}

fn holder(lease: &LeaseRow) -> Option<Text> {
    match &lease.holder {
        Holder::Worker(name) => Some(name.clone()),
        Holder::Node(_) => None,
    }
}

fn holds(inside: &str, text: &str) -> bool {
    inside.to_lowercase().contains(&text.to_lowercase())
}

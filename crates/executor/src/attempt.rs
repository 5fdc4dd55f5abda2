//! One attempt: from a lease to its end, whatever happens on the way. `settle` brings the end to the store.

use crate::breaker::{Sign, Turn};
use crate::claim::{Context, Phase};
use crate::connection::Until;
use crate::limits::{HOST_WAIT_MAX, SHARE_TURN};
use crate::message::Message;
use crate::place::Place;
use crate::request::Saying;
use crate::slots::{Entry, Slot};
use crate::{from_spec, publish, verdict};
use hyper::Uri;
use model::{Spec, Target, Text, Time};
use node::clock::BootClock;
use node::events::What;
use node::{crash, random};
use shard::command::{End, Leased};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wire::{timestamp, trace};

/// A claimed run with everything that sending needs.
#[derive(Debug)]
pub struct Job {
    pub leased: Leased,
    pub spec: Arc<Spec>,
    pub work: Work,
    pub place: Place,
}

/// What an attempt does.
#[derive(Debug)]
pub enum Work {
    Webhook(Uri),
    Command,
    Message,
}

impl Job {
    /// What cannot be sent fails at once, for good.
    pub fn of(leased: Leased, spec: Option<Arc<Spec>>) -> Result<Job, (Leased, End)> {
        let Some(spec) = spec else {
            return Err((leased, failed("the definition of the run is not in the store", false)));
        };
        let found = match &spec.target {
            Target::Http { url, .. } => url
                .parse::<Uri>()
                .map_err(|_| format!("{url} is not a URL"))
                .and_then(|uri| Place::of(&uri).map(|place| (Work::Webhook(uri), place))),
            Target::Command { .. } => Ok((Work::Command, Place::commands())),
            Target::Publish(broker) => publish::place(broker).map(|place| (Work::Message, place)),
            _ => Err("this version of duly cannot do what the run wants".to_string()),
        };
        match found {
            Ok((work, place)) => Ok(Job { leased, spec, work, place }),
            Err(why) => Err((leased, failed(&why, false))),
        }
    }
}

/// How it ended.
pub async fn run(
    context: &Context,
    job: &Job,
    entry: Entry,
    mut phase: watch::Receiver<Phase>,
) -> End {
    let leased = &job.leased;
    let stopped = context.node.stopped(leased.run, leased.token);
    let end = tokio::select! {
        end = work(context, job, entry) => end,
        () = stopped.wait() => failed("stopped: the run was cancelled", true),
        _ = phase.wait_for(|phase| *phase == Phase::Release) => End::Released,
    };
    crash::point("answer-after");
    end
}

async fn work(context: &Context, job: &Job, entry: Entry) -> End {
    let Some(slot) = slot(job, entry).await else { return back(context, job) };
    // Programs of this machine have no breaker: how they end is their own affair.
    let under = match &job.work {
        Work::Command => None,
        _ => match context.ask(job) {
            Ok(under) => Some(under),
            Err(until) => return kept_back(context, job, until),
        },
    };
    if let Err(until) = context.slots.pace(&job.place, context.node.now()) {
        return End::Snoozed { until };
    }
    let left = job.leased.deadline.since(context.node.now());
    if left.micros() <= 0 {
        return End::TimedOut;
    }
    let (until, began) = (Until::after(left), BootClock.local());
    let mut sign = None;
    let end = match (&job.work, &job.spec.target) {
        (Work::Webhook(uri), _) => {
            let (end, said) = webhook(context, job, uri, until).await;
            sign = said;
            end
        }
        (Work::Command, Target::Command { argv, env }) => {
            crash::point("send-before");
            let (message, policy) = (message(context, job), &job.spec.policy);
            context.options.commands.run(argv, env, &message, policy, until.left()).await
        }
        (Work::Message, Target::Publish(broker)) => {
            crash::point("send-before");
            let (message, client) = (message(context, job), &context.options.client);
            let end = context.publisher.send(client, broker, &job.place, &message, until).await;
            sign = verdict::sign_of_message(&end);
            end
        }
        (Work::Command | Work::Message, _) => failed("the run has another target", false),
    };
    slot.ended(BootClock.local().since(began));
    let turn = under.and_then(|under| under.ended(sign, context.node.now(), random::bits()));
    if let Some(turn) = turn {
        tell(context, job, turn);
    }
    end
}

/// The state of a destination has changed: people hear of it.
fn tell(context: &Context, job: &Job, turn: Turn) {
    let (host, namespace) = (job.place.to_string(), job.spec.namespace);
    let metrics = context.node.metrics();
    let what = match turn {
        Turn::Opened { until } => {
            metrics.destinations_opened.add(1);
            let shown = timestamp::format(until.micros());
            tracing::warn!(host, until = shown, "the destination fails; its runs wait");
            What::DestinationOpened { host: Text::from(host), until }
        }
        Turn::Closed => {
            metrics.destinations_closed.add(1);
            tracing::info!(host, "the destination works again");
            What::DestinationClosed { host: Text::from(host) }
        }
    };
    context.node.tell(namespace, what);
}

async fn webhook(context: &Context, job: &Job, uri: &Uri, until: Until) -> (End, Option<Sign>) {
    let saying = saying(context, job);
    let make = || saying.request(uri, &*context.options.secrets);
    let request = match make() {
        Ok(request) => request,
        Err(why) => return (failed(&why, true), None),
    };
    crash::point("send-before");
    let (client, now) = (&context.options.client, context.node.now());
    let heard = client.send(&job.place, request, make, until, now).await;
    let sign = verdict::sign(&heard);
    (verdict::of(heard, from_spec::permanent(&job.spec)), sign)
}

/// Waits for the host's next slot, for a moment: the attempt's time is running.
async fn slot(job: &Job, entry: Entry) -> Option<Slot> {
    match entry {
        Entry::Taken(slot) => Some(slot),
        Entry::Full => None,
        Entry::Waiting(given) => {
            let tenth = job.spec.policy.timeout.micros().max(0).unsigned_abs() / 10;
            let wait = HOST_WAIT_MAX.min(Duration::from_micros(tenth));
            tokio::time::timeout(wait, given).await.ok()?.ok()
        }
    }
}

/// Nothing was sent, so nothing is spent: the run comes again when its host has had time.
pub fn back(context: &Context, job: &Job) -> End {
    End::Snoozed { until: context.slots.come_again(&job.place, context.node.now()) }
}

/// There are more nodes than its destination or its namespace may have attempts under way, and it may
/// take longer than the turn that each of them has.
pub fn never(job: &Job) -> End {
    let place = &job.place;
    failed(
        &format!(
            "nothing was sent: the limit in_flight of {place} or of the namespace is below the number of \
             nodes, which take turns; give the job a timeout of less than {}, or raise the limit",
            wire::duration::format(SHARE_TURN.micros())
        ),
        false,
    )
}

/// Its destination fails. Nothing was sent, and unless told otherwise nothing is spent.
pub fn kept_back(context: &Context, job: &Job, until: Time) -> End {
    context.node.metrics().kept_back.add(1);
    match context.destinations.settings().spend_retries {
        false => End::Snoozed { until },
        true => {
            let at = timestamp::format(until.micros());
            let error = format!("nothing was sent: {} fails, and its breaker is open", job.place);
            failed(&format!("{error} until {at} at least"), true)
        }
    }
}

fn message<'a>(context: &Context, job: &'a Job) -> Message<'a> {
    let (leased, spec) = (&job.leased, &job.spec);
    let run = leased.run.to_string();
    Message {
        payload: &spec.payload,
        content_type: &spec.content_type,
        job: leased.run.job.to_string(),
        attempt: leased.attempt,
        token: leased.token.0,
        scheduled_for: leased.nominal,
        request_id: request_id(spec, &run),
        run,
        now: context.node.now(),
    }
}

fn request_id(spec: &Spec, run: &str) -> String {
    from_spec::request_id(spec).map_or_else(|| trace::request_id(run), str::to_string)
}

fn saying<'a>(context: &Context, job: &'a Job) -> Saying<'a> {
    let (leased, spec) = (&job.leased, &job.spec);
    let run = leased.run.to_string();
    let (method, headers): (&str, &[(Text, Text)]) = match &spec.target {
        Target::Http { method, headers, .. } => (method, headers),
        _ => ("POST", &[]),
    };
    Saying {
        method,
        headers,
        content_type: &spec.content_type,
        payload: &spec.payload,
        namespace: spec.namespace,
        job: leased.run.job.to_string(),
        attempt: leased.attempt,
        token: leased.token.0,
        scheduled_for: leased.nominal,
        request_id: request_id(spec, &run),
        run,
        now: context.node.now(),
    }
}

fn failed(error: &str, retryable: bool) -> End {
    End::Failed { error: Text::from(error), code: None, retryable, retry_after: None }
}

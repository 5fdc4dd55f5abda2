//! One attempt: from a lease to its settle. Whatever happens on the way, it is settled once, and the
//! settle is repeated until it is answered.

use crate::claim::{Context, Phase};
use crate::limits::{SETTLE_AGAIN_FIRST, SETTLE_AGAIN_MAX, SETTLE_TRIES};
use crate::send::{Trouble, send};
use crate::verdict;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use model::{Cause, Spec, Target, Text};
use node::crash;
use shard::command::{Answer, Command, End, Leased, Settle};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wire::timestamp;

pub async fn run(
    context: Arc<Context>,
    leased: Leased,
    spec: Option<Arc<Spec>>,
    mut phase: watch::Receiver<Phase>,
) {
    let stopped = context.node.stopped(leased.run, leased.token);
    let end = tokio::select! {
        end = work(&context, &leased, spec.as_deref()) => end,
        () = stopped.wait() => failed("stopped: the run was cancelled", true),
        _ = phase.wait_for(|phase| *phase == Phase::Release) => End::Released,
    };
    crash::point("answer-after");
    let gone = matches!(end, End::Failed { code: Some(410), .. });
    settle(&context, &leased, end).await;
    crash::point("settle-after");
    if gone && leased.run.cause() != Cause::OneOff {
        let reason = Text::from("the receiver answered 410: gone");
        let job = leased.run.job;
        let pause = Command::Pause { job, reason, until: None };
        context.node.call(job.shard(), pause).await;
    }
}

async fn work(context: &Context, leased: &Leased, spec: Option<&Spec>) -> End {
    let Some(spec) = spec else {
        return failed("the definition of the run is not in the store", false);
    };
    let left = leased.deadline.since(context.node.now()).micros();
    if left <= 0 {
        return End::TimedOut;
    }
    let (uri, request) = match request(context, leased, spec) {
        Ok(both) => both,
        Err(why) => return failed(&why, false),
    };
    let left = Duration::from_micros(left.unsigned_abs());
    crash::point("send-before");
    let heard = tokio::time::timeout(left, send(&context.options.guard, &uri, request)).await;
    verdict::of(heard.unwrap_or(Err(Trouble::Timeout)))
}

fn request(
    context: &Context,
    leased: &Leased,
    spec: &Spec,
) -> Result<(hyper::Uri, Request<Full<Bytes>>), String> {
    let Target::Http { url, method, headers } = &spec.target else {
        return Err("the run is not a webhook".to_string());
    };
    let seconds = context.node.now().secs();
    let run = leased.run.to_string();
    let secret = &context.options.secret;
    let standard = secret.standard(&run, seconds, &spec.payload).unwrap_or_default();
    let short = secret.short(seconds, &spec.payload).unwrap_or_default();
    let uri: hyper::Uri = url.parse().map_err(|_| format!("{url} is not a URL"))?;
    let host = uri.authority().map(|a| a.as_str().to_string()).unwrap_or_default();
    // An origin server is asked for a path; the whole URL says where to dial.
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut builder = Request::builder().method(method.as_ref()).uri(path);
    for (name, value) in headers {
        builder = builder.header(name.as_ref(), value.as_ref());
    }
    let ours = [
        ("host", host),
        ("content-type", spec.content_type.to_string()),
        ("user-agent", concat!("duly/", env!("CARGO_PKG_VERSION")).to_string()),
        ("x-job-id", leased.run.job.to_string()),
        ("x-run-id", run.clone()),
        ("x-attempt", leased.attempt.to_string()),
        ("x-scheduled-for", timestamp::format(leased.nominal.micros())),
        ("x-fencing-token", leased.token.0.to_string()),
        ("idempotency-key", run.clone()),
        ("webhook-id", run),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", standard),
        ("x-scheduler-signature", short),
    ];
    let body = Full::new(Bytes::copy_from_slice(&spec.payload));
    let mut request = builder.body(body).map_err(|error| format!("bad request: {error}"))?;
    for (name, value) in ours {
        let value = value.parse().map_err(|_| format!("{name} cannot be sent"))?;
        // Ours replace a user's header of the same name.
        request.headers_mut().insert(name, value);
    }
    Ok((uri, request))
}

pub async fn settle(context: &Context, leased: &Leased, end: End) {
    let (run, token) = (leased.run, leased.token);
    let mut pause = SETTLE_AGAIN_FIRST;
    for _ in 0..SETTLE_TRIES {
        let settle = Command::Settle(vec![Settle { run, token, end: end.clone() }]);
        if let Answer::Settled(_) = context.node.call(run.job.shard(), settle).await {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SETTLE_AGAIN_MAX);
    }
    eprintln!("duly: the end of {run} could not be stored; it counts as lost and is tried again");
}

fn failed(error: &str, retryable: bool) -> End {
    End::Failed { error: Text::from(error), code: None, retryable, retry_after: None }
}

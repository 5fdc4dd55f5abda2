//! Pull workers: claim, heartbeat, settle. A request may name queues and runs of several shards;
//! each shard is asked for its part, and the answers are put back in the order of the request.

use crate::claiming::{self, Part, together};
use crate::definition::JSON_TYPE;
use crate::jobs::json_text;
use crate::limits::{CHECKPOINT_MAX, CLAIM_MARGIN, OUTPUT_MAX};
use crate::refusal::{Answered, Refusal};
use crate::run_read::{json_or_text, name, time};
use crate::tenant::{Caller, Tenant};
use crate::workers::{self, Signal};
use crate::{Api, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use model::read::{Page, Read};
use model::row::{Holder, Key, Row};
use model::{Namespace, RunId, ShardId, Slot, Span, Target, Text, Time, Token};
use serde_json::{Value, json};
use shard::command::{Answer, Beat, BeatAnswer, Claim, Command, End, Leased, Settle, SettleAnswer};
use std::collections::{BTreeMap, BTreeSet};
use wire::Faults;
use wire::answer::{Claimed, ClaimedRun};
use wire::work::{ClaimRequest, Outcome, read_beats, read_settles};

/// The seed of the hash that names a claim request.
const REQUEST_SEED: u64 = 0x636c_6169;

pub async fn claim(State(api): Shared, Tenant(namespace): Tenant, body: Bytes) -> Answered {
    let mut faults = Faults::default();
    let request = ClaimRequest::read(json_text(&body)?, &mut faults);
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let signal = api.workers.claims(namespace, &request, api.node.now());
    if signal != Signal::None {
        workers::pause(request.wait).await;
        return Ok(Json(Claimed { runs: Vec::new(), signal: signal.name() }).into_response());
    }
    let number = match &request.request_id {
        Some(id) => model::hash::hash(REQUEST_SEED, format!("{}\0{id}", request.worker).as_bytes()),
        None => node::random::bits(),
    };
    let mut shards: BTreeMap<ShardId, Vec<Text>> = BTreeMap::new();
    for queue in &request.queues {
        let shard = Slot::of(namespace, queue, 0).shard();
        shards.entry(shard).or_default().push(Text::from(queue.as_str()));
    }
    let claim = |part: &Part| Claim {
        holder: Holder::Worker(Text::from(request.worker.as_str())),
        namespace,
        queues: shards.get(&part.shard).cloned().unwrap_or_default(),
        kinds: request.kinds.as_ref().map(|kinds| {
            kinds
                .iter()
                .map(|kind| Target::Worker { kind: Text::from(kind.as_str()) }.kind())
                .collect()
        }),
        max: part.max,
        lease: Span::from_micros(request.lease),
        request: part.request,
        wait_until: api.node.now().plus(part.wait),
        // With several shards the first answer is taken and the others are undone.
        reserve: shards.len() == 1,
    };
    let asked: Vec<ShardId> = shards.keys().copied().collect();
    let ask = |part: Part| {
        let command = Command::Claim(claim(&part));
        api.node.call_for(part.shard, command, part.wait.plus(CLAIM_MARGIN))
    };
    // Stores keep it as a signed number.
    let (number, wait) = (number >> 1, Span::from_micros(request.wait));
    let answer = tokio::select! {
        // What a worker shall be told comes first: what is ready after that is for others.
        biased;
        // The claims that wait are dropped, which undoes them.
        signal = api.workers.told(namespace, &request.worker) => {
            let told = Claimed { runs: Vec::new(), signal: signal.name() };
            return Ok(Json(told).into_response());
        }
        answer = claiming::claim(&asked, request.max, number, wait, ask) => answer,
    };
    let leases = match answer {
        Answer::Claimed(leases) => leases,
        Answer::Refused(refused) => return Err(refused.into()),
        _ => return Err(crate::refusal::unexpected()),
    };
    let runs = describe(&api, leases).await?;
    Ok(Json(Claimed { runs, signal: "none" }).into_response())
}

async fn describe(api: &Api, leases: Vec<Leased>) -> Result<Vec<ClaimedRun>, Refusal> {
    let wanted = leases.iter().map(|leased| (leased.run, leased.version)).collect();
    let specs = api.node.specs(wanted).await?;
    let mut runs = Vec::with_capacity(leases.len());
    let now = api.node.now();
    for (leased, spec) in leases.into_iter().zip(specs) {
        let run_id = leased.run.to_string();
        let kind = match spec.as_ref().map(|spec| &spec.target) {
            Some(Target::Worker { kind }) => kind.to_string(),
            _ => String::new(),
        };
        let job_name = spec.as_ref().and_then(|spec| spec.name.as_ref()).map(ToString::to_string);
        let group = spec.as_ref().and_then(|spec| spec.group.as_ref()).map(ToString::to_string);
        let payload = spec.filter(|spec| !spec.payload.is_empty());
        let (payload, bytes) = match payload {
            Some(spec) if spec.content_type.as_ref() == JSON_TYPE => (Some(spec), None),
            other => (None, other),
        };
        runs.push(ClaimedRun {
            traceparent: wire::trace::parent(&run_id, leased.token.0),
            run_id,
            job_id: leased.run.job.to_string(),
            job_name,
            payload_base64: bytes.as_ref().map(|spec| BASE64.encode(&spec.payload)),
            content_type: bytes.map(|spec| spec.content_type.to_string()),
            previous_error: previous_error(api, &leased).await?,
            kind,
            attempt: leased.attempt,
            token: leased.token.0,
            group,
            payload: payload.map(|spec| json_or_text(&spec.payload)),
            scheduled_for: time(leased.nominal),
            due_at: time(leased.due),
            lease_expires_at: time(now.plus(leased.lease).min(leased.deadline)),
            deadline: time(leased.deadline),
            checkpoint: checkpoint(api, &leased).await?,
        });
    }
    Ok(runs)
}

async fn previous_error(api: &Api, leased: &Leased) -> Result<Option<String>, Refusal> {
    if leased.attempt <= 1 {
        return Ok(None);
    }
    let last = api.node.attempts_of(leased.run).await?.pop();
    Ok(last.and_then(|last| last.error).map(|error| error.to_string()))
}

async fn checkpoint(
    api: &Api,
    leased: &Leased,
) -> Result<Option<Box<serde_json::value::RawValue>>, Refusal> {
    if leased.checkpoint { stored_checkpoint(api, leased.run).await } else { Ok(None) }
}

/// What the last attempt that stored something stored for the next one.
pub async fn stored_checkpoint(
    api: &Api,
    run: RunId,
) -> Result<Option<Box<serde_json::value::RawValue>>, Refusal> {
    let read = Read::Rows(vec![Key::Checkpoint(run)]);
    Ok(match api.node.read(run.job.shard(), read).await? {
        Page::Rows(rows) => rows.into_iter().flatten().find_map(|row| match row {
            Row::Checkpoint(row) => Some(json_or_text(&row.bytes)),
            _ => None,
        }),
        _ => None,
    })
}

pub async fn heartbeat(
    State(api): Shared,
    Tenant(namespace): Tenant,
    caller: Caller,
    body: Bytes,
) -> Answered {
    let mut faults = Faults::default();
    let said = read_beats(json_text(&body)?, &mut faults);
    let items = said.runs;
    let mut shards: BTreeMap<ShardId, Vec<(usize, Beat)>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let checkpoint = item.checkpoint.as_ref();
        if checkpoint.is_some_and(|text| text.len() > CHECKPOINT_MAX) {
            faults.add(format!("/runs/{index}/checkpoint"), "a checkpoint has at most 64 KiB");
        }
        let checkpoint = checkpoint.map(|text| model::Bytes::from(text.as_bytes()));
        if let Some(run) = run_of(&item.run_id, index, &mut faults) {
            let beat = Beat { run, token: Token(item.token), checkpoint };
            shards.entry(run.job.shard()).or_default().push((index, beat));
        }
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    let signal = api.workers.heard(namespace, &said.worker, said.about.as_ref(), api.node.now());
    let mut results = vec![Value::Null; items.len()];
    let asked = shards.into_iter().map(|(shard, beats)| {
        let (api, caller) = (&api, &caller);
        async move {
            let runs = beats.iter().map(|(_, beat)| beat.run).collect();
            let foreign = foreign(api, namespace, caller, shard, runs).await?;
            let (others, own): (Vec<_>, Vec<_>) =
                beats.into_iter().partition(|(_, beat)| foreign.contains(&beat.run));
            let (places, beats): (Vec<usize>, Vec<Beat>) = own.into_iter().unzip();
            match api.node.call(shard, Command::Heartbeat(beats)).await {
                Answer::Beats(answers) => Ok((others, places, answers)),
                Answer::Refused(refused) => Err(Refusal::from(refused)),
                _ => Err(crate::refusal::unexpected()),
            }
        }
    });
    for heard in together(asked.collect()).await {
        let (others, places, answers) = heard?;
        for (index, beat) in others {
            results[index] = json!({"run_id": beat.run.to_string(), "status": "stale"});
        }
        for (index, (run, answer)) in places.into_iter().zip(answers) {
            if let Some(said) = &items[index].progress
                && !matches!(answer, BeatAnswer::Stale)
            {
                api.progress.note(run, items[index].token, said, api.node.now());
            }
            let run = run.to_string();
            results[index] = match answer {
                BeatAnswer::Ok { until } => {
                    json!({"run_id": run, "status": "ok", "lease_expires_at": time(until)})
                }
                BeatAnswer::Cancel => json!({"run_id": run, "status": "cancel"}),
                BeatAnswer::Stale => json!({"run_id": run, "status": "stale"}),
            };
        }
    }
    Ok(Json(json!({"results": results, "signal": signal.name()})).into_response())
}

pub async fn settle(
    State(api): Shared,
    Tenant(namespace): Tenant,
    caller: Caller,
    body: Bytes,
) -> Answered {
    let mut faults = Faults::default();
    let said = read_settles(json_text(&body)?, &mut faults);
    let items = said.runs;
    let count = items.len();
    let mut shards: BTreeMap<ShardId, Vec<(usize, Settle)>> = BTreeMap::new();
    for (index, item) in items.into_iter().enumerate() {
        let end = end_of(item.outcome, index, &mut faults);
        if let Some(run) = run_of(&item.run_id, index, &mut faults) {
            let settle = Settle { run, token: Token(item.token), end };
            shards.entry(run.job.shard()).or_default().push((index, settle));
        }
    }
    if !faults.is_empty() {
        return Err(Refusal::faults(faults));
    }
    api.workers.heard(namespace, &said.worker, said.about.as_ref(), api.node.now());
    let mut results = Vec::with_capacity(count);
    results.resize_with(count, SettledRun::default);
    let asked = shards.into_iter().map(|(shard, settles)| {
        let (api, caller) = (&api, &caller);
        async move {
            let runs = settles.iter().map(|(_, settle)| settle.run).collect();
            let foreign = foreign(api, namespace, caller, shard, runs).await?;
            let (others, own): (Vec<_>, Vec<_>) =
                settles.into_iter().partition(|(_, settle)| foreign.contains(&settle.run));
            let (places, settles): (Vec<usize>, Vec<Settle>) = own.into_iter().unzip();
            match api.node.call(shard, Command::Settle(settles)).await {
                Answer::Settled(answers) => Ok((others, places, answers)),
                Answer::Refused(refused) => Err(Refusal::from(refused)),
                _ => Err(crate::refusal::unexpected()),
            }
        }
    });
    for heard in together(asked.collect()).await {
        let (others, places, answers) = heard?;
        for (index, settle) in others {
            results[index] = SettledRun::stale(settle.run);
        }
        for (index, (run, answer)) in places.into_iter().zip(answers) {
            let mut result = SettledRun::stale(run);
            if let SettleAnswer::Ok { state, next } = answer {
                api.progress.forget(run);
                result.status = "ok";
                result.run_status = Some(name(state));
                result.next_attempt_at = next.map(time);
            }
            results[index] = result;
        }
    }
    Ok(Json(Settled { results }).into_response())
}

#[derive(serde::Serialize)]
struct Settled {
    results: Vec<SettledRun>,
}

#[derive(Default, serde::Serialize)]
struct SettledRun {
    run_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

impl SettledRun {
    fn stale(run: RunId) -> SettledRun {
        SettledRun { run_id: run.to_string(), status: "stale", ..SettledRun::default() }
    }
}

/// Runs of another namespace than the one a key is bound to: no token of theirs is valid for it.
/// Without such a key nobody is kept out, and nothing is read.
async fn foreign(
    api: &Api,
    namespace: Namespace,
    caller: &Caller,
    shard: ShardId,
    runs: Vec<RunId>,
) -> Result<BTreeSet<RunId>, Refusal> {
    if caller.namespace().is_none() {
        return Ok(BTreeSet::new());
    }
    let keys = runs.into_iter().map(Key::Run).collect();
    let rows = crate::find::rows(api, shard, keys).await?;
    let foreign = rows.into_iter().flatten().filter_map(|row| match row {
        Row::Run(row) if row.flow.namespace != namespace => Some(row.id),
        _ => None,
    });
    Ok(foreign.collect())
}

fn end_of(outcome: Outcome, index: usize, faults: &mut Faults) -> End {
    match outcome {
        Outcome::Succeeded { output } => {
            if output.as_ref().is_some_and(|output| output.len() > OUTPUT_MAX) {
                faults.add(format!("/runs/{index}/output"), "an output has at most 16 KiB");
            }
            End::Succeeded { output: output.map(|text| model::Bytes::from(text.as_bytes())) }
        }
        Outcome::Failed { code, message, retryable, retry_after } => End::Failed {
            error: Text::from(message),
            code: code.and_then(|code| u16::try_from(code).ok()),
            retryable,
            retry_after: retry_after.map(Span::from_micros),
        },
        Outcome::Snoozed { until } => End::Snoozed { until: Time::from_micros(until) },
        Outcome::Released => End::Released,
    }
}

fn run_of(text: &str, index: usize, faults: &mut Faults) -> Option<RunId> {
    let run = RunId::parse(text);
    if run.is_none() {
        faults.add(format!("/runs/{index}/run_id"), "this is not the id of a run");
    }
    run
}

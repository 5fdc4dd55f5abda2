//! Making a job that has a name: the name is reserved first, then the job is made (`node::names`). A
//! name belongs to one unfinished job of its namespace; when that has ended it can be taken again.

use crate::Api;
use crate::find;
use crate::limits::NAME_TRIES;
use crate::refusal::{Refusal, unexpected};
use hyper::StatusCode;
use model::row::{IdempotencyKey, JobState, Key, Made, Row};
use model::{Cause, JobId, Namespace, RunId};
use node::names::{self, Reserved};
use shard::command::{Answer, Command, NewJob, Submitted};
use store::search::filter::is_end;

/// Makes the job, with its name if it has one.
pub async fn submit(api: &Api, job: NewJob) -> Result<Submitted, Refusal> {
    node::queues::used(&api.node, job.spec.namespace, &job.spec.queue).await?;
    let Some(name) = job.spec.name.clone() else {
        return made(api, job).await;
    };
    let (namespace, id) = (job.spec.namespace, job.id);
    if let Some(taken) = reserve(api, namespace, &name, id).await? {
        // The same request again is answered by its key, and makes nothing.
        if is_known_key(api, &job).await? {
            return made(api, job).await;
        }
        return Err(taken_by(&name, taken));
    }
    let answer = made(api, job).await;
    let ours = matches!(&answer, Ok(submitted) if !submitted.replayed);
    let unknown = matches!(&answer, Err(refusal) if refusal.code == "outcome_unknown");
    if !ours && !unknown {
        // Nothing was made under it. If this fails too, the name is free in a minute by itself.
        let _ = names::free(&api.node, namespace, &name, id).await;
    }
    answer
}

async fn made(api: &Api, job: NewJob) -> Result<Submitted, Refusal> {
    match api.node.call(job.id.shard(), Command::Submit(vec![job])).await {
        Answer::Submitted(mut list) => Ok(list.pop().ok_or_else(unexpected)??),
        Answer::Refused(refused) => Err(refused.into()),
        _ => Err(unexpected()),
    }
}

fn taken_by(name: &str, job: JobId) -> Refusal {
    let detail = format!(
        "the name {name} belongs to {job}; PUT /v1/jobs/{name} changes it, DELETE /v1/jobs/{name} ends it"
    );
    Refusal::new(StatusCode::CONFLICT, "name_taken", detail)
}

/// Who has the name, if somebody lives under it.
async fn reserve(
    api: &Api,
    namespace: Namespace,
    name: &str,
    id: JobId,
) -> Result<Option<JobId>, Refusal> {
    for _ in 0..NAME_TRIES {
        let former = names::find(&api.node, namespace, name).await?;
        if let Some(former) = former
            && is_taken(api, former).await?
        {
            return Ok(Some(former.job));
        }
        if names::reserve(&api.node, namespace, name, former, id).await? {
            return Ok(None);
        }
    }
    let detail = "others want the same name at this moment; come back in a second";
    Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail))
}

/// Its job lives, or may still be made.
async fn is_taken(api: &Api, former: Reserved) -> Result<bool, Refusal> {
    if is_alive(api, former.job).await? {
        return Ok(true);
    }
    if !former.is_fresh(api.node.now()) {
        return Ok(false);
    }
    let run = RunId::new(former.job, Cause::OneOff);
    let ended = api.node.attempts_of(run).await?.last().is_some_and(is_end);
    Ok(!ended && !is_over(api, former.job).await?)
}

/// An unfinished job with this id.
pub async fn is_alive(api: &Api, id: JobId) -> Result<bool, Refusal> {
    let keys = vec![Key::Job(id), Key::Run(RunId::new(id, Cause::OneOff))];
    let rows = find::rows(api, id.shard(), keys).await?;
    Ok(rows.into_iter().flatten().any(|row| match row {
        Row::Job(job) => matches!(job.state, JobState::Active | JobState::Paused),
        Row::Run(_) => true,
        _ => false,
    }))
}

/// A recurring job that is there and has ended.
pub async fn is_over(api: &Api, id: JobId) -> Result<bool, Refusal> {
    let rows = find::rows(api, id.shard(), vec![Key::Job(id)]).await?;
    Ok(rows.into_iter().flatten().any(|row| matches!(row, Row::Job(_))))
}

async fn is_known_key(api: &Api, job: &NewJob) -> Result<bool, Refusal> {
    let Some(key) = &job.key else { return Ok(false) };
    let key = Key::Idempotency(IdempotencyKey {
        namespace: job.spec.namespace,
        queue: job.spec.queue.clone(),
        group: None,
        key: key.key.clone(),
    });
    Ok(find::rows(api, job.id.shard(), vec![key]).await?.into_iter().flatten().next().is_some())
}

/// The id of the job that was made.
pub fn id_of(submitted: &Submitted) -> JobId {
    match submitted.made {
        Made::Job(id) => id,
        Made::Run(run) => run.job,
        Made::Backlog(backlog) => backlog.job,
    }
}

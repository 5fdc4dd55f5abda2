//! One page of an outbox becomes jobs, in the order of its rows.

use crate::door::RequestId;
use crate::jobs::{HeaderKey, adds, asked_by, json_text, read};
use crate::limits::{
    OUTBOX_CALL_WAIT, OUTBOX_KEY_TRUSTED, OUTBOX_PAGE_TRUSTED, OUTBOX_PROBLEM_MAX, REQUEST_ID_MAX,
};
use crate::quota::Submitter;
use crate::refusal::{Refusal, unexpected};
use crate::tenant::Caller;
use crate::{Api, naming};
use futures_util::future::join_all;
use model::{Cause, JobId, Namespace, RunId, ShardId, Slot, Time};
use shard::command::{Answer, Command, NewJob, Submitted};
use std::collections::BTreeMap;
use store::outbox::{Refused, Row};

/// What became of a page.
#[derive(Debug, Default)]
pub struct Round {
    pub delivered: Vec<i64>,
    pub refused: Vec<Refused>,
    /// Queues whose rows were not taken, and why. Their rows stay.
    pub stuck: BTreeMap<String, String>,
    /// The namespace's quota is used up: the rest of the page waits.
    pub over_quota: Option<String>,
}

/// The hash that makes ids of jobs; it never changes, because a row that comes again is known by it.
const ID_SEED: u64 = 0x006f_7574_626f_7831;

/// `began`: when the page was asked for.
pub async fn deliver(
    api: &Api,
    submitter: &Submitter,
    source: &str,
    rows: &[Row],
    began: Time,
) -> Round {
    let namespace = submitter.tenant.0;
    let mut maker = Maker { api, began, round: Round::default(), pending: Vec::new() };
    let mut newest = Time::MIN;
    for row in rows {
        if maker.round.stuck.contains_key(&row.queue) {
            continue;
        }
        if let Err(over) = submitter.take(api, 1, row.job.len() as u64) {
            maker.round.over_quota = Some(over.detail);
            break;
        }
        // In a page ids of jobs grow with ids of rows, also when the database's clock stepped back:
        // what is due at the same instant starts in the order of ids.
        newest = newest.max(row.at).min(began);
        match job(api, namespace, source, row, newest) {
            Ok(job) => {
                if let Err(over) = submitter.admit(api, adds(&job.spec), 0).await {
                    maker.round.over_quota = Some(over.detail);
                    break;
                }
                maker.take(row, job).await;
            }
            Err(refusal) => maker.judge(row, Err(refusal)),
        }
    }
    maker.flush().await;
    maker.round
}

/// Read by the code that reads the body of `POST /v1/jobs`. Its id is made of the row, so that the same
/// row is the same job even when its key is forgotten.
fn job(
    api: &Api,
    namespace: Namespace,
    source: &str,
    row: &Row,
    at: Time,
) -> Result<NewJob, Refusal> {
    let text = json_text(row.job.as_bytes())?;
    let key = HeaderKey::Outbox(format!("outbox-{}", row.key));
    let mut job = read(api, namespace, text, "", Some(key))?;
    job.id = job_id(row, at, Slot::of(namespace, &job.spec.queue, 0));
    let request: String =
        format!("outbox-{source}-{}", row.id).chars().take(REQUEST_ID_MAX).collect();
    Ok(asked_by(job, &RequestId(request.into()), &Caller(None)))
}

fn job_id(row: &Row, at: Time, slot: Slot) -> JobId {
    let hash = model::hash::hash(ID_SEED, row.key.as_bytes()) & 0xffff_ffff;
    JobId::mint(at, slot, (row.id as u64) << 32 | hash)
}

struct Maker<'a> {
    api: &'a Api,
    began: Time,
    round: Round,
    /// Jobs without names that wait to be sent together.
    pending: Vec<(&'a Row, NewJob)>,
}

impl<'a> Maker<'a> {
    async fn take(&mut self, row: &'a Row, job: NewJob) {
        // Keys are known for a day. An older row may be one that was submitted before that, by a
        // process that died before it could delete it.
        if row.age > OUTBOX_KEY_TRUSTED {
            match is_known(self.api, &job).await {
                Ok(false) => {}
                Ok(true) => return self.round.delivered.push(row.id),
                Err(refusal) => return self.judge(row, Err(refusal)),
            }
        }
        if job.spec.name.is_none() {
            return self.pending.push((row, job));
        }
        // A name is reserved on its own, and what came before goes first.
        self.flush().await;
        if self.round.stuck.contains_key(&row.queue) {
            return;
        }
        let answer = match self.is_stale() {
            true => Err(stale()),
            false => naming::submit(self.api, job).await,
        };
        self.judge(row, answer);
    }

    /// A process that was frozen with a page in its hands does not know what became of the rows since.
    fn is_stale(&self) -> bool {
        self.api.node.now().since(self.began) > OUTBOX_PAGE_TRUSTED
    }

    /// Sends what is pending: the jobs of a shard together, all shards at once.
    async fn flush(&mut self) {
        let mut shards: BTreeMap<ShardId, (Vec<&'a Row>, Vec<NewJob>)> = BTreeMap::new();
        for (row, job) in std::mem::take(&mut self.pending) {
            if self.round.stuck.contains_key(&row.queue) {
                continue;
            }
            let spec = &job.spec;
            if let Err(reading) =
                node::queues::used(&self.api.node, spec.namespace, &spec.queue).await
            {
                self.judge(row, Err(Refusal::from(reading)));
                continue;
            }
            let (rows, jobs) = shards.entry(job.id.shard()).or_default();
            rows.push(row);
            jobs.push(job);
        }
        if self.is_stale() {
            let rows = shards.into_values().flat_map(|(rows, _)| rows);
            return rows.for_each(|row| self.judge(row, Err(stale())));
        }
        let node = &self.api.node;
        let answers = join_all(shards.into_iter().map(|(shard, (rows, jobs))| async move {
            (rows, node.call_for(shard, Command::Submit(jobs), OUTBOX_CALL_WAIT).await)
        }))
        .await;
        for (rows, answer) in answers {
            match answer {
                Answer::Submitted(answers) => {
                    for (row, answer) in rows.into_iter().zip(answers) {
                        self.judge(row, answer.map_err(Refusal::from));
                    }
                }
                Answer::Refused(why) => {
                    rows.into_iter().for_each(|row| self.judge(row, Err(Refusal::from(why))));
                }
                _ => rows.into_iter().for_each(|row| self.judge(row, Err(unexpected()))),
            }
        }
    }

    fn judge(&mut self, row: &Row, answer: Result<Submitted, Refusal>) {
        match answer {
            Ok(_) => self.round.delivered.push(row.id),
            // The id is made of the row: it is this very job.
            Err(refusal) if refusal.code == "taken" => self.round.delivered.push(row.id),
            Err(refusal) if is_final(&refusal) => self.round.refused.push(Refused {
                id: row.id,
                code: refusal.code.to_string(),
                problem: problem(&refusal),
            }),
            Err(refusal) => {
                self.round.stuck.entry(row.queue.clone()).or_insert(refusal.detail);
            }
        }
    }
}

fn stale() -> Refusal {
    let detail = "the page was read too long ago; it is read again";
    Refusal::new(hyper::StatusCode::SERVICE_UNAVAILABLE, "stale_page", detail)
}

/// Will the same job be refused tomorrow?
fn is_final(refusal: &Refusal) -> bool {
    refusal.status.is_client_error() && refusal.status.as_u16() != 429
}

/// Every fault in words, as text that PostgreSQL can keep.
fn problem(refusal: &Refusal) -> String {
    let words: Vec<String> = match refusal.errors.is_empty() {
        true => vec![refusal.detail.clone()],
        false => {
            let each = refusal.errors.iter();
            each.map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
        }
    };
    words.join("; ").replace('\0', "?").chars().take(OUTBOX_PROBLEM_MAX).collect()
}

/// Was the job made before, whatever became of it?
async fn is_known(api: &Api, job: &NewJob) -> Result<bool, Refusal> {
    if naming::is_alive(api, job.id).await? || naming::is_over(api, job.id).await? {
        return Ok(true);
    }
    let run = RunId::new(job.id, Cause::OneOff);
    Ok(!api.node.attempts_of(run).await?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use model::Span;

    fn row(id: i64) -> Row {
        let (key, at) = (format!("key-{id}"), Time::from_secs(1_000));
        let (queue, job) = ("default".to_string(), "{}".to_string());
        Row { id, key, at, age: Span::ZERO, queue, job }
    }

    #[test]
    fn ids_of_jobs_grow_with_ids_of_rows_and_come_again() {
        let slot = Slot::of(Namespace(0), "default", 0);
        let at = Time::from_secs(1_000);
        let ids: Vec<JobId> = [1, 2, 255, 256, 1 << 31].map(|id| job_id(&row(id), at, slot)).into();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        assert_eq!(ids[0], job_id(&row(1), at, slot), "the same row is the same job");
        let restored = Row { key: "another".to_string(), ..row(1) };
        assert_ne!(ids[0], job_id(&restored, at, slot), "an id that was given twice is another");
        assert_eq!(ids[0].slot(), slot);
    }

    #[test]
    fn what_may_pass_is_not_moved_aside() {
        let refusal = |status| Refusal::new(status, "code", "detail");
        for passes in [429, 500, 503, 507] {
            assert!(!is_final(&refusal(StatusCode::from_u16(passes).expect("a status"))));
        }
        for stays in [400, 409, 422] {
            assert!(is_final(&refusal(StatusCode::from_u16(stays).expect("a status"))));
        }
        assert_eq!(problem(&Refusal::new(StatusCode::CONFLICT, "code", "a\0b")), "a?b");
    }
}

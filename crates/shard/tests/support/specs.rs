//! What tests submit and ask, in few words.

use super::START;
use model::row::Holder;
use model::{
    Bytes, CatchUp, Cause, JobId, Namespace, Overlap, Policy, RunId, ScheduleSpec, Span, Spec,
    Target, Text, Time, Token, When,
};
use shard::command::{Answer, End, KeyOf, Leased};
use std::sync::Arc;

pub fn leases(answer: Answer) -> Vec<Leased> {
    match answer {
        Answer::Claimed(leased) => leased,
        other => panic!("{other:?}"),
    }
}

pub fn tokens(leases: &[Leased]) -> Vec<(RunId, Token)> {
    leases.iter().map(|leased| (leased.run, leased.token)).collect()
}

pub fn one_off(job: JobId) -> RunId {
    RunId::new(job, Cause::OneOff)
}

pub fn occurrence(job: JobId, at: Time) -> RunId {
    RunId::new(job, Cause::Occurrence(at))
}

pub fn worker() -> Holder {
    Holder::Worker("worker".into())
}

pub fn failed(retryable: bool, retry_after: Option<Span>) -> End {
    End::Failed { error: "it broke".into(), code: Some(500), retryable, retry_after }
}

pub fn key(text: &str, body: u64) -> Option<KeyOf> {
    Some(KeyOf { key: text.into(), body })
}

pub fn bytes(text: &str) -> Bytes {
    Arc::from(text.as_bytes())
}

pub fn spec(when: When) -> Spec {
    Spec {
        namespace: Namespace(1),
        name: None,
        owner: None,
        tags: Vec::new(),
        schedule: ScheduleSpec::new(when),
        target: Target::Worker { kind: "send".into() },
        payload: bytes("{}"),
        content_type: "application/json".into(),
        queue: "mail".into(),
        group: None,
        priority: 5,
        policy: Policy::default(),
        overlap: Overlap::default(),
        catch_up: CatchUp::default(),
        permanent: None,
        within: model::Within::default(),
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
    }
}

pub fn now() -> Spec {
    spec(When::Now)
}

pub fn after(secs: i64) -> Spec {
    spec(When::Delay(Span::from_secs(secs)))
}

pub fn every(secs: i64) -> Spec {
    spec(When::Every(Span::from_secs(secs)))
}

pub fn with_overlap(secs: i64, overlap: Overlap) -> Spec {
    Spec { overlap, ..every(secs) }
}

pub fn with_catch_up(secs: i64, catch_up: CatchUp) -> Spec {
    Spec { catch_up, ..every(secs) }
}

pub fn grouped(group: &str) -> Spec {
    Spec { group: Some(Text::from(group)), ..now() }
}

pub fn start_plus(secs: i64) -> Time {
    START.plus(Span::from_secs(secs))
}

//! Tries a target: one signed request now, and what came of it. Nothing is stored.

use crate::jobs::json_text;
use crate::limits::{
    PAYLOAD_MAX, TARGET_TEST_BODY, TARGET_TEST_TIMEOUT, TIMEOUT_HTTP, TIMEOUT_MIN,
};
use crate::refusal::{Answered, Refusal};
use crate::tenant::Tenant;
use crate::{DEFAULT, Shared, spec_target};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::StatusCode;
use model::{Namespace, Span, Target, Time};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use wire::job::{TargetRequest, read_target};
use wire::{Faults, Object, webhook};

#[derive(Debug)]
pub struct TargetTest {
    pub namespace: Namespace,
    pub target: Target,
    pub payload: String,
    pub timeout: Span,
    pub now: Time,
}

#[derive(Debug)]
pub struct TargetTested {
    /// In place of a run's id: what the receiver saw as `X-Run-Id`.
    pub id: String,
    pub code: Option<u16>,
    pub body: Vec<u8>,
    pub took: Span,
    /// Why there was no answer.
    pub error: Option<String>,
    /// What the answer would mean for a run: succeeded, retrying, dead.
    pub meaning: &'static str,
}

pub type Testing = Pin<Box<dyn Future<Output = TargetTested> + Send>>;

pub trait TargetTester: Debug + Send + Sync {
    /// None: enough tests are under way.
    fn test(&self, test: TargetTest) -> Option<Testing>;
}

pub async fn test(State(api): Shared, Tenant(namespace): Tenant, body: Bytes) -> Answered {
    let test = TargetTest { namespace, ..read(&body, api.node.now())? };
    let Some(testing) = api.tester.test(test) else {
        let detail = "enough targets are being tested; come back in a second";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail));
    };
    let tested = testing.await;
    let start = &tested.body[..tested.body.len().min(TARGET_TEST_BODY)];
    Ok(Json(webhook::TargetTested {
        run_status: tested.meaning,
        status: tested.code,
        duration_ms: tested.took.micros() / 1_000,
        body: String::from_utf8_lossy(start).into_owned(),
        id: tested.id,
        error: tested.error,
    })
    .into_response())
}

fn read(body: &[u8], now: Time) -> Result<TargetTest, Refusal> {
    let mut faults = Faults::default();
    match fields(json_text(body)?, now, &mut faults) {
        Some(test) if faults.is_empty() => Ok(test),
        _ => Err(Refusal::faults(faults)),
    }
}

pub fn read_only(text: &str, faults: &mut Faults) {
    fields(text, Time::MIN, faults);
}

fn fields(text: &str, now: Time, faults: &mut Faults) -> Option<TargetTest> {
    let mut object = Object::read(text, "", faults)?;
    let request = object.object("target", faults).and_then(|target| read_target(target, faults));
    let payload = object.raw("payload").map_or("{}", |raw| raw.get()).to_string();
    let timeout = object.span("timeout", faults).map_or(TARGET_TEST_TIMEOUT, Span::from_micros);
    object.finish(faults);
    if timeout < TIMEOUT_MIN || timeout > TIMEOUT_HTTP {
        faults.add("/timeout", "the timeout of a test lies between 100ms and 30s");
    }
    if payload.len() > PAYLOAD_MAX {
        faults.add("/payload", "a payload has at most 256 KiB");
    }
    let target = match request {
        Some(request @ TargetRequest::Http { .. }) => spec_target::of(request, "", faults),
        Some(_) => {
            faults.add("/target", "only http targets can be tested");
            None
        }
        None if faults.is_empty() => {
            faults.add("/target", "a target is missing: {\"http\":{…}}");
            None
        }
        None => None,
    };
    Some(TargetTest { namespace: DEFAULT, target: target?, payload, timeout, now })
}

//! The versions of a job's definition that are kept: what each said, who made it, since when, and how
//! it differs from the one before; and going back to one.
//!
//! Going back is a verb of its own and not a PUT of what was read, because what is read is not all:
//! a broker's password is covered, and a client may have rounded the numbers of a payload.

use crate::door::RequestId;
use crate::job_patch::{IfMatch, if_match};
use crate::job_read::{self, etag};
use crate::job_update::{keep_anchor, mismatch, update};
use crate::refusal::{Answered, Refusal};
use crate::run_read::time;
use crate::tenant::{Caller, Tenant};
use crate::{Api, Shared, changed, definition, find};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode};
use model::row::{JobRow, Key, Row};
use model::{Author, JobId, Namespace, Origin, Spec};
use shard::limits::VERSIONS_KEPT;
use std::ops::RangeInclusive;
use std::sync::Arc;
use wire::Faults;
use wire::answer::{JobVersion, JobVersionBy, JobVersions};

const WHAT: &str = "versions";

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(job): Path<String>,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let (row, _) = find::recurring(&api, namespace, id, WHAT).await?;
    let kept = read(&api, id, up_to(row.version)).await?;
    let items = (0..kept.len()).map(|at| shown(&row, &kept[at..])).collect();
    Ok(Json(JobVersions { items }).into_response())
}

pub async fn show(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path((job, version)): Path<(String, String)>,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let (row, _) = find::recurring(&api, namespace, id, WHAT).await?;
    let kept = find_version(&api, &row, &version).await?;
    Ok(Json(shown(&row, &kept)).into_response())
}

/// The definition of a former version becomes that of a new one.
pub async fn restore(
    State(api): Shared,
    Tenant(namespace): Tenant,
    caller: Caller,
    request_id: RequestId,
    Path((job, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answered {
    let id = find::job(&api, namespace, &job).await?;
    let wanted = if_match(&headers)?;
    let (row, old) = find::recurring(&api, namespace, id, WHAT).await?;
    if let IfMatch::Version(wanted) = wanted
        && wanted != row.version
    {
        return Err(mismatch(row.version));
    }
    let kept = find_version(&api, &row, &version).await?;
    let former = &kept[0].1;
    let same = Spec {
        name: old.name.clone(),
        request_id: old.request_id.clone(),
        origin: old.origin.clone(),
        ..(**former).clone()
    };
    let new = keep_anchor(&row, &old, same.clone(), api.node.now());
    if same != *old && new != *old {
        // What is allowed may have changed since.
        let mut faults = Faults::default();
        api.allows(&new.target, "", &mut faults);
        if !faults.is_empty() {
            return Err(Refusal::faults(faults));
        }
        let new = made_by(Spec { request_id: Some(request_id.0), ..new }, &caller);
        update(&api, id, &old, new, Some(row.version)).await?;
    }
    answer(&api, namespace, id).await
}

async fn answer(api: &Api, namespace: Namespace, id: JobId) -> Answered {
    let job = job_read::read(api, namespace, id).await?;
    Ok(([("etag", etag(job.version).as_str())], Json(job)).into_response())
}

/// Writes down who makes a version. The core adds since when. A job that runs once has no versions to
/// look at, and is one of very many.
pub fn sign(spec: &mut Spec, caller: &Caller) {
    let by = match &caller.0 {
        _ if !spec.schedule.is_recurring() => Author::NotKnown,
        None => Author::NoKey,
        Some(key) => {
            Author::Key { id: key.id.as_str().into(), name: key.name.as_deref().map(Into::into) }
        }
    };
    spec.origin = Origin { since: None, by };
}

pub fn made_by(mut spec: Spec, caller: &Caller) -> Spec {
    sign(&mut spec, caller);
    spec
}

/// The versions that can be there up to this one, without those that only runs keep.
fn up_to(version: u32) -> RangeInclusive<u32> {
    (version + 1).saturating_sub(VERSIONS_KEPT).max(1)..=version
}

/// What the store has of them, newest first.
async fn read(
    api: &Api,
    id: JobId,
    versions: RangeInclusive<u32>,
) -> Result<Vec<(u32, Arc<Spec>)>, Refusal> {
    let keys: Vec<Key> = versions.clone().rev().map(|version| Key::Spec(id, version)).collect();
    let rows = find::rows(api, id.shard(), keys).await?;
    let found = versions.rev().zip(rows).filter_map(|(version, row)| match row {
        Some(Row::Spec(spec)) => Some((version, spec)),
        _ => None,
    });
    Ok(found.collect())
}

/// The version that an address names, and those before it.
async fn find_version(
    api: &Api,
    row: &JobRow,
    text: &str,
) -> Result<Vec<(u32, Arc<Spec>)>, Refusal> {
    let wanted = text.parse().ok().filter(|version| (1..=row.version).contains(version));
    let Some(wanted) = wanted else { return Err(Refusal::not_found("version")) };
    let kept = read(api, row.id, up_to(wanted)).await?;
    match kept.first() {
        Some((found, _)) if *found == wanted => Ok(kept),
        _ => {
            let detail = format!(
                "version {wanted} is not kept any more; GET /v1/jobs/{}/versions lists those that are",
                row.id
            );
            Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", detail))
        }
    }
}

/// The first of these, compared with the second.
fn shown(row: &JobRow, kept: &[(u32, Arc<Spec>)]) -> JobVersion {
    let (version, spec) = &kept[0];
    let before = kept.get(1);
    let since = match *version {
        1 => Some(row.created),
        version if version == row.version => Some(row.versioned),
        _ => spec.origin.since,
    };
    let (kind, key_id, name) = match &spec.origin.by {
        Author::NotKnown => ("unknown", None, None),
        Author::NoKey => ("no_key", None, None),
        Author::Key { id, name } => ("key", Some(id.to_string()), name.as_deref()),
    };
    JobVersion {
        version: *version,
        in_force: *version == row.version,
        since: since.map(time),
        by: JobVersionBy { kind, key_id, name: name.map(str::to_string) },
        changed_from: before.map(|(version, _)| *version),
        changed: before.map(|(_, before)| changed::paths(before, spec)),
        definition: definition::shown(spec),
    }
}

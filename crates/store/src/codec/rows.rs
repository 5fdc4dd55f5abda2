//! Rows of the model from their columns, in the order in which every database has them. Where a
//! database keeps its own columns between, it reads up to there itself.

use super::columns::{Cols, Raw};
use super::encode;
use model::row::{BacklogId, BacklogRow, HistoryRow, Holder, JobRow, LeaseRow, Pause, RunRow};
use model::{FlowKey, JobId, Namespace, NodeId, Policy, RunId, Spec, Status, Token};
use std::sync::Arc;

/// From the state on.
pub fn run<'a, R: Raw<'a>>(cols: &mut Cols<R>, id: RunId, rev: u32) -> Result<RunRow, R::Fault> {
    Ok(RunRow {
        id,
        rev,
        state: cols.code()?,
        due: cols.time()?,
        nominal: cols.time()?,
        flow: flow(cols)?,
        version: cols.num()?,
        attempts: cols.num()?,
        retries: cols.num()?,
        lost: cols.num()?,
        replays: cols.num()?,
        policy: Policy {
            max_retries: cols.num()?,
            initial: cols.span()?,
            factor: cols.num()?,
            cap: cols.span()?,
            max_lost: cols.num()?,
            timeout: cols.span()?,
        },
        checkpoint: cols.num()?,
        fresh: cols.flag()?,
        start_by: cols.opt_time()?,
        finish_by: cols.opt_time()?,
        body: None,
    })
}

pub fn flow<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<FlowKey, R::Fault> {
    Ok(FlowKey {
        namespace: Namespace(cols.num()?),
        queue: cols.text()?,
        kind: cols.text()?,
        priority: cols.num()?,
        lane: cols.code()?,
        group: cols.group()?,
    })
}

/// A spec from the two columns body and payload.
pub fn spec<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<Arc<Spec>, R::Fault> {
    let body = cols.blob()?;
    let payload = cols.bytes()?;
    encode::decode(body, payload).map(Arc::new).ok_or_else(|| cols.odd_before(1))
}

/// From `due` on.
pub fn job<'a, R: Raw<'a>>(cols: &mut Cols<R>, id: JobId, rev: u32) -> Result<JobRow, R::Fault> {
    Ok(JobRow {
        id,
        rev,
        due: cols.opt_time()?,
        namespace: Namespace(cols.num()?),
        state: cols.code()?,
        version: cols.num()?,
        created: cols.time()?,
        versioned: cols.time()?,
        mark: cols.time()?,
        next: cols.opt_time()?,
        fired: cols.bits()?,
        live: live(cols)?,
        active: cols.opt_run()?,
        waiting: cols.opt_run()?,
        pause: pause(cols)?,
        reruns: cols.num()?,
        backfills: cols.num()?,
        sweep: cols.flag()?,
        delete: cols.flag()?,
    })
}

fn pause<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<Option<Pause>, R::Fault> {
    let (since, until, reason) = (cols.opt_time()?, cols.opt_time()?, cols.opt_text()?);
    match (since, reason) {
        (Some(since), Some(reason)) => Ok(Some(Pause { since, until, reason })),
        (None, None) => Ok(None),
        _ => Err(cols.odd()),
    }
}

/// Unfinished runs per version: `version:runs version:runs`.
pub fn live_text(live: &[(u32, u32)]) -> String {
    let parts: Vec<String> =
        live.iter().map(|(version, runs)| format!("{version}:{runs}")).collect();
    parts.join(" ")
}

fn live<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<Vec<(u32, u32)>, R::Fault> {
    let parts = cols.str()?.split_ascii_whitespace().map(|part| {
        let (version, runs) = part.split_once(':')?;
        Some((version.parse().ok()?, runs.parse().ok()?))
    });
    parts.collect::<Option<Vec<_>>>().ok_or_else(|| cols.odd())
}

/// From `due` on.
pub fn backlog<'a, R: Raw<'a>>(
    cols: &mut Cols<R>,
    id: BacklogId,
    rev: u32,
) -> Result<BacklogRow, R::Fault> {
    Ok(BacklogRow {
        id,
        rev,
        due: cols.time()?,
        cursor: cols.time()?,
        until: cols.time()?,
        per_second: cols.num()?,
        only: cols.code()?,
        version: cols.num()?,
        versioned: cols.time()?,
        done: cols.bits()?,
        total: cols.bits()?,
    })
}

/// From `run` on.
pub fn lease<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<LeaseRow, R::Fault> {
    Ok(LeaseRow {
        run: cols.run()?,
        rev: cols.num()?,
        attempt: cols.num()?,
        token: Token(cols.bits()?),
        holder: holder(cols)?,
        length: cols.span()?,
        started: cols.time()?,
        deadline: cols.time()?,
        request: cols.bits()?,
        cancel: cols.flag()?,
    })
}

fn holder<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<Holder, R::Fault> {
    match cols.opt_text()? {
        Some(worker) => {
            cols.skip(2);
            Ok(Holder::Worker(worker))
        }
        None => Ok(Holder::Node(NodeId { node: cols.num()?, boot: cols.bits()? })),
    }
}

/// From `run` on.
pub fn history<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<HistoryRow, R::Fault> {
    let mut row = HistoryRow {
        run: cols.run()?,
        token: Token(cols.bits()?),
        attempt: cols.num()?,
        namespace: Namespace(cols.num()?),
        nominal: cols.time()?,
        due: cols.time()?,
        started: cols.opt_time()?,
        finished: cols.time()?,
        version: cols.num()?,
        status: cols.code()?,
        worker: cols.opt_text()?,
        code: match cols.opt_int()? {
            Some(code) => Some(u16::try_from(code).map_err(|_| cols.odd())?),
            None => None,
        },
        error: cols.opt_text()?,
        output: cols.opt_blob()?.map(Into::into),
        after: cols.code()?,
        next: cols.opt_time()?,
        until: cols.opt_time()?,
        count: cols.bits()?,
        flow: None,
    };
    if row.token == Token::DELAYED {
        row.status = Status::Delayed;
    }
    let namespace = match cols.opt_int()? {
        Some(other) => Namespace(u32::try_from(other).map_err(|_| cols.odd())?),
        None => row.namespace,
    };
    if let Some(queue) = cols.opt_text()? {
        row.flow = Some(FlowKey {
            namespace,
            queue,
            kind: cols.text()?,
            priority: cols.num()?,
            lane: cols.code()?,
            group: cols.group()?,
        });
    }
    Ok(row)
}

//! Reads: which table answers what. All reads of a call see one state of the database.

use crate::batch::Arrays;
use crate::cols::cols;
use crate::conn::{Conn, Param};
use crate::error::Res;
use crate::limits::MANY_READS;
use crate::put::place;
use crate::table::Table;
use crate::{claims, history, jobs, keys, queues, runs, starts, wheel};
use model::id::ShardId;
use model::read::{Bucket, Page, Read};
use model::row::{Key, Row};
use model::{RunId, Spec};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use store::codec::ids::job_bytes;
use store::codec::rows;
use tokio_postgres::types::Type;

pub(crate) fn pages(conn: &mut Conn, reads: &[(ShardId, Read)]) -> Res<Vec<Page>> {
    let some = present(conn, reads)?;
    let answer = |((shard, read), some): (&(ShardId, Read), bool)| match (read, some) {
        (Read::Leases { .. }, false) => Ok(Page::Leases(Vec::new())),
        (Read::Holds, false) => Ok(Page::Holds(Vec::new())),
        (Read::Queues, false) => Ok(Page::Queues(Vec::new())),
        (Read::Flows { .. }, false) => Ok(Page::Flows(Vec::new())),
        (Read::Due { .. }, false) => Ok(Page::Due { rows: Vec::new(), next: None }),
        _ => page(conn, *shard, read),
    };
    reads.iter().zip(some).map(answer).collect()
}

/// Is there anything to read? A node that takes shards asks the same of all of them, and most have
/// nothing: one statement finds out which. Each part reads the first entry of an index, in its order,
/// so that no plan looks through a table for what is not there.
fn present(conn: &mut Conn, reads: &[(ShardId, Read)]) -> Res<Vec<bool>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let (ready, leases) = (starts::ready("x.shard"), starts::leases("x.shard"));
        format!(
            "SELECT x.n, CASE x.kind
          WHEN 1 THEN (SELECT 1 FROM duly.leases AS l WHERE l.shard = x.shard AND l.token >= {leases}
            ORDER BY l.shard, l.token LIMIT 1) IS NOT NULL
          WHEN 2 THEN (SELECT 1 FROM duly.holds AS h WHERE h.shard = x.shard
            ORDER BY h.shard, h.scope, h.namespace, h.queue LIMIT 1) IS NOT NULL
          WHEN 5 THEN (SELECT 1 FROM duly.queues AS q WHERE q.shard = x.shard
            ORDER BY q.shard, q.namespace, q.queue LIMIT 1) IS NOT NULL
          WHEN 3 THEN (SELECT 1 FROM duly.runs AS r WHERE r.state = 2 AND r.shard = x.shard
            AND r.due >= {ready} ORDER BY r.shard, r.namespace, r.queue, r.kind, r.priority, r.lane, r.grp LIMIT 1)
            IS NOT NULL
          ELSE (SELECT 1 FROM duly.runs AS r WHERE r.shard = x.shard AND r.bucket IS NOT NULL
              AND r.bucket >= x.first AND r.bucket < x.until
              ORDER BY r.shard, r.bucket, r.id LIMIT 1) IS NOT NULL
            OR (SELECT 1 FROM duly.jobs AS j WHERE j.shard = x.shard AND j.bucket IS NOT NULL
              AND j.bucket >= x.first AND j.bucket < x.until
              ORDER BY j.shard, j.bucket, j.id LIMIT 1) IS NOT NULL
            OR (SELECT 1 FROM duly.backlogs AS b WHERE b.shard = x.shard
              AND b.bucket >= x.first AND b.bucket < x.until
              ORDER BY b.shard, b.bucket, b.id LIMIT 1) IS NOT NULL
          END
        FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS x(shard, kind, first, until, n)"
        )
    });
    let mut some = vec![true; reads.len()];
    let (mut at, mut arrays) = (Vec::new(), [const { Vec::<i64>::new() }; 4]);
    for (place, (shard, read)) in reads.iter().enumerate() {
        let (kind, first, until) = match read {
            Read::Leases { .. } => (1, 0, 0),
            Read::Holds => (2, 0, 0),
            Read::Queues => (5, 0, 0),
            Read::Flows { .. } => (3, 0, 0),
            Read::Due { from, before, .. } => {
                (4, Bucket::earliest(*from).start.micros(), before.micros())
            }
            _ => continue,
        };
        at.push(place);
        let values = [i64::from(shard.0), kind, first, until];
        arrays.iter_mut().zip(values).for_each(|(array, value)| array.push(value));
    }
    if at.len() < MANY_READS {
        return Ok(some);
    }
    let params: Vec<Param<'_>> = arrays.iter().map(|a| (a as _, Type::INT8_ARRAY)).collect();
    for row in conn.query(&SQL, &params)? {
        let n: usize = cols(&row, "shards", 0).num()?;
        if let Some(place) = at.get(n.saturating_sub(1)) {
            some[*place] = row.try_get(1)?;
        }
    }
    Ok(some)
}

/// Are these answered by one statement, which sees one state by itself?
pub(crate) fn is_one_statement(reads: &[(ShardId, Read)]) -> bool {
    let [(_, read)] = reads else { return reads.is_empty() };
    match read {
        // History lies in several tables, which are listed first.
        Read::Rows(keys) => {
            keys.windows(2).all(|two| from(&two[0]) == from(&two[1]))
                && keys.first().is_none_or(|key| from(key) != From::History)
        }
        Read::Due { .. } | Read::Outcomes { .. } | Read::Spec { .. } => false,
        Read::Flow { .. }
        | Read::Flows { .. }
        | Read::Leases { .. }
        | Read::Holds
        | Read::Queues
        | Read::RunsOf { .. } => true,
    }
}

fn page(conn: &mut Conn, shard: ShardId, read: &Read) -> Res<Page> {
    Ok(match read {
        Read::Rows(keys) => Page::Rows(rows(conn, shard, keys)?),
        Read::Due { from, before, after, limit } => {
            wheel::page(conn, shard, *from..*before, *after, *limit)?
        }
        Read::Flow { flow, after, limit } => {
            Page::Runs(runs::of_flow(conn, shard, flow, *after, *limit)?)
        }
        Read::Flows { after, limit } => {
            Page::Flows(runs::flows(conn, shard, after.as_ref(), *limit)?)
        }
        Read::Leases { after, limit } => Page::Leases(claims::leases(conn, shard, *after, *limit)?),
        Read::Holds => Page::Holds(claims::holds(conn, shard)?),
        Read::Queues => Page::Queues(queues::all(conn, shard)?),
        Read::RunsOf { job, after, limit } => {
            Page::Runs(runs::of_job(conn, shard, *job, *after, *limit)?)
        }
        Read::Spec { run, version } => {
            Page::Spec(specs(conn, &[(*run, *version)])?.into_iter().next().flatten())
        }
        Read::Outcomes { job, after, until, limit } => {
            Page::Outcomes(history::outcomes(conn, shard, *job, (*after, *until), *limit)?)
        }
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Runs,
    Leases,
    Jobs,
    Specs,
    Backlogs,
    Keys,
    Checkpoints,
    Holds,
    Queues,
    History,
}

fn from(key: &Key) -> From {
    match key {
        Key::Run(_) => From::Runs,
        Key::Lease(_) => From::Leases,
        Key::Job(_) => From::Jobs,
        Key::Spec(..) => From::Specs,
        Key::Backlog(_) => From::Backlogs,
        Key::Idempotency(_) => From::Keys,
        Key::Checkpoint(_) => From::Checkpoints,
        Key::Hold(_) => From::Holds,
        Key::Queue(..) => From::Queues,
        Key::History(..) => From::History,
    }
}

/// One statement per table, however many keys.
pub(crate) fn rows(conn: &mut Conn, shard: ShardId, keys: &[Key]) -> Res<Vec<Option<Row>>> {
    let mut wanted: BTreeMap<From, (Arrays, Vec<usize>)> = BTreeMap::new();
    for (at, key) in keys.iter().enumerate() {
        let (arrays, places) = wanted.entry(from(key)).or_default();
        arrays.push(place(shard, key));
        places.push(at);
    }
    let mut found: Vec<Option<Row>> = vec![None; keys.len()];
    for (from, (arrays, places)) in wanted {
        for (n, row) in of_table(conn, from, &arrays)? {
            let place = places.get(n.saturating_sub(1)).and_then(|at| found.get_mut(*at));
            if let Some(slot) = place {
                *slot = Some(row);
            }
        }
    }
    Ok(found)
}

fn of_table(conn: &mut Conn, from: From, keys: &Arrays) -> Res<Vec<(usize, Row)>> {
    let table: &Table = match from {
        From::Keys => return keys::get(conn, keys),
        From::Runs => &runs::RUNS,
        From::Leases => &claims::LEASES,
        From::Jobs => &jobs::JOBS,
        From::Specs => &jobs::SPECS,
        From::Backlogs => &jobs::BACKLOGS,
        From::Checkpoints => &claims::CHECKPOINTS,
        From::Holds => &claims::HOLDS,
        From::Queues => &queues::QUEUES,
        From::History => &history::HISTORY,
    };
    let source = match from {
        From::History => crate::days::all(conn)?,
        _ => format!("duly.{}", table.name),
    };
    let rows = conn.query(&table.select(&source), &keys.params())?;
    rows.iter()
        .map(|row| {
            let n = cols(row, table.name, 0).num()?;
            let row = match from {
                From::Runs | From::Keys => Row::Run(runs::read(row, 1)?),
                From::Leases => Row::Lease(claims::read_lease(row, 1)?),
                From::Jobs => Row::Job(jobs::read_job(row, 1)?),
                From::Specs => Row::Spec(rows::spec(&mut cols(row, "specs", 6))?),
                From::Backlogs => Row::Backlog(jobs::read_backlog(row, 1)?),
                From::Checkpoints => Row::Checkpoint(claims::read_checkpoint(row, 1)?),
                From::Holds => Row::Hold(claims::read_hold(row, 1)?.1),
                From::Queues => Row::Queue(queues::read(row, 1)?.1),
                From::History => Row::History(Box::new(history::read(row, 1)?)),
            };
            Ok((n, row))
        })
        .collect()
}

const SPECS: &str = "SELECT x.n, s.shard, s.job, s.version, s.body, s.payload
     FROM unnest($1, $2, $3) WITH ORDINALITY AS x(shard, job, version, n)
     JOIN duly.specs AS s ON s.shard = x.shard AND s.job = x.job AND s.version = x.version";

/// A run's own body, or its job's spec of that version.
pub(crate) fn specs(conn: &mut Conn, runs: &[(RunId, u32)]) -> Res<Vec<Option<Arc<Spec>>>> {
    let ids: Vec<RunId> = runs.iter().map(|(run, _)| *run).collect();
    let mut found = runs::bodies(conn, &ids)?;
    let missing: Vec<usize> = (0..runs.len()).filter(|at| found[*at].is_none()).collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let shards: Vec<i64> = missing.iter().map(|at| runs[*at].0.job.shard().0.into()).collect();
    let jobs: Vec<Vec<u8>> = missing.iter().map(|at| job_bytes(runs[*at].0.job).to_vec()).collect();
    let versions: Vec<i64> = missing.iter().map(|at| runs[*at].1.into()).collect();
    let params: [crate::conn::Param<'_>; 3] =
        [(&shards, Type::INT8_ARRAY), (&jobs, Type::BYTEA_ARRAY), (&versions, Type::INT8_ARRAY)];
    for row in conn.query(SPECS, &params)? {
        let mut cols = cols(&row, "specs", 0);
        let n: usize = cols.num()?;
        cols.skip(3);
        if let Some(at) = missing.get(n.saturating_sub(1)) {
            found[*at] = Some(rows::spec(&mut cols)?);
        }
    }
    Ok(found)
}

//! Commits. A call is one statement:
//!
//! ```text
//! SELECT f.now, duly.insert_runs(f.now, $9, …), duly.remove_leases(f.now, …), …
//! FROM (SELECT duly.fence($1, …) AS now OFFSET 0) AS f
//! ```
//!
//! `fence` locks the shards' rows in order, checks epoch, number and time, and numbers the commits;
//! the others change rows, a table at a time, and check by counting. Whatever is not as expected
//! raises, so the statement is applied for all shards or for none. That is the common case and the
//! fast one: one round trip, one flush.
//!
//! When it raised, nothing is applied, and a slower way finds out: one transaction, shard by shard
//! under a savepoint; where a shard's changes do not fit, in halves until one stands alone. This is
//! rare: an owner that was fenced, or memory and store that disagree.
//!
//! Changes of one row in one commit apply one after the other. `net` makes one change of them: the
//! first's expectation, the last's row, the steps between checked here. Chains it cannot merge take
//! the slower way.

use crate::batch::{Batch, Verb};
use crate::conn::{Conn, Param, WRITE};
use crate::days::{self, Day};
use crate::error::{Fault, Res};
use crate::net::net;
use crate::put::push;
use model::Time;
use model::id::ShardId;
use model::row::{Commit, Expect, Key, Row};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Committed, Outcome};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// `by_day`: is history written by day? Known to be so from the first time that it is found out.
pub(crate) fn apply(conn: &mut Conn, commits: &[Commit], by_day: &AtomicBool) -> Res<Committed> {
    if commits.is_empty() {
        let rows = conn.query("SELECT duly.clock()", &[])?;
        return Ok(Committed { now: time(&rows)?, outcomes: Vec::new() });
    }
    // At most once for a day that is missing, and once for the end of version 1.
    for _ in 0..2 {
        let Some((fences, batch)) = whole(commits, by_day.load(Ordering::Relaxed))? else { break };
        match fast(conn, &fences, &batch) {
            Ok(now) => return Ok(durable(now, commits)),
            Err(fault) if fault.is_mismatch() => break,
            Err(fault) if fault.is_other_day() => days::make(conn, &days_of(commits))?,
            Err(fault) if fault.is_former() => by_day.store(true, Ordering::Relaxed),
            Err(fault) => return Err(fault),
        }
    }
    let days = days_of(commits);
    if !days.is_empty() {
        days::make(conn, &days)?;
    }
    let by_day = by_day.load(Ordering::Relaxed);
    conn.transaction(WRITE, |conn| slow(conn, commits, by_day))
}

/// What is sent ahead of the answer to the one before (`line`). None: these take the slower way.
pub(crate) fn ask(commits: &[Commit], by_day: &AtomicBool) -> Res<Option<Ask>> {
    if commits.is_empty() {
        return Ok(None);
    }
    Ok(whole(commits, by_day.load(Ordering::Relaxed))?.map(Ask))
}

/// One statement that carries commits, made ready to be sent.
pub(crate) struct Ask((Fences, Batch));

/// How much a statement carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    shards: usize,
    rows: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a commit of {} rows in {} shards", self.rows, self.shards)
    }
}

impl Ask {
    pub fn size(&self) -> Size {
        let Ask((fences, batch)) = self;
        Size { shards: fences.shards.len(), rows: batch.len() }
    }

    pub async fn of(self, client: Arc<Client>) -> Result<Vec<tokio_postgres::Row>, Error> {
        let Ask((fences, batch)) = self;
        let (sql, params) = statement(&fences, &batch);
        client.query_typed(&sql, &params).await
    }
}

/// Was nothing applied, and may `apply` find out why, or do what is missing?
pub(crate) fn is_worth_another(fault: &Fault) -> bool {
    fault.is_mismatch() || fault.is_other_day() || fault.is_former()
}

/// What the statement of `ask` answered.
pub(crate) fn answered(rows: &[tokio_postgres::Row], commits: &[Commit]) -> Res<Committed> {
    Ok(durable(time(rows)?, commits))
}

fn durable(now: Time, commits: &[Commit]) -> Committed {
    Committed { now, outcomes: vec![Outcome::Durable; commits.len()] }
}

/// The days of history that these write to.
fn days_of(commits: &[Commit]) -> BTreeSet<Day> {
    let changes = commits.iter().flat_map(|commit| commit.changes.iter());
    let rows = changes.filter_map(|change| match &change.row {
        Some(Row::History(row)) => Some(Day::of(row.finished)),
        _ => None,
    });
    rows.collect()
}

/// One element per commit.
#[derive(Default)]
struct Fences {
    shards: Vec<i64>,
    epochs: Vec<i64>,
    seqs: Vec<i64>,
    decided: Vec<i64>,
    floors: Vec<Option<i64>>,
    bytes: Vec<i64>,
    ready: Vec<Option<i64>>,
    leases: Vec<Option<i64>>,
}

impl Fences {
    fn push(&mut self, commit: &Commit) {
        self.shards.push(commit.shard.0.into());
        self.epochs.push(commit.epoch.0.into());
        self.seqs.push(commit.seq as i64);
        self.decided.push(commit.decided.micros());
        self.floors.push(commit.floor.map(Time::micros));
        let history =
            commit.changes.iter().filter_map(|change| match (&change.row, change.expect) {
                (Some(Row::History(row)), Expect::Absent) => Some(crate::history::bytes(row)),
                _ => None,
            });
        self.bytes.push(history.sum());
        self.ready.push(commit.starts.ready.map(Time::micros));
        self.leases.push(commit.starts.leases.map(|token| token.0 as i64));
    }

    fn params(&self) -> Vec<Param<'_>> {
        let ints = [&self.shards, &self.epochs, &self.seqs, &self.decided];
        let mut params: Vec<Param<'_>> =
            ints.into_iter().map(|array| (array as _, Type::INT8_ARRAY)).collect();
        params.push((&self.floors, Type::INT8_ARRAY));
        params.push((&self.bytes, Type::INT8_ARRAY));
        params.push((&self.ready, Type::INT8_ARRAY));
        params.push((&self.leases, Type::INT8_ARRAY));
        params
    }
}

/// All commits as one batch, if each shard is there once and its changes merge.
fn whole(commits: &[Commit], by_day: bool) -> Res<Option<(Fences, Batch)>> {
    let shards: BTreeSet<ShardId> = commits.iter().map(|commit| commit.shard).collect();
    if shards.len() < commits.len() {
        return Ok(None);
    }
    let (mut fences, mut batch) = (Fences::default(), Batch::default());
    for commit in commits {
        let Some(changes) = net(&commit.changes) else { return Ok(None) };
        fences.push(commit);
        for change in &changes {
            push(&mut batch, commit.shard, change, by_day)?;
        }
    }
    Ok(Some((fences, batch)))
}

fn fast(conn: &mut Conn, fences: &Fences, batch: &Batch) -> Res<Time> {
    let (sql, params) = statement(fences, batch);
    time(&conn.query(&sql, &params)?)
}

fn statement<'a>(fences: &'a Fences, batch: &'a Batch) -> (String, Vec<Param<'a>>) {
    let mut params = fences.params();
    let (calls, more) = batch.calls("f.now", params.len());
    let comma = if batch.is_empty() { "" } else { ", " };
    let sql = format!(
        "SELECT f.now{comma}{calls} \
         FROM (SELECT duly.fence($1, $2, $3, $4, $5, $6, $7, $8) AS now OFFSET 0) AS f"
    );
    params.extend(more);
    (sql, params)
}

fn time(rows: &[tokio_postgres::Row]) -> Res<Time> {
    let Some(row) = rows.first() else { return Err(Fault::Odd("no time was told".into())) };
    Ok(Time::from_micros(row.try_get(0)?))
}

/// In a transaction.
fn slow(conn: &mut Conn, commits: &[Commit], by_day: bool) -> Res<Committed> {
    let shards: Vec<i64> = commits.iter().map(|commit| commit.shard.0.into()).collect();
    let lock = "SELECT shard FROM duly.shards WHERE shard = ANY ($1) ORDER BY shard FOR SHARE";
    conn.query(lock, &[(&shards, Type::INT8_ARRAY)])?;
    let mut outcomes = Vec::with_capacity(commits.len());
    for commit in commits {
        outcomes.push(shard(conn, commit, by_day)?);
    }
    let now = time(&conn.query("SELECT duly.clock()", &[])?)?;
    Ok(Committed { now, outcomes })
}

/// The fence first: an owner whose epoch has passed learns that, whatever else is wrong.
fn shard(conn: &mut Conn, commit: &Commit, by_day: bool) -> Res<Outcome> {
    const SQL: &str = "SELECT s.epoch, duly.clock(), (SELECT max(c.seq) FROM duly.commits AS c
        WHERE c.shard = s.shard), s.incarnation = m.incarnation, duly.same_server()
        FROM duly.shards AS s CROSS JOIN duly.meta AS m WHERE s.shard = $1";
    let rows = conn.query(SQL, &[(&i64::from(commit.shard.0), Type::INT8)])?;
    // A shard that does not exist belongs to nobody.
    let Some(row) = rows.first() else { return Ok(Outcome::Fenced) };
    let (epoch, now): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let last = row.try_get::<_, Option<i64>>(2)?.unwrap_or(0) as u64;
    // Epochs of a former incarnation may have been given out to others.
    if i64::from(commit.epoch.0) != epoch || !row.try_get::<_, bool>(3)? {
        return Ok(Outcome::Fenced);
    }
    if Some(commit.seq) != last.checked_add(1) {
        return Ok(Outcome::Gap { last });
    }
    if commit.decided.micros() > now {
        return Ok(Outcome::Early);
    }
    conn.run("SAVEPOINT shard")?;
    if let Some((fences, batch)) = whole(std::slice::from_ref(commit), by_day)? {
        match fast(conn, &fences, &batch) {
            Ok(_) => {
                conn.run("RELEASE shard")?;
                return Ok(Outcome::Durable);
            }
            Err(fault) if fault.is_mismatch() => conn.run("ROLLBACK TO shard")?,
            Err(fault) => return Err(fault),
        }
    }
    let mut fences = Fences::default();
    fences.push(commit);
    let now = fast(conn, &fences, &Batch::default())?;
    let outcome = match first_misfit(conn, commit, 0..commit.changes.len(), (now, by_day))? {
        Some(index) => {
            conn.run("ROLLBACK TO shard")?;
            Outcome::Row { index }
        }
        None => Outcome::Durable,
    };
    conn.run("RELEASE shard")?;
    Ok(outcome)
}

/// Makes the changes of a part in their order, and says which one did not find what it expected; a
/// part that does not fit as a whole is tried in halves, the first one first.
fn first_misfit(
    conn: &mut Conn,
    commit: &Commit,
    part: Range<usize>,
    (now, by_day): (Time, bool),
) -> Res<Option<usize>> {
    if part.is_empty() {
        return Ok(None);
    }
    if let Some(changes) = net(&commit.changes[part.clone()]) {
        let mut batch = Batch::default();
        for change in &changes {
            push(&mut batch, commit.shard, change, by_day)?;
        }
        conn.run("SAVEPOINT part")?;
        let (calls, params) = batch.calls(&now.micros().to_string(), 0);
        match conn.query(&format!("SELECT {calls}"), &params) {
            Ok(_) => {
                conn.run("RELEASE part")?;
                return Ok(None);
            }
            Err(fault) if fault.is_mismatch() => conn.run("ROLLBACK TO part; RELEASE part")?,
            Err(fault) => return Err(fault),
        }
    }
    if part.len() == 1 {
        return Ok(Some(part.start));
    }
    let middle = part.start + part.len() / 2;
    match first_misfit(conn, commit, part.start..middle, (now, by_day))? {
        Some(index) => Ok(Some(index)),
        None => first_misfit(conn, commit, middle..part.end, (now, by_day)),
    }
}

/// How a change touches its table.
pub(crate) fn verb(expect: Expect, leaves_row: bool) -> Verb {
    match (expect, leaves_row) {
        (Expect::Absent, true) => Verb::Insert,
        (Expect::Absent, false) => Verb::Absent,
        (Expect::Rev(_), true) => Verb::Update,
        (Expect::Rev(_), false) => Verb::Remove,
    }
}

/// Keys and history are replaced by removing and inserting: what replaces one may belong to another
/// day.
pub(crate) fn is_replaced(key: &Key) -> bool {
    matches!(key, Key::Idempotency(_) | Key::History(..))
}

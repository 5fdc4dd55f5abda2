//! Is this the server that wrote what is stored? Its identifier and its timeline are recorded, and
//! compared for every new connection; the timeline also in every commit, renewal and taking, because
//! a pooler changes servers without a word.
//!
//! | found | it is | what is done |
//! |---|---|---|
//! | another timeline | a replica that was promoted | a new incarnation: no commit passes until its shard was taken anew, which jumps over all epochs that may be lost |
//! | the same, and at the start nobody has renewed a lease for a while | a backup that was recovered | the same, and all shards are held until `--takeover` |
//! | another identifier | a dump that was loaded elsewhere | the same |
//!
//! Whoever finds it first does it, under a lock; the others find it done. Each is an alert.
//!
//! What it does not do: tell a copy of the files that was started without recovery. It has the same
//! identifier and timeline; only owners that live see that commits are missing (`Outcome::Gap`).

use crate::cols::cols;
use crate::conn::{Conn, WRITE};
use crate::error::{Fault, Res};
use crate::limits::{ALERTS_MAX, RESTORED_AFTER};
use model::Time;
use model::id::SHARDS;
use std::sync::{Mutex, PoisonError};
use tokio_postgres::types::Type;

/// Why a restored copy is held; also how the hold is told from one that a person put there.
const REASON: &str = "restored copy: start duly serve with --takeover";

/// What was found, until somebody says it aloud.
#[derive(Debug, Default)]
pub(crate) struct Origin(Mutex<Vec<String>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    system: i64,
    timeline: i64,
}

const LOOK: &str = "SELECT m.system_id, m.timeline, c.system_identifier,
      CASE WHEN pg_is_in_recovery() THEN NULL ELSE duly.timeline() END
    FROM duly.meta AS m CROSS JOIN pg_control_system() AS c";

/// The one that wrote, and this one.
fn servers(conn: &mut Conn, lock: &str) -> Res<(Server, Server)> {
    let rows = conn.query(&format!("{LOOK}{lock}"), &[])?;
    let Some(row) = rows.first() else { return Err(Fault::Odd("table meta has no row".into())) };
    let mut cols = cols(row, "meta", 0);
    let wrote = Server { system: cols.int()?, timeline: cols.int()? };
    let system = cols.int()?;
    let Some(timeline) = cols.opt_int()? else { return Err(Fault::Replica) };
    Ok((wrote, Server { system, timeline }))
}

impl Origin {
    /// What was found since the last time somebody asked.
    pub fn alerts(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `starting`: this process has seen nothing of the database before.
    pub fn look(&self, conn: &mut Conn, starting: bool) -> Res<()> {
        let (wrote, this) = servers(conn, "")?;
        if wrote == this {
            return Ok(());
        }
        let words = conn.transaction(WRITE, |conn| {
            let (wrote, this) = servers(conn, " FOR UPDATE OF m")?;
            if wrote == this {
                return Ok(None);
            }
            let copy = wrote.system != this.system || (starting && is_old(conn)?);
            conn.run("UPDATE duly.meta SET incarnation = incarnation + 1")?;
            record(conn)?;
            if copy {
                hold(conn)?;
            }
            Ok(Some(words(wrote, this, copy)))
        })?;
        let mut alerts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = words.filter(|_| alerts.len() < ALERTS_MAX) {
            alerts.push(words);
        }
        Ok(())
    }
}

fn words(wrote: Server, this: Server, copy: bool) -> String {
    let what = match copy {
        true => {
            "this database is a restored copy: it keeps what is sent and dispatches nothing until it is started with --takeover"
        }
        false => {
            "a replica was promoted: what it had not received is lost; all shards are taken anew"
        }
    };
    let (Server { system, timeline }, now) = (wrote, this);
    format!(
        "ALERT: {what} (server {system}, timeline {timeline} before; server {}, timeline {} now)",
        now.system, now.timeline
    )
}

/// This server writes from now on.
pub(crate) fn record(conn: &mut Conn) -> Res<()> {
    conn.run(
        "UPDATE duly.meta SET timeline = duly.timeline(),
           system_id = (SELECT system_identifier FROM pg_control_system())",
    )
}

/// Has nobody renewed a lease for so long that this cannot be a cluster that lost its server?
fn is_old(conn: &mut Conn) -> Res<bool> {
    let rows = conn.query("SELECT duly.clock(), (SELECT max(expires) FROM duly.nodes)", &[])?;
    let Some(row) = rows.first() else { return Ok(false) };
    let mut cols = cols(row, "nodes", 0);
    let (now, last) = (cols.time()?, cols.opt_time()?);
    Ok(last.is_none_or(|last: Time| now.since(last) > RESTORED_AFTER))
}

fn hold(conn: &mut Conn) -> Res<()> {
    // Where a person has put one it stays theirs.
    const SQL: &str = "INSERT INTO duly.holds (shard, scope, namespace, queue, reason, until)
        SELECT n, 0, 0, '', $1, NULL FROM generate_series(0, $2) AS n ON CONFLICT DO NOTHING";
    let last = i32::from(SHARDS) - 1;
    conn.query(SQL, &[(&REASON, Type::TEXT), (&last, Type::INT4)]).map(drop)
}

pub(crate) fn is_held(conn: &mut Conn) -> Res<bool> {
    let sql = "SELECT 1 FROM duly.holds WHERE reason = $1 LIMIT 1";
    Ok(!conn.query(sql, &[(&REASON, Type::TEXT)])?.is_empty())
}

/// For `--takeover`. In a transaction. Epochs may have been given out that this copy has not seen.
pub(crate) fn release(conn: &mut Conn) -> Res<()> {
    conn.run("UPDATE duly.meta SET incarnation = incarnation + 1")?;
    conn.query("DELETE FROM duly.holds WHERE reason = $1", &[(&REASON, Type::TEXT)]).map(drop)
}

//! What the server promises about what it acknowledges, as it says itself.

use crate::conn::Conn;
use crate::error::{Fault, OpenError, Res};
use crate::limits::VERSION_MIN;
use std::fmt;

/// As found when somebody looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// `15.18`
    pub server: String,
    pub synchronous_commit: String,
    /// Which replicas a commit waits for; empty = none.
    pub synchronous_standby_names: String,
    /// Replicas that were connected.
    pub replicas: u32,
    /// Off: a page that was half written when the power went is not mended.
    pub full_page_writes: bool,
    /// It follows another server and is read-only.
    pub in_recovery: bool,
}

impl Durability {
    /// What the words rest on, in the server's names.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let on = |on: bool| if on { "on" } else { "off" }.to_string();
        vec![
            ("server_version", self.server.clone()),
            ("synchronous_commit", self.synchronous_commit.clone()),
            ("synchronous_standby_names", self.synchronous_standby_names.clone()),
            ("replicas", self.replicas.to_string()),
            ("full_page_writes", on(self.full_page_writes)),
            ("in_recovery", on(self.in_recovery)),
        ]
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}, ", self.server)?;
        match self.synchronous_commit.as_str() {
            "off" => f.write_str(
                "synchronous_commit = off: THE LAST MOMENTS ARE LOST when the server crashes",
            )?,
            _ if self.synchronous_standby_names.is_empty() => {
                f.write_str("durable on one server before it answers")?;
            }
            mode => write!(
                f,
                "durable on one server and {} (synchronous_commit = {mode}) before it answers",
                self.synchronous_standby_names
            )?,
        }
        write!(f, ", {} replicas connected", self.replicas)?;
        if !self.full_page_writes {
            f.write_str(", full_page_writes = off: A POWER CUT MAY DAMAGE IT; set it to on")?;
        }
        if self.in_recovery {
            f.write_str(", a READ-ONLY replica now")?;
        }
        Ok(())
    }
}

const SQL: &str = "SELECT current_setting('server_version_num')::integer,
    current_setting('fsync') = 'on', split_part(current_setting('server_version'), ' ', 1),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication)::integer,
    current_setting('full_page_writes') = 'on', pg_is_in_recovery()";

/// What it promises, its version, and whether it writes what it acknowledges.
fn found(conn: &mut Conn) -> Res<(Durability, i32, bool)> {
    let rows = conn.query(SQL, &[])?;
    let Some(row) = rows.first() else { return Err(Fault::Odd("no settings".into())) };
    let durability = Durability {
        server: row.try_get(2)?,
        synchronous_commit: row.try_get(3)?,
        synchronous_standby_names: row.try_get(4)?,
        replicas: row.try_get::<_, i32>(5)?.unsigned_abs(),
        full_page_writes: row.try_get(6)?,
        in_recovery: row.try_get(7)?,
    };
    Ok((durability, row.try_get(0)?, row.try_get(1)?))
}

pub(crate) fn look(conn: &mut Conn) -> Res<Durability> {
    Ok(found(conn)?.0)
}

/// Refuses a server that is too old, that does not write what it acknowledges, or that cannot be
/// written to.
pub(crate) fn check(conn: &mut Conn) -> Result<Durability, OpenError> {
    let (durability, version, syncs) = found(conn)?;
    if version < VERSION_MIN {
        return Err(OpenError::TooOld(version));
    }
    if !syncs {
        return Err(OpenError::NoSync);
    }
    if durability.in_recovery {
        return Err(OpenError::Replica);
    }
    Ok(durability)
}

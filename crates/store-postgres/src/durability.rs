//! What the server promises about what it acknowledges, as it says itself.

use crate::conn::Conn;
use crate::error::OpenError;
use crate::limits::VERSION_MIN;
use std::fmt;

/// As found when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// `15.18`
    pub server: String,
    pub synchronous_commit: String,
    /// Which replicas a commit waits for; empty = none.
    pub synchronous_standby_names: String,
    /// Replicas that were connected.
    pub replicas: u32,
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
        write!(f, ", {} replicas connected", self.replicas)
    }
}

/// Refuses a server that is too old, or that does not write what it acknowledges.
pub(crate) fn look(conn: &mut Conn) -> Result<Durability, OpenError> {
    const SQL: &str = "SELECT current_setting('server_version_num')::integer,
        current_setting('fsync'), split_part(current_setting('server_version'), ' ', 1),
        current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
        (SELECT count(*) FROM pg_stat_replication)::integer";
    let rows = conn.query(SQL, &[])?;
    let Some(row) = rows.first() else { return Err(OpenError::Sql("no settings".into())) };
    let wrong = |error: tokio_postgres::Error| OpenError::Sql(error.to_string());
    let version: i32 = row.try_get(0).map_err(wrong)?;
    if version < VERSION_MIN {
        return Err(OpenError::TooOld(version));
    }
    if row.try_get::<_, &str>(1).map_err(wrong)? == "off" {
        return Err(OpenError::NoSync);
    }
    Ok(Durability {
        server: row.try_get(2).map_err(wrong)?,
        synchronous_commit: row.try_get(3).map_err(wrong)?,
        synchronous_standby_names: row.try_get(4).map_err(wrong)?,
        replicas: row.try_get::<_, i32>(5).map_err(wrong)?.unsigned_abs(),
    })
}

//! Where the ready runs and the leases of a shard begin, as its last commit said (`model::row::Starts`).
//!
//! While somebody's old transaction is open PostgreSQL may not forget rows that were removed since, nor
//! their index entries, and whoever looks for the first row there is walks over all of them. They lie
//! before the mark: leases are found by an index in the order of their tokens, which begins there; of a
//! flow's index entries those before the mark are passed over without a look at their rows.

use crate::cols::Cols;
use crate::error::Res;
use model::row::Starts;
use model::{Time, Token};

/// Version 5. Nodes of versions 2 to 4 leave both columns empty, which says that nothing is known.
pub(crate) const STEP_5: &str = "
ALTER TABLE duly.commits ADD COLUMN IF NOT EXISTS ready_from bigint, ADD COLUMN IF NOT EXISTS leases_from bigint;
COMMENT ON COLUMN duly.commits.ready_from IS 'no run with state 2 is due before; NULL = not known';
COMMENT ON COLUMN duly.commits.leases_from IS 'no lease has a lower token; NULL = not known';
CREATE INDEX IF NOT EXISTS leases_token ON duly.leases (shard, token);
";

/// The columns `ready_from` and `leases_from`.
pub(crate) fn read(cols: &mut Cols<'_>) -> Res<Starts> {
    let ready = cols.opt_int()?.map(Time::from_micros);
    Ok(Starts { ready, leases: cols.opt_int()?.map(|token| Token(token as u64)) })
}

/// An expression: the first instant at which a ready run of this shard may be due.
pub(crate) fn ready(shard: &str) -> String {
    of_last("ready_from", shard)
}

/// An expression: the lowest token that a lease of this shard may have.
pub(crate) fn leases(shard: &str) -> String {
    of_last("leases_from", shard)
}

fn of_last(column: &str, shard: &str) -> String {
    format!(
        "coalesce((SELECT c.{column} FROM duly.commits AS c WHERE c.shard = {shard} \
         ORDER BY c.seq DESC LIMIT 1), -9223372036854775807)"
    )
}

//! The tables, as a person sees them with `sqlite3 duly.db .schema`: SQLite keeps the comments
//! inside a CREATE statement, so the file explains itself.
//!
//! `TABLES` is version 1; each later version is a step behind it. A new one adds a step here, raises `VERSION`, and raises `min_reader`
//! or `min_writer` only when older code would misread or damage what it writes. A step is one
//! transaction: a crash leaves the former version whole.
//!
//! What it does not do: go back to a former version, or touch a file that is not duly's.

use crate::error::OpenError;
use model::id::SHARDS;
use rusqlite::Connection;

/// The version this code writes, and the newest `min_reader`/`min_writer` it satisfies.
pub(crate) const VERSION: i64 = 5;
/// "duly": tells our file from any other database.
const APPLICATION: i64 = 0x6475_6c79;

/// Times are microseconds since 1970, UTC. Ids are big-endian, so their order is that of the model.
const TABLES: &str = "
CREATE TABLE meta (
  -- One row. All times in this file are microseconds since 1970, UTC.
  -- To read one: SELECT datetime(due / 1000000, 'unixepoch') FROM runs;
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,     -- of these tables
  min_reader INTEGER NOT NULL,  -- code that knows less than this version must not read
  min_writer INTEGER NOT NULL,  -- ... must not write
  incarnation INTEGER NOT NULL, -- grows when this file is a restored copy of another
  key_day INTEGER NOT NULL,     -- day (since 1970) that today's idempotency keys belong to
  key_table INTEGER NOT NULL    -- today's are in: 0 = keys_0, 1 = keys_1
) STRICT;

CREATE TABLE shards (
  shard INTEGER PRIMARY KEY,
  owner_node INTEGER,           -- NULL before the first owner
  owner_boot INTEGER,
  epoch INTEGER NOT NULL,       -- grows with every change of owner; commits of others are refused
  seq INTEGER NOT NULL,         -- number of the shard's last commit
  floor INTEGER NOT NULL,       -- time: nothing on the wheel is due before it
  incarnation INTEGER NOT NULL  -- meta.incarnation when the shard was last taken
) STRICT;

CREATE TABLE nodes (
  -- One row per life of a process. Alive while expires > now.
  node INTEGER NOT NULL,
  boot INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  PRIMARY KEY (node, boot)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  -- Runs that are not finished. While claimed, a row of leases stands beside one.
  -- Clustered by the minute (far future: hour) they are due in: a timing wheel on disk.
  shard INTEGER NOT NULL,
  bucket INTEGER NOT NULL,      -- time its bucket begins; 9223372036854775807 = not on the wheel
  id BLOB NOT NULL,             -- job (16 bytes) and what the run is for (8 bytes)
  rev INTEGER NOT NULL,         -- counts changes of this row
  state INTEGER NOT NULL,       -- 0 scheduled, 1 blocked, 2 ready, 3 running, 4 retrying, 5 dead,
                                -- 6 succeeded, 7 failed, 8 cancelled, 9 expired
  due INTEGER NOT NULL,         -- when it fires or fired; dead: when it expires
  nominal INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,           -- what a claimer must offer
  priority INTEGER NOT NULL,    -- 9 first
  lane INTEGER NOT NULL,        -- 0 fresh, 1 retry, 2 backfill
  grp TEXT NOT NULL,            -- '' = no group, '=g' = group g
  version INTEGER NOT NULL,     -- of the spec
  attempts INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  replays INTEGER NOT NULL,
  max_retries INTEGER NOT NULL,
  backoff_initial INTEGER NOT NULL, -- microseconds
  backoff_factor INTEGER NOT NULL,
  backoff_cap INTEGER NOT NULL,     -- microseconds
  max_lost INTEGER NOT NULL,
  timeout INTEGER NOT NULL,         -- microseconds
  checkpoint INTEGER NOT NULL,  -- rev of its checkpoint, 0 = none
  fresh INTEGER NOT NULL,       -- 1 = counts for its job's overlap policy
  body BLOB,                    -- its own spec without the payload; NULL = the job's spec
  payload BLOB,
  PRIMARY KEY (shard, bucket, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX runs_id ON runs (id);
CREATE INDEX runs_ready ON runs (shard, namespace, queue, kind, priority, lane, grp, due, id)
  WHERE state = 2;

CREATE TABLE leases (
  -- Claimed runs: who works on which, and the token that fences others.
  shard INTEGER NOT NULL,
  run BLOB NOT NULL,
  rev INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  token INTEGER NOT NULL,
  worker TEXT,                  -- the holder is a worker,
  node INTEGER, boot INTEGER,   -- or, worker IS NULL, an executor in this node
  length INTEGER NOT NULL,      -- microseconds
  started INTEGER NOT NULL,
  deadline INTEGER NOT NULL,
  request INTEGER NOT NULL,     -- 64 bits of the claim request
  cancel INTEGER NOT NULL,      -- 1 = the holder was asked to stop
  PRIMARY KEY (shard, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  -- Recurring jobs, the part that changes. One-off jobs have only a run.
  shard INTEGER NOT NULL,
  id BLOB NOT NULL,
  rev INTEGER NOT NULL,
  bucket INTEGER,               -- as in runs; NULL = not on the wheel
  due INTEGER,                  -- when this row wants to be looked at
  namespace INTEGER NOT NULL,
  state INTEGER NOT NULL,       -- 0 active, 1 paused, 2 ended, 3 cancelled
  version INTEGER NOT NULL,     -- of the spec in force
  created INTEGER NOT NULL,
  versioned INTEGER NOT NULL,   -- when that version was made
  mark INTEGER NOT NULL,        -- last nominal instant decided; never goes back
  next INTEGER,                 -- next nominal instant
  fired INTEGER NOT NULL,
  live TEXT NOT NULL,           -- unfinished runs per version: 'version:runs version:runs'
  active BLOB,                  -- the fresh run that is unfinished
  waiting BLOB,                 -- the one that waits for it
  pause_since INTEGER,          -- NULL = not paused
  pause_until INTEGER,
  pause_reason TEXT,
  reruns INTEGER NOT NULL,
  backfills INTEGER NOT NULL,
  sweep INTEGER NOT NULL,       -- 1 = cancelled, runs still to be cancelled
  removing INTEGER NOT NULL,    -- 1 = the row goes with the last run
  PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_wheel ON jobs (shard, bucket, id, due) WHERE bucket IS NOT NULL;

CREATE TABLE specs (
  -- What a recurring job shall do, per version. Never changed.
  shard INTEGER NOT NULL,
  job BLOB NOT NULL,
  version INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  name TEXT,
  body BLOB NOT NULL,           -- fields of the spec: store/src/codec/encode.rs
  payload BLOB NOT NULL,
  PRIMARY KEY (shard, job, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE backlogs (
  -- Ranges of past instants that are worked off at a rate: catch-up and backfill.
  shard INTEGER NOT NULL,
  id BLOB NOT NULL,             -- job (16 bytes), 00 catch-up or 01 backfill, its start or number
  rev INTEGER NOT NULL,
  bucket INTEGER NOT NULL,      -- as in runs
  due INTEGER NOT NULL,         -- when the next slice is due
  cursor INTEGER NOT NULL,      -- instants in (cursor, until] are to be decided
  until INTEGER NOT NULL,
  per_second INTEGER NOT NULL,
  only_those INTEGER NOT NULL,  -- 0 missing, 1 failed, 2 all
  version INTEGER NOT NULL,
  versioned INTEGER NOT NULL,
  done INTEGER NOT NULL,
  total INTEGER NOT NULL,
  PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backlogs_wheel ON backlogs (shard, bucket, id, due);

CREATE TABLE keys_0 (
  -- Idempotency keys of one day; meta.key_table says which. Emptied whole, a day later.
  shard INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  queue TEXT NOT NULL,
  grp TEXT NOT NULL,            -- as in runs
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  body INTEGER NOT NULL,        -- 64 bits of the request's hash
  made INTEGER NOT NULL,        -- the answer: 0 a job, 1 a run, 2 a backlog
  made_id BLOB NOT NULL,
  PRIMARY KEY (shard, namespace, queue, grp, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys_1 (
  -- Idempotency keys of the other day: as keys_0.
  shard INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  queue TEXT NOT NULL,
  grp TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  body INTEGER NOT NULL,
  made INTEGER NOT NULL,
  made_id BLOB NOT NULL,
  PRIMARY KEY (shard, namespace, queue, grp, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  -- What an attempt left for the next one.
  shard INTEGER NOT NULL,
  run BLOB NOT NULL,
  rev INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (shard, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE holds (
  -- What must not start.
  shard INTEGER NOT NULL,
  scope INTEGER NOT NULL,       -- 0 everything, 1 a namespace, 2 a queue
  namespace INTEGER NOT NULL,   -- 0 when scope = 0
  queue TEXT NOT NULL,          -- '' unless scope = 2
  reason TEXT NOT NULL,
  until INTEGER,                -- NULL = until somebody lifts it
  PRIMARY KEY (shard, scope, namespace, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
  -- One row per attempt, and one per instant (or range of instants) that made no run.
  hid INTEGER PRIMARY KEY,
  shard INTEGER NOT NULL,
  run BLOB NOT NULL,
  token INTEGER NOT NULL,       -- 0 = no attempt
  attempt INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  nominal INTEGER NOT NULL,
  due INTEGER NOT NULL,
  started INTEGER,
  finished INTEGER NOT NULL,
  version INTEGER NOT NULL,
  status INTEGER NOT NULL,      -- 0 succeeded, 1 failed, 2 timed out, 3 lost, 4 cancelled,
                                -- 5 released, 6 snoozed, 7 discarded, 8 skipped: overlap,
                                -- 9 skipped: paused, 10 coalesced, 11 missed
  worker TEXT,
  code INTEGER,
  error TEXT,
  output BLOB,
  state_after INTEGER NOT NULL, -- of the run: as runs.state
  next INTEGER,                 -- when its next attempt was due
  until INTEGER,                -- a range of verdicts: its last instant
  count INTEGER NOT NULL,       -- ... and how many
  flow_namespace INTEGER,       -- NULL = as namespace
  queue TEXT,                   -- NULL = was in no flow, then so are the next four
  kind TEXT,
  priority INTEGER,
  lane INTEGER,                 -- as in runs
  grp TEXT,                     -- as in runs
  planned_job BLOB              -- the job; NULL for a one-off
) STRICT;
CREATE UNIQUE INDEX history_run ON history (run, token);
CREATE INDEX history_instants ON history (planned_job, nominal) WHERE planned_job IS NOT NULL;
CREATE INDEX history_ranges ON history (planned_job, until)
  WHERE planned_job IS NOT NULL AND until > nominal;
";

/// Version 2: what people ask for. Older code may go on using the file: it neither reads nor harms
/// any of this.
const SECOND: &str = "
CREATE TABLE catalog (
  -- Small things of the whole cluster. text is JSON.
  kind INTEGER NOT NULL,        -- 1 namespace, 2 number of a namespace, 3 name of a job, 4 queue,
                                -- 5 API key, 6 operation, 7 setting
  namespace INTEGER NOT NULL,
  name TEXT NOT NULL,
  rev INTEGER NOT NULL,         -- of catalog_rev when it was written
  at INTEGER NOT NULL,          -- time it was written
  text TEXT NOT NULL,
  PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE catalog_rev (
  -- One row: counts the changes of catalog.
  one INTEGER PRIMARY KEY CHECK (one = 1),
  rev INTEGER NOT NULL
) STRICT;
INSERT INTO catalog_rev VALUES (1, 0);
CREATE INDEX jobs_id ON jobs (id);
CREATE INDEX runs_dead ON runs (namespace, id) WHERE state = 5;
CREATE INDEX runs_retrying ON runs (shard, namespace, queue) WHERE state = 4;
CREATE INDEX history_failures ON history (namespace, hid) WHERE state_after = 7;
-- planned_job is from here on the job of every run but one-offs, so that a job's runs are found by
-- their instants; triggers were left out before.
UPDATE history SET planned_job = substr(run, 1, 16)
  WHERE planned_job IS NULL AND substr(run, 17) <> zeroblob(8);
DROP INDEX history_instants;
CREATE INDEX history_instants ON history (planned_job, nominal, run) WHERE planned_job IS NOT NULL;
";

/// Version 3: limits of queues, and runs that expire. Older code may go on using the file, and keeps no limit.
const THIRD: &str = "
CREATE TABLE queues (
  -- What a queue allows; one without a row allows everything.
  shard INTEGER NOT NULL,
  namespace INTEGER NOT NULL,
  queue TEXT NOT NULL,
  rev INTEGER NOT NULL,
  max_running INTEGER,          -- attempts at the same time; NULL = any number
  rate_starts INTEGER,          -- starts ... NULL = any number
  rate_per INTEGER,             -- ... in so many microseconds,
  rate_burst INTEGER,           -- and so many at once after a pause
  group_max_running INTEGER,    -- the same for each group of the queue
  group_rate_starts INTEGER,
  group_rate_per INTEGER,
  group_rate_burst INTEGER,
  weights TEXT NOT NULL,        -- starts in a group's turn: 'weight bytes group', one per line
  PRIMARY KEY (shard, namespace, queue)
) STRICT, WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN start_by INTEGER;   -- not started by then it expires; NULL = never
ALTER TABLE runs ADD COLUMN finish_by INTEGER;  -- not done by then
";

/// Version 4: service levels of queues. Older code may go on using the file, and keeps none.
const FOURTH: &str = "
ALTER TABLE queues ADD COLUMN start_within INTEGER; -- microseconds; NULL = no service level
";

/// Version 5: what was made with an API key that has a quota of it. Older code may go on using the file:
/// what it makes does not count for a key.
const FIFTH: &str = "
ALTER TABLE runs ADD COLUMN api_key INTEGER;  -- of its own spec; NULL = nobody counts
CREATE INDEX runs_key ON runs (api_key, state) WHERE api_key IS NOT NULL;
ALTER TABLE specs ADD COLUMN api_key INTEGER; -- what the job was made with; NULL = nobody counts
CREATE INDEX specs_key ON specs (api_key) WHERE api_key IS NOT NULL;
";

/// Makes the tables in an empty file; checks that others can be used by this code.
pub(crate) fn migrate(conn: &Connection) -> Result<(), OpenError> {
    let application: i64 = pragma(conn, "application_id")?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && tables == 0 {
        create(conn)?;
    }
    known(conn)?;
    let version: i64 = conn.query_row("SELECT version FROM meta", [], |row| row.get(0))?;
    if version < 2 {
        step(conn, SECOND, "UPDATE meta SET version = 2")?;
    }
    if version < 3 {
        step(conn, THIRD, "UPDATE meta SET version = 3")?;
    }
    if version < 4 {
        step(conn, FOURTH, "UPDATE meta SET version = 4")?;
    }
    if version < 5 {
        step(conn, FIFTH, "UPDATE meta SET version = 5")?;
    }
    Ok(())
}

/// Is it ours, and can this code use it?
pub(crate) fn known(conn: &Connection) -> Result<(), OpenError> {
    if pragma(conn, "application_id")? != APPLICATION {
        return Err(OpenError::Foreign);
    }
    let (min_reader, min_writer): (i64, i64) =
        conn.query_row("SELECT min_reader, min_writer FROM meta", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let needs = min_reader.max(min_writer);
    if needs > VERSION {
        return Err(OpenError::Newer { needs, knows: VERSION });
    }
    Ok(())
}

fn create(conn: &Connection) -> Result<(), OpenError> {
    let fill = format!(
        "INSERT INTO meta VALUES (1, 1, 1, 1, 1, 0, 0);
         WITH RECURSIVE n (shard) AS (VALUES (0) UNION ALL SELECT shard + 1 FROM n
           WHERE shard + 1 < {SHARDS})
         INSERT INTO shards SELECT shard, NULL, NULL, 0, 0, 0, 1 FROM n;
         PRAGMA application_id = {APPLICATION};"
    );
    step(conn, TABLES, &fill)
}

/// All of it, or nothing.
fn step(conn: &Connection, tables: &str, fill: &str) -> Result<(), OpenError> {
    let made = conn
        .execute_batch("BEGIN IMMEDIATE")
        .and_then(|()| conn.execute_batch(tables))
        .and_then(|()| conn.execute_batch(fill))
        .and_then(|()| conn.execute_batch("COMMIT"));
    if let Err(error) = made {
        // The first error is the one to tell; an open transaction ends with the connection.
        let _ = conn.execute_batch("ROLLBACK");
        return Err(error.into());
    }
    Ok(())
}

fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, name, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_first_version_is_brought_forward_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = crate::files::writer(folder.path()).expect("it opens");
        create(&conn).expect("version 1");
        // A trigger (tag 2) and a one-off, as version 1 wrote them.
        for part in ["2000000000000005", "0000000000000000"] {
            let run = format!("x'00112233445566778899aabbccddeeff{part}'");
            let row = format!(
                "INSERT INTO history VALUES (NULL, 0, {run}, 1, 1, 0, 9, 9, 9, 9, 1, 0, NULL, NULL,
                 NULL, NULL, 6, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
            );
            conn.execute_batch(&row).expect("inserted");
        }
        for _ in 0..2 {
            migrate(&conn).expect("brought forward, then left alone");
            let version: i64 =
                conn.query_row("SELECT version FROM meta", [], |row| row.get(0)).expect("a row");
            assert_eq!(version, VERSION);
            let planned: (i64, i64) = conn
                .query_row("SELECT count(planned_job), count(*) FROM history", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .expect("a row");
            assert_eq!(planned, (1, 2), "the trigger's job is named, the one-off's is not");
        }
    }
}

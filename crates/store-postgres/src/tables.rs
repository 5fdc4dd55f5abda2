//! The tables, as a person sees them with `psql`: `\d+ duly.runs` shows the comments, which are stored
//! with them. `TABLES` is version 1 without its one table of history; `STEP_2` follows it.
//!
//! How each is kept in order, and why:
//!
//! | table | settings | because |
//! |---|---|---|
//! | runs, leases, jobs, backlogs, checkpoints | `HOT` | rows live for seconds: cleared often, in small portions, without pauses |
//! | commits | cleared after 50,000 dead rows | appended; the oldest go a thousand at a time |
//! | shards, nodes | half of a page is free | few rows, updated in place (HOT: no index has the columns that change) |
//! | catalog_rev | nine tenths free | one row, updated by every change of the catalog |
//! | keys_0 … keys_2, tables of history | never cleared for inserts | emptied or dropped whole; reading all of it to mark it visible is for nothing |
//! | specs, holds, catalog, meta | the server's | seldom changed |

/// Text is compared by bytes, as the model does, whatever the database's own order is.
pub(crate) const TABLES: &str = r#"
CREATE SCHEMA duly;
COMMENT ON SCHEMA duly IS 'duly, a job scheduler. All times are microseconds since 1970, UTC: SELECT to_timestamp(due / 1e6) FROM duly.runs;';

CREATE TABLE duly.meta (
  one integer PRIMARY KEY CHECK (one = 1),
  version bigint NOT NULL,
  min_reader bigint NOT NULL,
  min_writer bigint NOT NULL,
  incarnation bigint NOT NULL,
  clock_offset bigint NOT NULL,
  pruned_bytes bigint NOT NULL
);
COMMENT ON TABLE duly.meta IS 'One row.';
COMMENT ON COLUMN duly.meta.version IS 'of these tables';
COMMENT ON COLUMN duly.meta.min_reader IS 'code that knows less than this version must not read';
COMMENT ON COLUMN duly.meta.min_writer IS '... must not write';
COMMENT ON COLUMN duly.meta.incarnation IS 'grows when this is a restored copy of another database';
COMMENT ON COLUMN duly.meta.clock_offset IS 'microseconds that tests add to the clock; 0 everywhere else';
COMMENT ON COLUMN duly.meta.pruned_bytes IS 'of history, removed so far';

CREATE TABLE duly.shards (
  shard smallint PRIMARY KEY,
  owner_node bigint,
  owner_boot bigint,
  epoch bigint NOT NULL,
  incarnation bigint NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE duly.shards IS 'The fence: changed only when ownership changes. Commits lock their rows FOR SHARE.';
COMMENT ON COLUMN duly.shards.owner_node IS 'NULL before the first owner';
COMMENT ON COLUMN duly.shards.epoch IS 'grows with every change of owner; commits of others are refused';
COMMENT ON COLUMN duly.shards.incarnation IS 'meta.incarnation when the shard was last taken';

CREATE TABLE duly.commits (
  shard smallint NOT NULL,
  seq bigint NOT NULL,
  epoch bigint NOT NULL,
  at bigint NOT NULL,
  floor bigint NOT NULL,
  history_bytes bigint NOT NULL,
  PRIMARY KEY (shard, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 50000);
COMMENT ON TABLE duly.commits IS 'One row per commit of a shard; the last ones are kept. Appended and never updated: a row that is updated a thousand times a second is a chain of dead rows to walk whenever an old transaction holds back vacuum.';
COMMENT ON COLUMN duly.commits.floor IS 'time: nothing on the wheel is due before it';
COMMENT ON COLUMN duly.commits.history_bytes IS 'of history that the shard has ever written';

CREATE TABLE duly.nodes (
  node bigint NOT NULL,
  boot bigint NOT NULL,
  expires bigint NOT NULL,
  PRIMARY KEY (node, boot)
) WITH (fillfactor = 50);
COMMENT ON TABLE duly.nodes IS 'One row per life of a process. Alive while expires > now.';

CREATE TABLE duly.runs (
  shard smallint NOT NULL,
  id bytea PRIMARY KEY,
  rev bigint NOT NULL,
  bucket bigint,
  state smallint NOT NULL,
  due bigint NOT NULL,
  nominal bigint NOT NULL,
  namespace bigint NOT NULL,
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  lane smallint NOT NULL,
  grp text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  attempts integer NOT NULL,
  retries integer NOT NULL,
  lost integer NOT NULL,
  replays integer NOT NULL,
  max_retries bigint NOT NULL,
  backoff_initial bigint NOT NULL,
  backoff_factor bigint NOT NULL,
  backoff_cap bigint NOT NULL,
  max_lost bigint NOT NULL,
  timeout bigint NOT NULL,
  checkpoint bigint NOT NULL,
  fresh smallint NOT NULL,
  body bytea,
  payload bytea
) WITH (HOT_TABLE);
CREATE INDEX runs_wheel ON duly.runs (shard, bucket, id) WHERE bucket IS NOT NULL;
CREATE INDEX runs_ready ON duly.runs (shard, namespace, queue, kind, priority, lane, grp, due, id) WHERE state = 2;
CREATE INDEX runs_dead ON duly.runs (namespace, id) WHERE state = 5;
CREATE INDEX runs_retrying ON duly.runs (shard, namespace, queue) WHERE state = 4;
COMMENT ON TABLE duly.runs IS 'Runs that are not finished. While claimed, a row of leases stands beside one.';
COMMENT ON COLUMN duly.runs.id IS 'job (16 bytes) and what the run is for (8 bytes)';
COMMENT ON COLUMN duly.runs.rev IS 'counts changes of this row';
COMMENT ON COLUMN duly.runs.bucket IS 'time its minute (far future: hour) begins; NULL = waits for no instant';
COMMENT ON COLUMN duly.runs.state IS '0 scheduled, 1 blocked, 2 ready, 3 running, 4 retrying, 5 dead, 6 succeeded, 7 failed, 8 cancelled, 9 expired';
COMMENT ON COLUMN duly.runs.due IS 'when it fires or fired; dead: when it expires';
COMMENT ON COLUMN duly.runs.kind IS 'what a claimer must offer';
COMMENT ON COLUMN duly.runs.priority IS '9 first';
COMMENT ON COLUMN duly.runs.lane IS '0 fresh, 1 retry, 2 backfill';
COMMENT ON COLUMN duly.runs.grp IS 'empty = no group, =g = group g';
COMMENT ON COLUMN duly.runs.version IS 'of the spec';
COMMENT ON COLUMN duly.runs.checkpoint IS 'rev of its checkpoint, 0 = none';
COMMENT ON COLUMN duly.runs.fresh IS '1 = counts for its job''s overlap policy';
COMMENT ON COLUMN duly.runs.body IS 'its own spec without the payload; NULL = the job''s spec';

CREATE TABLE duly.leases (
  shard smallint NOT NULL,
  run bytea NOT NULL,
  rev bigint NOT NULL,
  attempt integer NOT NULL,
  token bigint NOT NULL,
  worker text COLLATE "C",
  node bigint,
  boot bigint,
  length bigint NOT NULL,
  started bigint NOT NULL,
  deadline bigint NOT NULL,
  request bigint NOT NULL,
  cancel smallint NOT NULL,
  PRIMARY KEY (shard, run)
) WITH (HOT_TABLE);
COMMENT ON TABLE duly.leases IS 'Claimed runs: who works on which, and the token that fences others.';
COMMENT ON COLUMN duly.leases.worker IS 'the holder is a worker, or, if this is NULL, an executor in a node';
COMMENT ON COLUMN duly.leases.length IS 'microseconds';
COMMENT ON COLUMN duly.leases.request IS '64 bits of the claim request';
COMMENT ON COLUMN duly.leases.cancel IS '1 = the holder was asked to stop';

CREATE TABLE duly.jobs (
  shard smallint NOT NULL,
  id bytea PRIMARY KEY,
  rev bigint NOT NULL,
  bucket bigint,
  due bigint,
  namespace bigint NOT NULL,
  state smallint NOT NULL,
  version bigint NOT NULL,
  created bigint NOT NULL,
  versioned bigint NOT NULL,
  mark bigint NOT NULL,
  next bigint,
  fired bigint NOT NULL,
  live text COLLATE "C" NOT NULL,
  active bytea,
  waiting bytea,
  pause_since bigint,
  pause_until bigint,
  pause_reason text COLLATE "C",
  reruns bigint NOT NULL,
  backfills integer NOT NULL,
  sweep smallint NOT NULL,
  removing smallint NOT NULL
) WITH (HOT_TABLE);
CREATE INDEX jobs_wheel ON duly.jobs (shard, bucket, id) WHERE bucket IS NOT NULL;
COMMENT ON TABLE duly.jobs IS 'Recurring jobs, the part that changes. One-off jobs have only a run.';
COMMENT ON COLUMN duly.jobs.due IS 'when this row wants to be looked at; NULL = not at all';
COMMENT ON COLUMN duly.jobs.state IS '0 active, 1 paused, 2 ended, 3 cancelled';
COMMENT ON COLUMN duly.jobs.version IS 'of the spec in force';
COMMENT ON COLUMN duly.jobs.versioned IS 'when that version was made';
COMMENT ON COLUMN duly.jobs.mark IS 'last nominal instant decided; never goes back';
COMMENT ON COLUMN duly.jobs.live IS 'unfinished runs per version: version:runs version:runs';
COMMENT ON COLUMN duly.jobs.active IS 'the fresh run that is unfinished';
COMMENT ON COLUMN duly.jobs.waiting IS 'the one that waits for it';
COMMENT ON COLUMN duly.jobs.sweep IS '1 = cancelled, runs still to be cancelled';
COMMENT ON COLUMN duly.jobs.removing IS '1 = the row goes with the last run';

CREATE TABLE duly.specs (
  shard smallint NOT NULL,
  job bytea NOT NULL,
  version bigint NOT NULL,
  namespace bigint NOT NULL,
  name text COLLATE "C",
  body bytea NOT NULL,
  payload bytea NOT NULL,
  PRIMARY KEY (shard, job, version)
);
COMMENT ON TABLE duly.specs IS 'What a recurring job shall do, per version. Never changed.';
COMMENT ON COLUMN duly.specs.body IS 'fields of the spec: crates/store/src/codec/encode.rs';

CREATE TABLE duly.backlogs (
  shard smallint NOT NULL,
  id bytea NOT NULL,
  rev bigint NOT NULL,
  bucket bigint NOT NULL,
  due bigint NOT NULL,
  cursor bigint NOT NULL,
  until bigint NOT NULL,
  per_second bigint NOT NULL,
  only_those smallint NOT NULL,
  version bigint NOT NULL,
  versioned bigint NOT NULL,
  done bigint NOT NULL,
  total bigint NOT NULL,
  PRIMARY KEY (shard, id)
) WITH (HOT_TABLE);
CREATE INDEX backlogs_wheel ON duly.backlogs (shard, bucket, id);
COMMENT ON TABLE duly.backlogs IS 'Ranges of past instants that are worked off at a rate: catch-up and backfill.';
COMMENT ON COLUMN duly.backlogs.id IS 'job (16 bytes), 00 catch-up or 01 backfill, its start or number';
COMMENT ON COLUMN duly.backlogs.cursor IS 'instants in (cursor, until] are to be decided';
COMMENT ON COLUMN duly.backlogs.only_those IS '0 missing, 1 failed, 2 all';

CREATE TABLE duly.checkpoints (
  shard smallint NOT NULL,
  run bytea NOT NULL,
  rev bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (shard, run)
) WITH (HOT_TABLE);
COMMENT ON TABLE duly.checkpoints IS 'What an attempt left for the next one.';

CREATE TABLE duly.holds (
  shard smallint NOT NULL,
  scope smallint NOT NULL,
  namespace bigint NOT NULL,
  queue text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  until bigint,
  PRIMARY KEY (shard, scope, namespace, queue)
);
COMMENT ON TABLE duly.holds IS 'What must not start.';
COMMENT ON COLUMN duly.holds.scope IS '0 everything, 1 a namespace, 2 a queue';
COMMENT ON COLUMN duly.holds.until IS 'NULL = until somebody lifts it';

CREATE TABLE duly.catalog (
  kind smallint NOT NULL,
  namespace bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  rev bigint NOT NULL,
  at bigint NOT NULL,
  text text COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, namespace, name)
);
COMMENT ON TABLE duly.catalog IS 'Small things of the whole cluster. text is JSON.';
COMMENT ON COLUMN duly.catalog.kind IS '1 namespace, 2 number of a namespace, 3 name of a job, 4 queue, 5 API key, 6 operation, 7 setting';
COMMENT ON COLUMN duly.catalog.rev IS 'of catalog_rev when it was written';
CREATE TABLE duly.catalog_rev (
  one integer PRIMARY KEY CHECK (one = 1),
  rev bigint NOT NULL
) WITH (fillfactor = 10);
COMMENT ON TABLE duly.catalog_rev IS 'One row: counts the changes of catalog.';
INSERT INTO duly.catalog_rev VALUES (1, 0);
"#;

/// What version 2 adds: history by day, the versions of nodes, and which server wrote this.
pub(crate) const STEP_2: &str = r#"
ALTER TABLE duly.meta ADD COLUMN by_day smallint NOT NULL DEFAULT 0,
  ADD COLUMN system_id bigint NOT NULL DEFAULT 0, ADD COLUMN timeline bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN duly.meta.by_day IS '1 = history is written by day; 0 = to the one table of version 1, because a node of that version lives';
COMMENT ON COLUMN duly.meta.system_id IS 'of the server that wrote this; another one is a restored copy';
COMMENT ON COLUMN duly.meta.timeline IS 'of that server; another one was promoted, or recovered from a backup';
ALTER TABLE duly.nodes ADD COLUMN version bigint NOT NULL DEFAULT 1;
COMMENT ON COLUMN duly.nodes.version IS 'of these tables that the node knows';
ALTER TABLE duly.nodes SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 200);
ALTER TABLE duly.keys_0 SET (autovacuum_vacuum_insert_threshold = -1);
ALTER TABLE duly.keys_1 SET (autovacuum_vacuum_insert_threshold = -1);
ALTER TABLE duly.keys_2 SET (autovacuum_vacuum_insert_threshold = -1);

CREATE TABLE duly.history_template (
  hid bigint PRIMARY KEY,
  shard smallint NOT NULL,
  run bytea NOT NULL,
  token bigint NOT NULL,
  attempt integer NOT NULL,
  namespace bigint NOT NULL,
  nominal bigint NOT NULL,
  due bigint NOT NULL,
  started bigint,
  finished bigint NOT NULL,
  version bigint NOT NULL,
  status smallint NOT NULL,
  worker text COLLATE "C",
  code integer,
  error text COLLATE "C",
  output bytea,
  state_after smallint NOT NULL,
  next bigint,
  until bigint,
  count bigint NOT NULL,
  flow_namespace bigint,
  queue text COLLATE "C",
  kind text COLLATE "C",
  priority smallint,
  lane smallint,
  grp text COLLATE "C",
  planned_job bytea,
  bytes bigint NOT NULL
);
CREATE UNIQUE INDEX ON duly.history_template (run, token);
CREATE INDEX ON duly.history_template (planned_job, nominal, run) WHERE planned_job IS NOT NULL;
CREATE INDEX ON duly.history_template (planned_job, until) WHERE planned_job IS NOT NULL AND until > nominal;
CREATE INDEX ON duly.history_template (namespace, hid) WHERE state_after = 7;
COMMENT ON TABLE duly.history_template IS 'Always empty: what the tables of history look like, one for each day: history_tables. One row per attempt, and one per instant (or range of instants) that made no run.';
COMMENT ON COLUMN duly.history_template.hid IS 'its place in the order of ends; begins with the day';
COMMENT ON COLUMN duly.history_template.token IS '0 = no attempt';
COMMENT ON COLUMN duly.history_template.status IS '0 succeeded, 1 failed, 2 timed out, 3 lost, 4 cancelled, 5 released, 6 snoozed, 7 discarded, 8 skipped: overlap, 9 skipped: paused, 10 coalesced, 11 missed';
COMMENT ON COLUMN duly.history_template.state_after IS 'of the run: as runs.state';
COMMENT ON COLUMN duly.history_template.next IS 'when its next attempt was due';
COMMENT ON COLUMN duly.history_template.until IS 'a range of verdicts: its last instant';
COMMENT ON COLUMN duly.history_template.count IS '... and how many';
COMMENT ON COLUMN duly.history_template.flow_namespace IS 'NULL = as namespace';
COMMENT ON COLUMN duly.history_template.queue IS 'NULL = was in no flow, then so are the next four';
COMMENT ON COLUMN duly.history_template.planned_job IS 'the job; NULL for a one-off';
COMMENT ON COLUMN duly.history_template.bytes IS 'that the row takes, about, with its index entries';

CREATE TABLE duly.history_tables (
  name text COLLATE "C" PRIMARY KEY,
  day bigint NOT NULL,
  failures smallint NOT NULL,
  trimmed smallint NOT NULL
);
COMMENT ON TABLE duly.history_tables IS 'The tables of history.';
COMMENT ON COLUMN duly.history_tables.day IS 'since 1970, UTC, of the ends in it; 0 = the one table of version 1';
COMMENT ON COLUMN duly.history_tables.failures IS '1 = those that did not succeed, which are kept longer';
COMMENT ON COLUMN duly.history_tables.trimmed IS '1 = rows were removed one by one';
"#;

/// Rows here live for seconds: their remains are cleared often and in small portions, and updates
/// find room on their own page.
pub(crate) const HOT: &str = "fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, \
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.2, \
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05";

/// Three days of keys, and why three: see `keys`.
pub(crate) fn key_tables() -> String {
    let table = |n: usize| {
        format!(
            "CREATE TABLE duly.keys_{n} (
  shard smallint NOT NULL,
  namespace bigint NOT NULL,
  queue text COLLATE \"C\" NOT NULL,
  grp text COLLATE \"C\" NOT NULL,
  key text COLLATE \"C\" NOT NULL,
  day integer NOT NULL,
  at bigint NOT NULL,
  body bigint NOT NULL,
  made smallint NOT NULL,
  made_id bytea NOT NULL,
  PRIMARY KEY (shard, namespace, queue, grp, key)
);
COMMENT ON TABLE duly.keys_{n} IS 'Idempotency keys of the days (since 1970) that leave {n} when divided by three. Emptied whole, two days later.';
COMMENT ON COLUMN duly.keys_{n}.body IS '64 bits of the request''s hash';
COMMENT ON COLUMN duly.keys_{n}.made IS 'the answer: 0 a job, 1 a run, 2 a backlog';
"
        )
    };
    (0..3).map(table).collect()
}

/// What was made with an API key that has a quota of it. Nodes of a version before go on: what they make
/// does not count for a key.
pub(crate) const STEP_6: &str = r#"
ALTER TABLE duly.runs ADD COLUMN IF NOT EXISTS api_key bigint;
ALTER TABLE duly.specs ADD COLUMN IF NOT EXISTS api_key bigint;
COMMENT ON COLUMN duly.runs.api_key IS 'of its own spec: the key that it was made with, if that key has a quota of what there is; NULL = nobody counts';
COMMENT ON COLUMN duly.specs.api_key IS 'the key that the job was made with, if that key has a quota of what there is; NULL = nobody counts';
CREATE INDEX IF NOT EXISTS runs_key ON duly.runs (api_key, state) WHERE api_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS specs_key ON duly.specs (api_key) WHERE api_key IS NOT NULL;
"#;

/// Indexes in another order than that of keys are for questions about that order only: with a condition that
/// only those imply, none is taken for a row by its key, whose shard alone they would find. Every index of
/// that kind has one.
pub(crate) const STEP_7: &str = "
DROP INDEX duly.leases_token;
CREATE INDEX leases_token ON duly.leases (shard, token) WHERE token IS NOT NULL;
DROP INDEX duly.backlogs_wheel;
CREATE INDEX backlogs_wheel ON duly.backlogs (shard, bucket, id) WHERE bucket IS NOT NULL;
";

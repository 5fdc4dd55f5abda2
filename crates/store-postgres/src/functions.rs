//! Functions that are not made from a table's columns: the clock, the fence, leases of nodes, and
//! idempotency keys.

use crate::error::{FENCE_STATE, FORMER_STATE, ROW_STATE, SERVER_STATE};
use crate::limits::{COMMITS_KEPT, EMPTY_WAIT_MS, LEASE_KEPT};
use crate::table::{by_key, settings};
use model::Time;

/// The fence of version 5. That of versions 2 to 4 has two parameters less and stays for their nodes,
/// who know nothing of what those say.
pub(crate) fn fence() -> String {
    let settings = settings();
    format!(
        r#"
CREATE OR REPLACE FUNCTION duly.fence(shards bigint[], epochs bigint[], seqs bigint[], decided bigint[], floors bigint[], bytes bigint[], readies bigint[], tokens bigint[])
RETURNS bigint {settings} AS $$
DECLARE now bigint; taken bigint;
BEGIN
  -- In order, so that two of these never wait for each other.
  PERFORM 1 FROM duly.shards AS s WHERE s.shard = ANY (shards) ORDER BY s.shard FOR SHARE;
  PERFORM duly.same_server();
  now := duly.clock();
  INSERT INTO duly.commits (shard, seq, epoch, at, floor, history_bytes, ready_from, leases_from)
  SELECT x.shard, x.seq, x.epoch, now, coalesce(x.floor, l.floor), l.history_bytes + x.bytes, x.ready, greatest(x.token, l.leases_from)
  FROM unnest(shards, epochs, seqs, decided, floors, bytes, readies, tokens) AS x(shard, epoch, seq, decided, floor, bytes, ready, token)
  JOIN duly.shards AS s ON s.shard = x.shard AND s.epoch = x.epoch
    AND s.incarnation = (SELECT m.incarnation FROM duly.meta AS m)
  CROSS JOIN LATERAL (
    SELECT c.seq, c.floor, c.history_bytes, c.leases_from FROM duly.commits AS c
    WHERE c.shard = x.shard ORDER BY c.seq DESC LIMIT 1) AS l
  WHERE x.seq = l.seq + 1 AND x.decided <= now;
  GET DIAGNOSTICS taken = ROW_COUNT;
  IF taken <> cardinality(shards) THEN
    RAISE EXCEPTION '% of % shards could commit', taken, cardinality(shards) USING ERRCODE = '{FENCE_STATE}';
  END IF;
  DELETE FROM duly.commits AS c USING unnest(shards, seqs) AS x(shard, seq)
  WHERE x.seq % {COMMITS_KEPT} = 0 AND c.shard = x.shard AND c.seq <= x.seq - {COMMITS_KEPT};
  RETURN now;
END $$;
COMMENT ON FUNCTION duly.fence(bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]) IS
  'Numbers one commit for each shard, or raises: another epoch, another number, or decisions of the future.';
CREATE OR REPLACE FUNCTION duly.fence(shards bigint[], epochs bigint[], seqs bigint[], decided bigint[], floors bigint[], bytes bigint[])
RETURNS bigint {settings} AS $$
BEGIN RETURN duly.fence(shards, epochs, seqs, decided, floors, bytes, '{{}}', '{{}}'); END $$;
"#
    )
}

pub(crate) fn all() -> String {
    let (settings, by_key) = (settings(), by_key());
    let (keys, past) = (keys(&by_key), past(&by_key));
    let (kept, last) = (LEASE_KEPT.micros(), Time::MAX.micros());
    format!(
        r#"
CREATE OR REPLACE FUNCTION duly.clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT clock_offset FROM duly.meta)
$$;
COMMENT ON FUNCTION duly.clock() IS 'The time that counts, in microseconds since 1970.';

CREATE OR REPLACE FUNCTION duly.bucket(due bigint, clock bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN due - clock >= 7200000000 THEN due - due % 3600000000 ELSE due - due % 60000000 END
$$;
COMMENT ON FUNCTION duly.bucket(bigint, bigint) IS 'When the minute begins, or if it is two hours away the hour.';

CREATE OR REPLACE FUNCTION duly.timeline() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
$$;
COMMENT ON FUNCTION duly.timeline() IS 'Grows when a replica is promoted, and when a backup is recovered.';

CREATE OR REPLACE FUNCTION duly.same_server() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT timeline FROM duly.meta) <> duly.timeline() THEN
    RAISE EXCEPTION 'another server than the one that wrote this: it was promoted or recovered' USING ERRCODE = '{SERVER_STATE}';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION duly.renew(a_node bigint, a_boot bigint, ttl bigint, a_version bigint) RETURNS bigint {settings} AS $$
DECLARE now bigint := duly.clock();
BEGIN
  PERFORM duly.same_server();
  INSERT INTO duly.nodes AS n (node, boot, expires, version)
  VALUES (a_node, a_boot, now + least(ttl, {last} - now), a_version)
  ON CONFLICT (node, boot) DO UPDATE SET expires = excluded.expires, version = excluded.version;
  DELETE FROM duly.nodes AS n WHERE (n.node, n.boot) <> (a_node, a_boot) AND n.expires <= now - {kept};
  RETURN now;
END $$;
{past}{keys}"#
    )
}

/// What is rarely done to history, over all its tables: to remove rows, and to see that there are
/// none.
fn past(settings: &str) -> String {
    let place = "unnest($1, $2, $3) AS x(shard, run, token) \
                 WHERE h.run = x.run AND h.token = x.token AND h.shard = x.shard";
    let check = format!(
        "IF found_rows <> wanted THEN
    RAISE EXCEPTION 'history: % of % rows were as expected', found_rows, wanted USING ERRCODE = '{ROW_STATE}';
  END IF;"
    );
    format!(
        r#"
CREATE OR REPLACE FUNCTION duly.remove_past(clock bigint, a1 bigint[], a2 bytea[], a3 bigint[], a4 bigint[])
RETURNS void {settings} AS $$
DECLARE found_rows bigint := 0; removed_rows bigint; wanted bigint := cardinality(a1); part text;
BEGIN
  FOR part IN SELECT name FROM duly.history_tables LOOP
    EXECUTE format('DELETE FROM duly.%I AS h USING {place}', part) USING a1, a2, a3;
    GET DIAGNOSTICS removed_rows = ROW_COUNT;
    found_rows := found_rows + removed_rows;
  END LOOP;
  IF 1 <> ANY (a4) THEN found_rows := -1; END IF;
  {check}
END $$;
CREATE OR REPLACE FUNCTION duly.absent_past(clock bigint, a1 bigint[], a2 bytea[], a3 bigint[])
RETURNS void {settings} AS $$
DECLARE found_rows bigint; wanted bigint := 0; part text;
BEGIN
  FOR part IN SELECT name FROM duly.history_tables LOOP
    EXECUTE format('SELECT count(*) FROM duly.%I AS h, {place}', part) INTO found_rows USING a1, a2, a3;
    {check}
  END LOOP;
END $$;
"#
    )
}

/// Version 1 is over: what only it calls answers with words.
pub(crate) fn former(kinds: &str) -> String {
    let words = "the tables are of version 2 now, and this duly knows version 1: stop it and start the newer one";
    let body = format!(
        "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{words}' USING ERRCODE = '{FORMER_STATE}'; END $$;"
    );
    format!(
        "CREATE OR REPLACE FUNCTION duly.insert_history(clock bigint, {kinds}) RETURNS void {body}
         CREATE OR REPLACE FUNCTION duly.renew(a_node bigint, a_boot bigint, ttl bigint) RETURNS bigint {body}"
    )
}

const SAME: &str = "k.shard = x.shard AND k.namespace = x.namespace AND k.queue = x.queue \
    AND k.grp = x.grp AND k.key = x.key";
const PLACE: &str = "shard, namespace, queue, grp, key";

/// See `keys` for the rules. A key counts from the day before today on.
fn keys(settings: &str) -> String {
    let known = |but: Option<usize>| {
        let tables = (0..3).filter(|n| Some(*n) != but).map(|n| {
            format!("EXISTS (SELECT 1 FROM duly.keys_{n} AS k WHERE {SAME} AND k.day >= today - 1)")
        });
        tables.collect::<Vec<_>>().join(" OR ")
    };
    let check = |wanted: &str| {
        format!(
            "IF found_rows <> {wanted} THEN
    RAISE EXCEPTION 'keys: % of % rows were as expected', found_rows, {wanted} USING ERRCODE = '{ROW_STATE}';
  END IF;"
        )
    };
    let place = "unnest(a1, a2, a3, a4, a5) AS x(shard, namespace, queue, grp, key)";
    let all = "unnest(a1, a2, a3, a4, a5, a6, a7, a8, a9) \
               AS x(shard, namespace, queue, grp, key, at, body, made, made_id)";
    let inserts: String = (0..3)
        .map(|n| {
            format!(
                "IF today % 3 = {n} THEN
    INSERT INTO duly.keys_{n} AS k ({PLACE}, day, at, body, made, made_id)
    SELECT x.shard, x.namespace, x.queue, x.grp, x.key, today, x.at, x.body, x.made, x.made_id
    FROM {all} WHERE NOT ({others})
    ON CONFLICT ({PLACE}) DO UPDATE SET day = excluded.day, at = excluded.at, body = excluded.body,
      made = excluded.made, made_id = excluded.made_id WHERE k.day < today - 1;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
  END IF;
  ",
                others = known(Some(n))
            )
        })
        .collect();
    let removes: String = (0..3)
        .map(|n| {
            format!(
                "DELETE FROM duly.keys_{n} AS k USING unnest(a1, a2, a3, a4, a5, a6) \
                 AS x(shard, namespace, queue, grp, key, expected)
    WHERE {SAME} AND k.day >= today - 1 AND x.expected = 1;
  GET DIAGNOSTICS removed_rows = ROW_COUNT;
  found_rows := found_rows + removed_rows;
  "
            )
        })
        .collect();
    let empties: String = (0..3)
        .map(|n| {
            format!(
                "IF (today + 1) % 3 = {n} AND EXISTS (SELECT 1 FROM duly.keys_{n})
    AND NOT EXISTS (SELECT 1 FROM duly.keys_{n} AS k WHERE k.day >= today - 1) THEN
    TRUNCATE duly.keys_{n};
  END IF;
  "
            )
        })
        .collect();
    let (known, is_all, is_place) =
        (known(None), check("cardinality(a1)"), check("cardinality(a1)"));
    let types = "a1 bigint[], a2 bigint[], a3 text[], a4 text[], a5 text[]";
    format!(
        r#"
CREATE OR REPLACE FUNCTION duly.insert_keys(clock bigint, {types}, a6 bigint[], a7 bigint[], a8 bigint[], a9 bytea[])
RETURNS void {settings} AS $$
DECLARE found_rows bigint; today bigint := clock / 86400000000;
BEGIN
  {inserts}{is_all}
END $$;
CREATE OR REPLACE FUNCTION duly.remove_keys(clock bigint, {types}, a6 bigint[])
RETURNS void {settings} AS $$
DECLARE found_rows bigint := 0; removed_rows bigint; today bigint := clock / 86400000000;
BEGIN
  {removes}{is_all}
END $$;
CREATE OR REPLACE FUNCTION duly.absent_keys(clock bigint, {types})
RETURNS void {settings} AS $$
DECLARE found_rows bigint; today bigint := clock / 86400000000;
BEGIN
  PERFORM 1 FROM {place} WHERE NOT ({known});
  GET DIAGNOSTICS found_rows = ROW_COUNT;
  {is_place}
END $$;
CREATE OR REPLACE FUNCTION duly.empty_keys() RETURNS void LANGUAGE plpgsql SET lock_timeout = {EMPTY_WAIT_MS} AS $$
DECLARE today bigint := duly.clock() / 86400000000;
BEGIN
  {empties}
END $$;
"#
    )
}

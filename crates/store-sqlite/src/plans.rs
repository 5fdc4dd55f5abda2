//! Does every statement find its rows by an index? SQLite says so itself; a statement that scans
//! a table would pass every other test and stop a large store.

use crate::{claims, counts, files, history, jobs, keys, queues, runs, schema, search, wheel};
use rusqlite::Connection;

fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it parses");
    let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
    let rows = statement
        .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3))
        .expect("it is explained");
    rows.map(|row| row.expect("a step")).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_statement_seeks() {
    let folder = tempfile::tempdir().expect("a folder");
    let conn = files::writer(folder.path()).expect("it opens");
    schema::migrate(&conn).expect("tables are made");
    let expected = [
        (runs::RUNS.all(), "runs_id (id=?)"),
        (claims::LEASES.all(), "PRIMARY KEY (shard=? AND run=?)"),
        (claims::CHECKPOINTS.all(), "PRIMARY KEY (shard=? AND run=?)"),
        (claims::HOLDS.all(), "PRIMARY KEY (shard=? AND scope=? AND namespace=? AND queue=?)"),
        (queues::QUEUES.all(), "PRIMARY KEY (shard=? AND namespace=? AND queue=?)"),
        (vec![&*queues::OF_SHARD], "PRIMARY KEY (shard=?)"),
        (jobs::JOBS.all(), "PRIMARY KEY (shard=? AND id=?)"),
        (jobs::SPECS.all(), "PRIMARY KEY (shard=? AND job=? AND version=?)"),
        (jobs::BACKLOGS.all(), "PRIMARY KEY (shard=? AND id=?)"),
        (keys::KEYS[0].all(), "(shard=? AND namespace=? AND queue=? AND grp=? AND key=?)"),
        (history::HISTORY.all(), "history_run (run=? AND token=?)"),
        (vec![&*wheel::RUNS], "PRIMARY KEY (shard=? AND (bucket,id)>(?,?) AND bucket<?)"),
        (vec![wheel::JOBS], "jobs_wheel (shard=? AND (bucket,id)>(?,?) AND bucket<?)"),
        (vec![wheel::BACKLOGS], "backlogs_wheel (shard=? AND (bucket,id)>(?,?) AND bucket<?)"),
        (vec![&*runs::OF_FLOW], "grp=? AND (due,id)>(?,?))"),
        (vec![runs::FLOWS], "(shard=? AND (namespace,queue,kind,priority,lane,grp)>(?,?,?,?,?,?))"),
        (vec![&*runs::OF_JOB], "runs_id (id>? AND id<?)"),
        (vec![&*claims::WITH_RUNS], "PRIMARY KEY (shard=? AND run>?)"),
        (vec![history::RANGES], "history_ranges (planned_job=? AND until>?)"),
        (vec![history::INSTANTS], "history_instants (planned_job=? AND nominal>? AND nominal<?)"),
        (vec![&*history::OF_RUN, &*history::LAST_OF_RUN], "history_run (run=?)"),
        (vec![&*history::VERDICTS], "history_instants (planned_job=? AND nominal>? AND nominal<?)"),
        (vec![&*history::VERDICT_RANGES], "history_ranges (planned_job=? AND until>?)"),
        (vec![&*search::RECURRING], "jobs_id (id<?)"),
        (vec![&*search::LIVE], "runs_id (id<?)"),
        (vec![&*search::DEAD], "runs_dead (namespace=? AND id<?)"),
        (vec![&*search::ENDED], "INTEGER PRIMARY KEY (rowid<?)"),
        (vec![&*search::FAILED], "history_failures (namespace=? AND hid<?)"),
        (vec![&*search::BY_RUN], "history_run (run<?)"),
        (vec![&*search::OF_JOB], "history_instants (planned_job=? AND (nominal,run)<(?,?))"),
        (vec![counts::WAITING[0]], "runs_ready (shard=? AND namespace=?)"),
        (vec![counts::WAITING[1]], "runs_retrying (shard=? AND namespace=?)"),
        (vec![counts::KEY_OWN], "runs_key (api_key=? AND state=?)"),
        (vec![counts::KEY_OF_JOB], "runs_id (id>? AND id<?)"),
        (vec![counts::KEY_SPECS], "specs_key (api_key=?)"),
        (vec![counts::OLD, history::REMOVE], "INTEGER PRIMARY KEY (rowid"),
    ];
    for (statements, seek) in expected {
        for sql in statements {
            let plan = plan(&conn, sql);
            assert!(plan.contains(seek), "{sql}\nwants {seek}\nbut does {plan}");
            // What a subquery brought is read through, and it is bounded.
            let tables = plan.replace("SCAN (subquery", "");
            assert!(!tables.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}

//! Is the file sound? Looked at without a server and without changing anything, for
//! `duly doctor --data DIR`. Each question is one statement that finds nothing in a sound file.

use crate::error::OpenError;
use crate::{files, schema};
use rusqlite::Connection;
use std::path::Path;

/// Rows that are named of one kind of finding; the others are counted.
const NAMED: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub help: &'static str,
}

const REPORT: &str = "duly can run with it; keep a backup of the file and report it";
const DAMAGED: &str = "stop duly, keep the file, and restore the last backup: duly restore --help";

/// What must not be found, what it is called, and what to do.
const QUESTIONS: [(&str, &str, &str); 8] = [
    (
        "leases without a run",
        "SELECT hex(l.run) FROM leases l LEFT JOIN runs r ON r.id = l.run WHERE r.id IS NULL",
        REPORT,
    ),
    (
        "checkpoints without a run",
        "SELECT hex(c.run) FROM checkpoints c LEFT JOIN runs r ON r.id = c.run WHERE r.id IS NULL",
        REPORT,
    ),
    (
        "definitions without a job",
        "SELECT hex(s.job) FROM specs s LEFT JOIN jobs j ON j.id = s.job WHERE j.id IS NULL",
        REPORT,
    ),
    (
        "jobs without a definition",
        "SELECT hex(j.id) FROM jobs j LEFT JOIN specs s ON s.job = j.id AND s.version = j.version
         WHERE s.job IS NULL",
        DAMAGED,
    ),
    (
        "runs that nothing defines",
        "SELECT hex(r.id) FROM runs r LEFT JOIN jobs j ON j.id = substr(r.id, 1, 16)
         WHERE r.body IS NULL AND j.id IS NULL",
        DAMAGED,
    ),
    (
        "runs that are finished and still live",
        "SELECT hex(r.id) FROM runs r JOIN history h ON h.run = r.id
         WHERE h.state_after IN (6, 7, 8, 9)",
        REPORT,
    ),
    (
        "tokens of an epoch that no owner had",
        "SELECT hex(l.run) FROM leases l JOIN shards s ON s.shard = l.shard
         WHERE (l.token >> 32) > s.epoch",
        DAMAGED,
    ),
    (
        "work that lies where no owner looks",
        "SELECT hex(r.id) FROM runs r JOIN shards s ON s.shard = r.shard
         WHERE r.state NOT IN (1, 2) AND r.due < s.floor
           AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.run = r.id)",
        REPORT,
    ),
];

/// Everything that is wrong with the folder's database; empty if nothing is.
pub fn examine(folder: &Path) -> Result<Vec<Finding>, OpenError> {
    let conn = files::reader(folder)?;
    schema::known(&conn)?;
    let mut found = Vec::new();
    for line in lines(&conn, "PRAGMA integrity_check", NAMED + 1)? {
        if line != "ok" {
            found.push(Finding { what: format!("the file is damaged: {line}"), help: DAMAGED });
        }
    }
    if !found.is_empty() {
        // What a damaged file answers says nothing.
        return Ok(found);
    }
    for (what, question, help) in QUESTIONS {
        let count: i64 =
            conn.query_row(&format!("SELECT count(*) FROM ({question})"), [], |row| row.get(0))?;
        if count > 0 {
            let named = lines(&conn, question, NAMED)?.join(", ");
            found.push(Finding { what: format!("{count} {what}: {named}"), help });
        }
    }
    Ok(found)
}

fn lines(conn: &Connection, question: &str, most: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(question)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.take(most).collect()
}

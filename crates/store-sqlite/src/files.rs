//! The data folder: the database, its lock, and how connections are set up.
//!
//! The lock is a file of its own (`duly.lock`) with an advisory lock of the operating system, which
//! ends with the process however that ends. `sqlite3` does not ask for it, so a person may look
//! while duly runs; a second duly may not.

use crate::error::OpenError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

/// How long a stranger (`sqlite3`, a backup) may keep the file to itself before a call is refused.
const BUSY: Duration = Duration::from_secs(2);
/// Statements are few and fixed; all of them stay prepared.
const STATEMENTS: usize = 128;
/// The writer checkpoints by itself only when `checkpoint` was not called for so many pages.
const AUTOCHECKPOINT_PAGES: i64 = 16_384;
/// What the log's file is cut back to when a burst had made it larger.
const LOG_KEPT_BYTES: i64 = 128 << 20;
/// KiB of page cache, negative as SQLite wants it.
const WRITER_CACHE: i64 = -65_536;
const READER_CACHE: i64 = -8_192;

pub(crate) fn lock(folder: &Path) -> Result<File, OpenError> {
    std::fs::create_dir_all(folder)?;
    let file =
        File::options().create(true).truncate(false).write(true).open(folder.join("duly.lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// A file whose name is not on the disk yet is lost with everything in it. SQLite sees to the
/// files' names, not to the name of the folder.
pub(crate) fn sync_names(folder: &Path) -> Result<(), OpenError> {
    if cfg!(unix) {
        let folder = folder.canonicalize()?;
        for folder in folder.ancestors().take(2) {
            File::open(folder)?.sync_all()?;
        }
    }
    Ok(())
}

pub(crate) fn writer(folder: &Path) -> Result<Connection, OpenError> {
    let conn = Connection::open(folder.join("duly.db"))?;
    conn.busy_timeout(BUSY)?;
    // Before the first table; without effect on a file that has some.
    conn.pragma_update(None, "page_size", 4096)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(OpenError::NoLog);
    }
    // FULL: a commit is answered when it is on the disk. `log` takes that over for the store's writer.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
    conn.pragma_update_and_check(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES, |_| Ok(()))?;
    conn.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))?;
    common(&conn)?;
    Ok(conn)
}

pub(crate) fn reader(folder: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(folder.join("duly.db"), flags)?;
    conn.busy_timeout(BUSY)?;
    conn.pragma_update(None, "cache_size", READER_CACHE)?;
    common(&conn)?;
    Ok(conn)
}

fn common(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // A plan holds for whatever is bound. Otherwise SQLite looks at what is bound to a LIMIT, and makes a prepared statement
    // anew whenever something is: 50 µs for each page that is read, of 256 shards in turn.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    // A schema that was tampered with must not call functions with side effects.
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "temp_store", "MEMORY")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    /// No other test would notice: a killed process leaves its writes with the kernel, only a
    /// power cut takes them.
    #[test]
    fn a_writer_waits_for_the_disk_unless_somebody_else_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = writer(folder.path()).expect("it opens");
        let number = |name: &str| -> i64 {
            conn.pragma_query_value(None, name, |row| row.get(0)).expect("a number")
        };
        const FULL: i64 = 2;
        assert_eq!(number("synchronous"), FULL);
        assert_eq!(number("page_size"), 4096);
        assert_eq!(number("foreign_keys"), 0);
    }

    #[test]
    fn a_statement_is_prepared_once_whatever_is_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = writer(folder.path()).expect("it opens");
        writer
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2), (3)")
            .expect("made");
        for conn in [writer, reader(folder.path()).expect("it opens")] {
            let sql = "SELECT count(*) FROM (SELECT x FROM t WHERE x > ?1 LIMIT ?2)";
            let mut statement = conn.prepare(sql).expect("it parses");
            for limit in 1..=3 {
                let found = statement.query_row([0, limit], |row| row.get::<_, i64>(0));
                assert_eq!(found.expect("rows"), limit);
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().expect("a folder");
        writer(folder.path()).expect("it opens").execute_batch("CREATE TABLE t (x)").expect("made");
        let conn = reader(folder.path()).expect("it opens");
        assert!(conn.execute_batch("INSERT INTO t VALUES (1)").is_err());
    }
}

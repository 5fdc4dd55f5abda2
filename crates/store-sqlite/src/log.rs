//! The write-ahead log's way to the disk, apart from the transactions that write it: so that the next
//! one can be written while the last ones are being synced, and one sync serves several.
//!
//! The writer runs with synchronous = NORMAL: its commits leave frames with the operating system and
//! wait for nothing. `sync` is an fdatasync of the log's file. Whoever promises that something is
//! durable calls it after the commit and waits for it. Why that is enough (docs/adr/0008-sqlite.md has
//! it in full): frames are chained by checksums, so what recovery believes is a prefix of the commits;
//! and SQLite overwrites the log only after a checkpoint has synced the log, moved all of it into the
//! database and synced that.

use crate::error::{Fault, OpenError, Res};
use rusqlite::Connection;
use std::fs::File;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct Log {
    /// A handle of our own: errors of writing back are told to each handle once.
    file: File,
}

impl Log {
    /// From here on the writer's commits are durable only after `sync`.
    pub fn of(folder: &Path, writer: &Connection) -> Result<Log, OpenError> {
        // Opens the log, if nothing has yet; it then lives as long as the connection.
        writer.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
        let file = File::open(folder.join("duly.db-wal"))?;
        writer.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Log { file })
    }

    pub fn sync(&self) -> Res<()> {
        self.file.sync_data().map_err(|error| Fault::Sync(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NORMAL and not OFF: checkpoints sync the log before they move it and the database after.
    #[test]
    fn the_writer_leaves_only_its_commits_to_us() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = crate::files::writer(folder.path()).expect("it opens");
        Log::of(folder.path(), &conn).expect("a log");
        const NORMAL: i64 = 1;
        let level: i64 =
            conn.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a number");
        assert_eq!(level, NORMAL);
    }
}

//! What can go wrong, and what a caller is told.
//!
//! | SQLite says | told | the store afterwards |
//! |---|---|---|
//! | FULL, NOMEM, TOOBIG | `Refused(Room)` | rolled back, goes on |
//! | BUSY, LOCKED (a stranger holds the file) | `Refused(Time)` after a bounded wait | goes on |
//! | READONLY, PERM | `Refused(ReadOnly)` | goes on |
//! | a failed sync of the log, IOERR, CORRUPT, NOTADB, CANTOPEN | `Unknown` | **broken** |
//! | anything else; a value this code does not know | `Unknown` | rolled back, goes on |
//!
//! Broken is for good: after a failed fsync nobody knows what the disk holds, and asking again
//! may be answered from a cache that was dropped. Only a new process that reads the file anew may
//! go on, so `node` turns `SqliteStore::broken` into an exit.

use rusqlite::ErrorCode;
use std::fmt;
use store::{Refusal, StoreError};

/// Why a call failed, with the words for a log line.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    /// A stored value that this code does not know; names the table and the row.
    Odd(String),
    /// The disk did not take the log.
    Sync(String),
}

pub(crate) type Res<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<store::codec::NotKnown> for Fault {
    fn from(error: store::codec::NotKnown) -> Fault {
        Fault::Odd(error.0)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Sql(error) => error.fmt(f),
            Fault::Odd(text) => f.write_str(text),
            Fault::Sync(text) => write!(f, "the log cannot be synced: {text}"),
        }
    }
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Tell(StoreError),
    Broken,
}

impl Fault {
    pub fn verdict(&self) -> Verdict {
        let refused = |refusal| Verdict::Tell(StoreError::Refused(refusal));
        if let Fault::Sync(_) = self {
            return Verdict::Broken;
        }
        let Fault::Sql(rusqlite::Error::SqliteFailure(error, _)) = self else {
            return Verdict::Tell(StoreError::Unknown);
        };
        match error.code {
            ErrorCode::DiskFull | ErrorCode::OutOfMemory | ErrorCode::TooBig => {
                refused(Refusal::Room)
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => refused(Refusal::Time),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => refused(Refusal::ReadOnly),
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::CannotOpen => Verdict::Broken,
            _ => Verdict::Tell(StoreError::Unknown),
        }
    }
}

/// Why a data folder could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it.
    InUse,
    /// A newer duly wrote it, in a way this one would misread.
    Newer {
        needs: i64,
        knows: i64,
    },
    /// A database, but not duly's.
    Foreign,
    /// SQLite would not use a write-ahead log here: no shared memory, or a stranger has the file.
    NoLog,
    Io(std::io::Error),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::Sql(error)
    }
}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse => f.write_str("the data folder is in use by another duly process"),
            OpenError::Newer { needs, knows } => write!(
                f,
                "the data folder was written by a newer duly: it needs version {needs} of the \
                 tables, this one knows {knows}; use the newer duly"
            ),
            OpenError::Foreign => f.write_str("duly.db is a database, but not one of duly's"),
            OpenError::NoLog => f.write_str(
                "duly.db cannot have a write-ahead log here: the folder must be on a local disk",
            ),
            OpenError::Io(error) => write!(f, "the data folder cannot be used: {error}"),
            OpenError::Sql(error) => write!(f, "duly.db cannot be used: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io(error) => Some(error),
            OpenError::Sql(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn codes_are_judged_as_the_table_says() {
        let verdict = |code| {
            Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).verdict()
        };
        let refused = |refusal| Verdict::Tell(StoreError::Refused(refusal));
        assert_eq!(verdict(ffi::SQLITE_FULL), refused(Refusal::Room));
        assert_eq!(verdict(ffi::SQLITE_BUSY), refused(Refusal::Time));
        assert_eq!(verdict(ffi::SQLITE_READONLY), refused(Refusal::ReadOnly));
        assert_eq!(verdict(ffi::SQLITE_IOERR_FSYNC), Verdict::Broken);
        assert_eq!(verdict(ffi::SQLITE_CORRUPT), Verdict::Broken);
        assert_eq!(verdict(ffi::SQLITE_NOTADB), Verdict::Broken);
        assert_eq!(Fault::Sync(String::new()).verdict(), Verdict::Broken);
        assert_eq!(verdict(ffi::SQLITE_ERROR), Verdict::Tell(StoreError::Unknown));
    }
}

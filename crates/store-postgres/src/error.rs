//! What can go wrong, and what a caller is told.
//!
//! | PostgreSQL says | told | the connection |
//! |---|---|---|
//! | no connection: nothing was sent | `Refused(Time)` | tried again with backoff |
//! | 53100, 53200, 53400, 54xxx (no room, too large) | `Refused(Room)` | stays |
//! | 40001, 40P01 (conflict, deadlock), 55P03 (lock timeout), 57014 (statement timeout) | `Refused(Time)` | stays |
//! | 53300, 57P03 (too many connections, starting up) | `Refused(Time)` | dropped |
//! | DU004 (another server than before) | `Refused(Time)` | stays: `origin` has looked at it |
//! | 25006 (read-only: a standby), 42501 (not allowed) | `Refused(ReadOnly)` | dropped: another server may be the primary by then |
//! | no answer in time; the connection broke; 57P01, 57P02 (shut down: the commit may be done) | `Unknown` | dropped |
//! | anything else; a value this code does not know | `Unknown` | dropped, or stays after a value |
//!
//! An error that PostgreSQL itself answers means that the statement's transaction is rolled back,
//! and a commit call is one statement. The exceptions are above: a server that is shut down while
//! it waits for a replica has committed and says so only in words.

use std::fmt;
use store::codec::NotKnown;
use store::{Refusal, StoreError};
use tokio_postgres::error::SqlState;

/// A change did not find what it expected: raised by the functions in `functions`.
pub(crate) const ROW_STATE: &str = "DU001";
/// A fence was not as expected.
pub(crate) const FENCE_STATE: &str = "DU002";

/// Called by a node of version 1 when version 1 is over.
pub(crate) const FORMER_STATE: &str = "DU003";
/// Another server than the one that wrote this.
pub(crate) const SERVER_STATE: &str = "DU004";

/// Why a call failed, with the words for a log line.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection could be made: nothing was sent.
    Away(String),
    /// The server is a replica: it only follows another.
    Replica,
    /// Not answered in time; says what was asked.
    Silent(String),
    Sql(tokio_postgres::Error),
    /// A stored value that this code does not know; names the table and the row.
    Odd(String),
}

pub(crate) type Res<T> = Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<NotKnown> for Fault {
    fn from(error: NotKnown) -> Fault {
        Fault::Odd(error.0)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Away(words) => write!(f, "no connection to PostgreSQL: {words}"),
            Fault::Replica => f.write_str("PostgreSQL is a read-only replica here"),
            Fault::Silent(what) => write!(f, "PostgreSQL did not answer in time: {what}"),
            Fault::Sql(error) => match error.as_db_error() {
                Some(db) => write!(f, "PostgreSQL: {} ({})", db.message(), db.code().code()),
                None => write!(f, "PostgreSQL: {error}"),
            },
            Fault::Odd(words) => f.write_str(words),
        }
    }
}

impl Fault {
    pub fn state(&self) -> Option<&SqlState> {
        match self {
            Fault::Sql(error) => error.code(),
            _ => None,
        }
    }

    /// A change or a fence was not as expected: nothing was applied, and a closer look tells which.
    pub fn is_mismatch(&self) -> bool {
        // A unique violation: two who insert the same at the same time.
        self.is(&[ROW_STATE, FENCE_STATE, "23505"])
    }

    /// A function or a table that is not there: a day of history that was not made yet, or was
    /// dropped since somebody looked.
    pub fn is_other_day(&self) -> bool {
        self.is(&["42883", "42P01"])
    }

    /// Was this row written the way of a version that is over?
    pub fn is_former(&self) -> bool {
        self.is(&[FORMER_STATE])
    }

    pub fn is_other_server(&self) -> bool {
        self.is(&[SERVER_STATE])
    }

    fn is(&self, codes: &[&str]) -> bool {
        self.state().is_some_and(|state| codes.contains(&state.code()))
    }

    pub fn verdict(&self) -> StoreError {
        match self {
            Fault::Away(_) => StoreError::Refused(Refusal::Time),
            Fault::Replica => StoreError::Refused(Refusal::ReadOnly),
            Fault::Silent(_) | Fault::Odd(_) => StoreError::Unknown,
            Fault::Sql(_) => self.state().map_or(StoreError::Unknown, |state| told(state.code())),
        }
    }

    /// May the connection be used again?
    pub fn keeps_connection(&self) -> bool {
        match self {
            Fault::Odd(_) => true,
            Fault::Sql(_) => match self.state().map(SqlState::code) {
                Some("53300" | "57P03" | "25006" | "42501") | None => false,
                Some(code) => matches!(told(code), StoreError::Refused(_)) || self.is_mismatch(),
            },
            _ => false,
        }
    }
}

fn told(code: &str) -> StoreError {
    let refusal = match code {
        "53100" | "53200" | "53400" => Refusal::Room,
        code if code.starts_with("54") => Refusal::Room,
        "40001" | "40P01" | "55P03" | "57014" | "53300" | "57P03" | SERVER_STATE => Refusal::Time,
        "25006" | "42501" => Refusal::ReadOnly,
        _ => return StoreError::Unknown,
    };
    StoreError::Refused(refusal)
}

/// Why a database could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is not one.
    Address(String),
    /// It does not answer, or not to us.
    Away(String),
    /// Older than what this is tested with.
    TooOld(i32),
    /// `fsync = off`: what is acknowledged may be lost.
    NoSync,
    /// A newer duly wrote it, in a way this one would misread.
    Newer {
        needs: i64,
        knows: i64,
    },
    /// The schema `duly` is there, but it is not ours.
    Foreign,
    /// It follows another server and cannot be written to.
    Replica,
    Sql(String),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        match fault {
            Fault::Away(words) => OpenError::Away(words),
            Fault::Replica => OpenError::Replica,
            fault => OpenError::Sql(fault.to_string()),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Address(words) => write!(f, "the address is not understood: {words}"),
            OpenError::Away(words) => write!(f, "PostgreSQL does not answer: {words}"),
            OpenError::TooOld(version) => write!(
                f,
                "PostgreSQL {} is too old: version 15 or newer is needed",
                version / 10_000
            ),
            OpenError::NoSync => f.write_str(
                "PostgreSQL runs with fsync = off, so what is acknowledged may be lost; \
                 set fsync = on and restart PostgreSQL",
            ),
            OpenError::Newer { needs, knows } => write!(
                f,
                "the schema was written by a newer duly: it needs version {needs} of the tables, \
                 this one knows {knows}; use the newer duly"
            ),
            OpenError::Foreign => f.write_str(
                "there is a schema named duly that is not duly's; use a database of its own",
            ),
            OpenError::Replica => f.write_str(
                "PostgreSQL is a read-only replica here, and duly needs the primary: give the \
                 primary's address, or several as postgres://user@one,two/database",
            ),
            OpenError::Sql(words) => write!(f, "the schema cannot be used: {words}"),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_as_the_table_says() {
        let refused = StoreError::Refused;
        for (code, answer) in [
            ("53100", refused(Refusal::Room)),
            ("54000", refused(Refusal::Room)),
            ("40001", refused(Refusal::Time)),
            ("55P03", refused(Refusal::Time)),
            ("57P03", refused(Refusal::Time)),
            ("25006", refused(Refusal::ReadOnly)),
            ("57P01", StoreError::Unknown),
            ("58030", StoreError::Unknown),
            ("XX001", StoreError::Unknown),
        ] {
            assert_eq!(told(code), answer, "{code}");
        }
        assert_eq!(Fault::Away(String::new()).verdict(), refused(Refusal::Time));
        let silent = Fault::Silent("a commit".into());
        assert_eq!(silent.verdict(), StoreError::Unknown);
        assert!(!silent.keeps_connection());
    }
}

//! Copies of the file, and a life from one.
//!
//! A **backup** is one consistent picture, made beside a running server: it is a reader like any
//! other (`VACUUM INTO`). While it runs the log cannot begin anew, so it grows by what is written.
//!
//! A **restored** copy must not act as if it were the original. It gets a later incarnation, so that
//! no token is given twice (`docs/adr/0006`), and a hold over every shard, so that nothing is
//! dispatched until a person has said that the original is over (`duly serve --takeover`).

use crate::error::{OpenError, Res};
use crate::{files, schema};
use model::id::{Epoch, SHARDS};
use rusqlite::{Connection, params};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Why a restored copy is held; also how the hold is told from one that a person put there.
const REASON: &str = "restored copy: start duly serve with --takeover";

/// Writes a copy of the folder's database to a file that does not exist yet.
pub fn backup(folder: &Path, file: &Path) -> Result<u64, OpenError> {
    if file.exists() {
        let taken = std::io::Error::other(format!("{} exists already", file.display()));
        return Err(taken.into());
    }
    let part = beside(file, "part");
    let _ = std::fs::remove_file(&part);
    let conn = files::reader(folder)?;
    schema::known(&conn)?;
    conn.execute("VACUUM INTO ?1", [part.to_string_lossy()])?;
    drop(conn);
    // Under its name only when it is whole and on the disk.
    let copy = File::open(&part)?;
    copy.sync_all()?;
    let bytes = copy.metadata()?.len();
    std::fs::rename(&part, file)?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(bytes)
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// What `restore` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub incarnation: u64,
    /// Where the database that was there is now.
    pub former: Option<PathBuf>,
}

/// Puts a copy into a folder, in an incarnation of its own: later than the copy's, than that of the
/// database that it replaces, and at least `incarnation`.
pub fn restore(
    file: &Path,
    folder: &Path,
    incarnation: Option<u64>,
    replace: bool,
) -> Result<Restored, OpenError> {
    let _lock = files::lock(folder)?;
    let target = folder.join("duly.db");
    let mut least = incarnation.unwrap_or(0);
    let mut former = None;
    if target.exists() {
        if !replace {
            let taken = std::io::Error::other(format!("{} exists already", target.display()));
            return Err(taken.into());
        }
        let conn = files::writer(folder)?;
        schema::known(&conn)?;
        least = least.max(incarnation_of(&conn)? + 1);
        // All of it into the one file that is put aside.
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        drop(conn);
        let aside = (1..).map(|n| beside(&target, &format!("former-{n}")));
        let aside = aside.into_iter().find(|path| !path.exists()).unwrap_or_default();
        std::fs::rename(&target, &aside)?;
        former = Some(aside);
    }
    for rest in ["duly.db-wal", "duly.db-shm"] {
        let _ = std::fs::remove_file(folder.join(rest));
    }
    // Under another name until it is held: a copy that looks whole must not be one that dispatches.
    let part = folder.join("duly.db.restoring");
    std::fs::copy(file, &part)?;
    let conn = Connection::open(&part)?;
    schema::known(&conn)?;
    let incarnation = least.max(incarnation_of(&conn)? + 1);
    let most = u64::from(Epoch::MAX.0 / Epoch::INCARNATION);
    if incarnation >= most {
        let spent = format!("incarnation {incarnation} of at most {most}: epochs would run out");
        return Err(std::io::Error::other(spent).into());
    }
    hold(&conn, incarnation)?;
    drop(conn);
    File::open(&part)?.sync_all()?;
    std::fs::rename(&part, &target)?;
    files::sync_names(folder)?;
    Ok(Restored { incarnation, former })
}

fn incarnation_of(conn: &Connection) -> rusqlite::Result<u64> {
    let found: i64 = conn.query_row("SELECT incarnation FROM meta", [], |row| row.get(0))?;
    Ok(found as u64)
}

fn hold(conn: &Connection, incarnation: u64) -> Result<(), OpenError> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    conn.execute("UPDATE meta SET incarnation = ?1", [incarnation as i64])?;
    for shard in 0..SHARDS {
        // Where a person has put one it stays theirs.
        conn.execute(
            "INSERT INTO holds (shard, scope, namespace, queue, reason, until)
             VALUES (?1, 0, 0, '', ?2, NULL) ON CONFLICT DO NOTHING",
            params![shard, REASON],
        )?;
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}

pub(crate) fn is_held(conn: &Connection) -> Res<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM holds WHERE reason = ?1 LIMIT 1")?.exists([REASON])?)
}

pub(crate) fn release(conn: &Connection) -> Res<()> {
    conn.prepare_cached("DELETE FROM holds WHERE reason = ?1")?.execute([REASON])?;
    Ok(())
}

//! Room that is kept so that settles succeed on a full disk: a file that takes up space and is given
//! up when SQLite finds none. From then on commits that add jobs are refused, and the freed room is
//! for what ends work. When there is room for it again the file is made anew, and all is as before.
//!
//! What it does not do: help when the freed room is used up as well, by us or by somebody else.
//! Then everything waits, nothing is lost, and reads go on.

use model::Cause;
use model::row::{Change, Commit, Expect, Key};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "duly.reserve";
/// It is made again only when so many times its size are free, so that it does not come and go.
const FREE_TIMES: u64 = 2;

#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
    short: AtomicBool,
}

impl Reserve {
    /// Makes the file, if there is room for it and for work beside it.
    pub fn new(folder: &Path, bytes: u64) -> Reserve {
        let reserve = Reserve { path: folder.join(FILE), bytes, short: AtomicBool::new(false) };
        reserve.restore();
        reserve
    }

    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// SQLite found no room.
    pub fn give_up(&self) {
        self.short.store(true, Ordering::Relaxed);
        // What cannot be removed is room that we do not get: there is nothing else to do about it.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Takes the room back, if it is there.
    pub fn restore(&self) {
        let kept = std::fs::metadata(&self.path).is_ok_and(|file| file.len() >= self.bytes);
        let short = !kept && !self.make();
        self.short.store(short, Ordering::Relaxed);
    }

    fn make(&self) -> bool {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let free = match statvfs(folder) {
            Ok(state) => state.f_bavail.saturating_mul(state.f_frsize),
            // A file system that does not tell has to be believed.
            Err(_) => u64::MAX,
        };
        if free < self.bytes.saturating_mul(FREE_TIMES) {
            return false;
        }
        let Ok(file) = File::create(&self.path) else { return false };
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => true,
            Err(rustix::io::Errno::OPNOTSUPP) => true, // No reserve there, but no shortage either.
            Err(_) => {
                let _ = std::fs::remove_file(&self.path);
                false
            }
        }
    }
}

/// Does this commit make a job? Only that is refused while room is short: a run that a schedule
/// makes, a claim, a settle, a cancel or a replay goes on.
pub(crate) fn makes_jobs(commit: &Commit) -> bool {
    let makes = |change: &Change| match &change.key {
        Key::Job(_) => true,
        Key::Run(run) => run.cause() == Cause::OneOff,
        _ => false,
    };
    commit
        .changes
        .iter()
        .any(|change| change.expect == Expect::Absent && change.row.is_some() && makes(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_room_gives_it_up_and_takes_it_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let reserve = Reserve::new(folder.path(), 1 << 20);
        let size = || std::fs::metadata(folder.path().join(FILE)).map(|file| file.len()).ok();
        assert_eq!((size(), reserve.is_short()), (Some(1 << 20), false));
        reserve.give_up();
        assert_eq!((size(), reserve.is_short()), (None, true));
        reserve.restore();
        assert_eq!((size(), reserve.is_short()), (Some(1 << 20), false));
    }

    #[test]
    fn what_no_disk_has_room_for_is_short_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Reserve::new(folder.path(), u64::MAX / 4).is_short());
        assert!(!folder.path().join(FILE).exists());
    }
}

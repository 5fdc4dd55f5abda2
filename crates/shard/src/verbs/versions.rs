//! Which versions of a recurring job's spec stay in the store: the last few (`VERSIONS_KEPT`), so that
//! people can see what was changed and go back, and those that unfinished runs name.
//!
//! No list of them is kept. Nodes of a release before this one remove a former spec with its last run,
//! so what is there of a range is read before it is removed: a gap is no contradiction.

use crate::planted::Bug;
use crate::shard::{Decision, Need, Shard};
use crate::verbs::occurrence::spec_key;
use model::row::{Expect, JobRow, Row};
use model::{JobId, Spec};
use std::ops::Range;

impl Shard {
    /// Does this version stay without a run that names it?
    pub(crate) fn keeps_version(&self, job: &JobRow, version: u32) -> bool {
        let kept = !job.delete && version.saturating_add(self.sizes.versions) > job.version;
        version == job.version || kept
    }

    /// What is in the store of those that stop being kept when the job gets its next version.
    ///
    /// A former node of another release may have made versions without looking for what leaves. Its
    /// specs do not say since when they are in force; after one of them we look back once more.
    pub(crate) fn leaving_versions(&self, job: &JobRow, old: &Spec) -> Decision<Vec<u32>> {
        if self.planted.is(Bug::VersionNotDropped) {
            return Ok(Vec::new());
        }
        let kept = self.sizes.versions;
        let end = (job.version + 2).saturating_sub(kept);
        let back = if job.version > 1 && old.origin.since.is_none() { kept } else { 1 };
        self.versions_in(job.id, end.saturating_sub(back).max(1)..end)
    }

    /// What is in the store of the former versions that are kept for themselves.
    pub(crate) fn kept_versions(&self, job: &JobRow) -> Decision<Vec<u32>> {
        let first = (job.version + 1).saturating_sub(self.sizes.versions).max(1);
        self.versions_in(job.id, first..job.version)
    }

    /// All are asked for at once, so that a decision waits for one read.
    fn versions_in(&self, job: JobId, range: Range<u32>) -> Decision<Vec<u32>> {
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        for version in range {
            match self.row(spec_key(job, version)) {
                Ok(Some(Row::Spec(_))) => found.push(version),
                Ok(_) => {}
                Err(Need(keys)) => unread.extend(keys),
            }
        }
        if unread.is_empty() { Ok(found) } else { Err(Need(unread)) }
    }

    /// Removes those of `versions`, which were found, that nothing needs. What was decided since may
    /// have removed one.
    pub(crate) fn drop_versions(&mut self, job: &JobRow, versions: Vec<u32>) {
        let in_use = self.planted.is(Bug::VersionDroppedInUse) && !job.delete;
        for version in versions {
            let key = spec_key(job.id, version);
            let named = job.live.iter().any(|(live, _)| *live == version);
            if (!named || in_use) && matches!(self.row(key.clone()), Ok(Some(_))) {
                self.change(key, Expect::Rev(1), None);
            }
        }
    }
}

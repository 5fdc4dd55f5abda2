//! Rows that belong together agree. These hold at any moment in any store, lost tail or not,
//! because a commit is applied whole or not at all.

use super::Report;
use super::view::View;
use model::row::{JobRow, JobState};
use model::{Cause, JobId, RunId, RunState, Token};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// **Rule.** A lease or checkpoint stands beside the row of its run, which knows the revision of
/// its checkpoint; a leased run stands where it can be claimed from.
///
/// **Why.** Reload reads leases with their runs; what has no run is never ended.
/// **Without it** a worker holds what nobody will ever take back, and rows pile up.
pub(super) fn leases_and_checkpoints_belong_to_runs(view: &View<'_>, report: &mut Report) {
    for (run, lease) in &view.leases {
        let claimable =
            |state| matches!(state, RunState::Scheduled | RunState::Ready | RunState::Retrying);
        let sound = view.runs.get(run).is_some_and(|row| claimable(row.state));
        if !sound || lease.token == Token::NONE || lease.deadline < lease.started {
            report.add(format!("{lease:?} of {:?}", view.runs.get(run)));
        }
    }
    for (run, checkpoint) in &view.checkpoints {
        let known = view.runs.get(run).map(|row| row.checkpoint);
        if known != Some(checkpoint.rev) {
            report.add(format!("{run}: checkpoint {}, its run knows {known:?}", checkpoint.rev));
        }
    }
    for (run, row) in view.runs.iter().filter(|(_, row)| row.checkpoint > 0) {
        if !view.checkpoints.contains_key(run) {
            report.add(format!("{run} knows checkpoint {}, there is none", row.checkpoint));
        }
    }
}

/// **Rule.** If a checkpoint of an unfinished run was acknowledged, the store has one of that
/// attempt or of a later one.
///
/// **Why.** The next attempt goes on where the last one said it was.
/// **Without it** an import begins again at its first row.
///
/// Tokens from before a lost tail are forgiven. Beats of one attempt may arrive in any order, so
/// among them any counts.
pub(super) fn acknowledged_checkpoints_are_kept(view: &View<'_>, report: &mut Report) {
    let mut last: BTreeMap<RunId, Token> = BTreeMap::new();
    let beats = || view.log.beats.iter().map(|(_, beat)| beat).filter(|b| b.checkpoint.is_some());
    for beat in beats().filter(|beat| !view.loss.forgives_token(beat.run, beat.token)) {
        let token = last.entry(beat.run).or_insert(beat.token);
        *token = beat.token.max(*token);
    }
    // Bytes that only attempts before the last acknowledged one are known to have stored.
    let mut old: BTreeMap<RunId, bool> = BTreeMap::new();
    for beat in beats() {
        let Some(row) = view.checkpoints.get(&beat.run) else { continue };
        if beat.checkpoint.as_ref() == Some(&row.bytes) {
            let older = last.get(&beat.run).is_some_and(|token| beat.token < *token);
            old.entry(beat.run).and_modify(|old| *old &= older).or_insert(older);
        }
    }
    for (run, token) in last.into_iter().filter(|(run, _)| view.runs.contains_key(run)) {
        if !view.checkpoints.contains_key(&run) {
            report.add(format!("{run}: the checkpoint acknowledged to {token:?} is gone"));
        } else if old.get(&run) == Some(&true) {
            report.add(format!("{run}: the checkpoint is older than that of {token:?}"));
        }
    }
}

/// **Rule.** A stored spec is one of its job's last few versions, of a deleted job the current one, or
/// one that unfinished work names; all of these are there. A run of a recurring job has its job, a
/// one-off has its spec beside it.
///
/// **Why.** A run whose spec is gone can never be done; a spec without a job is never removed, and one
/// that is kept too long is one of ever more.
/// **Without it** a retry finds nothing to call, and nobody can go back to the version before.
pub(super) fn specs_belong_to_jobs(view: &View<'_>, report: &mut Report) {
    let kept = |row: &JobRow| -> RangeInclusive<u32> {
        let first = (row.version + 1).saturating_sub(view.settings.versions_kept).max(1);
        if row.delete { row.version..=row.version } else { first..=row.version }
    };
    for (job, version) in view.specs.keys() {
        let needed = view.jobs.get(job).is_some_and(|row| {
            kept(row).contains(version) || row.live.iter().any(|(named, _)| named == version)
        });
        if !needed {
            report.add(format!("{job}: version {version} is of no use"));
        }
    }
    for (job, row) in &view.jobs {
        let needed = row.live.iter().map(|(version, _)| *version).chain(kept(row));
        for version in needed.filter(|version| !view.specs.contains_key(&(*job, *version))) {
            report.add(format!("{job}: version {version} is gone"));
        }
    }
    for (run, row) in &view.runs {
        let whole = match run.cause() {
            Cause::OneOff => row.body.is_some(),
            _ => view.jobs.contains_key(&run.job),
        };
        if !whole {
            report.add(format!("{run} has neither spec nor job"));
        }
    }
    for id in view.backlogs.keys().filter(|id| !view.jobs.contains_key(&id.job)) {
        report.add(format!("{id:?} has no job"));
    }
}

/// **Rule.** A job counts its unfinished runs and backlogs by version, exactly.
///
/// **Why.** The count says when an old spec, or a deleted job, may go.
/// **Without it** a spec goes while a run needs it, or a deleted job stays for ever.
pub(super) fn live_counts_are_right(view: &View<'_>, report: &mut Report) {
    let mut counted: BTreeMap<JobId, BTreeMap<u32, u32>> = BTreeMap::new();
    let runs = view.runs.iter().filter(|(run, _)| run.cause() != Cause::OneOff);
    let runs = runs.map(|(run, row)| (run.job, row.version));
    let backlogs = view.backlogs.iter().map(|(id, row)| (id.job, row.version));
    for (job, version) in runs.chain(backlogs) {
        *counted.entry(job).or_default().entry(version).or_default() += 1;
    }
    for (job, row) in &view.jobs {
        let said: BTreeMap<u32, u32> = row.live.iter().copied().collect();
        let found = counted.remove(job).unwrap_or_default();
        if said != found || said.len() != row.live.len() {
            report.add(format!("{job} counts {:?}, there are {found:?}", row.live));
        }
        if row.delete && found.is_empty() {
            report.add(format!("{job} is deleted, has no runs and is still there"));
        }
    }
}

/// **Rule.** The fresh run that a job calls active is there and neither blocked nor dead; the one
/// it calls waiting is there and blocked; no other run is fresh or blocked. Nothing waits for
/// nobody.
///
/// **Why.** The end of the active run frees the waiting one; there is no other way for it to go on.
/// **Without it** a blocked run waits for ever, or the schedule never fires again.
pub(super) fn slots_name_their_runs(view: &View<'_>, report: &mut Report) {
    for (job, row) in &view.jobs {
        let state = |run: RunId| view.runs.get(&run).map(|row| row.state);
        let wrong = |state| matches!(state, None | Some(RunState::Blocked | RunState::Dead));
        if row.active.is_some_and(|run| wrong(state(run))) {
            report.add(format!("{job}: active {:?} is {:?}", row.active, row.active.map(state)));
        }
        if row.waiting.is_some_and(|run| state(run) != Some(RunState::Blocked)) {
            report.add(format!("{job}: waiting {:?} is {:?}", row.waiting, row.waiting.map(state)));
        }
        // While a cancelled job is swept its waiting run may outlive the active one.
        let sweeping = row.state == JobState::Cancelled && row.sweep;
        if row.waiting.is_some() && row.active.is_none() && !sweeping {
            report.add(format!("{job}: {:?} waits for nobody", row.waiting));
        }
    }
    for (run, row) in view.runs.iter().filter(|(_, r)| r.fresh || r.state == RunState::Blocked) {
        let job = view.jobs.get(&run.job);
        let named = job.is_some_and(|job| [job.active, job.waiting].contains(&Some(*run)));
        if !named {
            report.add(format!("{run} is {:?}, fresh: {}, and has no slot", row.state, row.fresh));
        }
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;

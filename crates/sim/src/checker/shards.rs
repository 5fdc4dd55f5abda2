//! Shards: who owned them, and what their rows say about the wheel.

use super::Report;
use super::view::View;
use model::Epoch;
use model::row::Row;
use shard::Event;

/// **Rule.** A shard that was used has an owner and an epoch, no token in it is of a later epoch,
/// and no epoch is beyond what a token can carry.
///
/// **Why.** A write of an owner whose epoch has passed changes nothing.
/// **Without it** two owners write, and the older one wins.
pub(super) fn epochs_cover_their_tokens(view: &View<'_>, report: &mut Report) {
    for shard in &view.dump.shards {
        let row = &shard.row;
        let used = row.seq > 0 || !shard.rows.is_empty() || !shard.history.is_empty();
        if used && (row.owner.is_none() || row.epoch == Epoch(0) || row.seq == 0) {
            report.add(format!("used without an owner or a commit: {row:?}"));
        }
        if row.epoch > Epoch::MAX {
            report.add(format!("{row:?}"));
        }
        let ended = shard.history.iter().map(|row| row.token);
        let leased = shard.rows.values().filter_map(|row| match row {
            Row::Lease(lease) => Some(lease.token),
            _ => None,
        });
        for token in ended.chain(leased).filter(|token| token.epoch() > row.epoch) {
            report.add(format!("{token:?} in {row:?}"));
        }
    }
}

/// **Rule.** Nothing on the wheel is due before its shard's floor.
///
/// **Why.** The next owner begins to read there.
/// **Without it** a run that is due before the floor is never found again after a takeover.
pub(super) fn nothing_is_due_before_the_floor(view: &View<'_>, report: &mut Report) {
    for shard in &view.dump.shards {
        for (key, row) in &shard.rows {
            if row.due().is_some_and(|due| due < shard.floor) {
                report.add(format!("{key:?} is due {:?}, floor {:?}", row.due(), shard.floor));
            }
        }
    }
}

/// **Rule.** No run that is stored as ready and no lease lies before where the last commit said that they
/// begin.
///
/// **Why.** The next owner does not look there.
/// **Without it** a run that waits is never started after a takeover, or one that runs is started again.
pub(super) fn nothing_lies_before_the_starts(view: &View<'_>, report: &mut Report) {
    for shard in &view.dump.shards {
        for (key, row) in shard.rows.iter().filter(|(_, row)| shard.starts.hide(row)) {
            report.add(format!("{key:?}, due {:?}, but {:?}", row.due(), shard.starts));
        }
    }
}

/// **Rule.** No owner found that its memory and the store disagree.
///
/// **Why.** Every row change names the state that it expects; one owner knows what it has loaded.
/// **Without it** a wrong decision was stopped by luck: the next one may expect what it finds.
///
/// A poisoned row is refused in the same words, so runs with poison are not judged.
pub(super) fn memory_and_store_agree(view: &View<'_>, report: &mut Report) {
    let found = view.log.events.get(&Event::Divergence).copied().unwrap_or_default();
    if found > 0 && !view.settings.poison {
        report.add(format!("{found} times"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use model::row::{RunRow, Starts};
    use model::{Cause, Epoch, RunId, RunState, Token};
    use shard::Event;

    fn run() -> RunId {
        RunId::new(job_id(1), Cause::OneOff)
    }

    #[test]
    fn a_token_beyond_its_epoch_is_found() {
        let mut world = World::new();
        world.attempt(run(), 1, |_| {});
        assert!(!world.broken("epochs_cover_their_tokens"));
        world.shard().row.epoch = Epoch(0);
        assert!(world.broken("epochs_cover_their_tokens"));
        world.shard().row.epoch = Epoch(1);
        world.shard().row.owner = None;
        assert!(world.broken("epochs_cover_their_tokens"));
    }

    #[test]
    fn a_row_below_the_floor_is_found() {
        let mut world = World::new();
        world.run(RunRow { state: RunState::Scheduled, due: at(100), ..run_row(run()) });
        world.shard().floor = at(100);
        assert!(!world.broken("nothing_is_due_before_the_floor"));
        world.shard().floor = at(101);
        assert!(world.broken("nothing_is_due_before_the_floor"));
    }

    #[test]
    fn a_ready_run_and_a_lease_before_their_start_are_found() {
        let mut world = World::new();
        world.run(RunRow { state: RunState::Ready, due: at(100), ..run_row(run()) });
        world.shard().starts = Starts { ready: Some(at(100)), leases: None };
        assert!(!world.broken("nothing_lies_before_the_starts"));
        world.shard().starts.ready = Some(at(101));
        assert!(world.broken("nothing_lies_before_the_starts"));
        let mut world = World::new();
        world.lease(run(), 7, |_| {});
        let token = token(7);
        world.shard().starts = Starts { ready: None, leases: Some(token) };
        assert!(!world.broken("nothing_lies_before_the_starts"));
        world.shard().starts.leases = Some(Token(token.0 + 1));
        assert!(world.broken("nothing_lies_before_the_starts"));
    }

    #[test]
    fn a_divergence_is_found_unless_there_was_poison() {
        let mut world = World::new();
        world.log.count(Event::Reloaded);
        assert!(!world.broken("memory_and_store_agree"));
        world.log.count(Event::Divergence);
        assert!(world.broken("memory_and_store_agree"));
        world.settings.poison = true;
        assert!(!world.broken("memory_and_store_agree"));
    }
}

//! Heartbeat: the holder is alive, and may store a checkpoint for the next attempt. Heartbeats are
//! not written; checkpoints are. They are answered only while this node's own lease holds: an
//! owner that may have been replaced must not prolong what its successor is about to take back.

use crate::command::{Answer, Beat, BeatAnswer, Refused};
use crate::shard::Shard;
use model::Time;
use model::row::{CheckpointRow, Expect, Holder, Key, Row};

impl Shard {
    pub(crate) fn decide_heartbeat(&mut self, now: Time, beats: &[Beat]) -> Answer {
        if now >= self.trusted_until {
            return Answer::Refused(Refused::NotOwner);
        }
        let answers = beats.iter().map(|beat| (beat.run, self.beat(now, beat))).collect();
        Answer::Beats(answers)
    }

    fn beat(&mut self, now: Time, beat: &Beat) -> BeatAnswer {
        let Some(lease) = self.leases.get(beat.run).filter(|l| l.row.token == beat.token) else {
            return BeatAnswer::Stale;
        };
        let cancel = lease.row.cancel;
        let until = match lease.row.holder {
            Holder::Node(_) => lease.row.deadline,
            Holder::Worker(_) => now.plus(lease.row.length).min(lease.row.deadline),
        };
        self.leases.renew(beat.run, now);
        if let Some(bytes) = &beat.checkpoint {
            self.checkpoint(beat.run, bytes.clone());
        }
        if cancel { BeatAnswer::Cancel } else { BeatAnswer::Ok { until } }
    }

    /// The run's row says that there is a checkpoint and which revision it has.
    fn checkpoint(&mut self, run: model::RunId, bytes: model::Bytes) {
        let Some(lease) = self.leases.get(run) else { return };
        let mut entry = lease.entry;
        let expect = match entry.checkpoint {
            0 => Expect::Absent,
            rev => Expect::Rev(rev),
        };
        entry.checkpoint += 1;
        let row = CheckpointRow { rev: entry.checkpoint, bytes };
        self.change(Key::Checkpoint(run), expect, Some(Row::Checkpoint(row)));
        self.put_run(&mut entry);
        if let Some(lease) = self.leases.get_mut(run) {
            lease.entry = entry;
        }
    }
}

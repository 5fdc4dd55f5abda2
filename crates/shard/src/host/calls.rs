//! Store calls: what the shards and the ownership ask of the store, and what its answers mean to
//! them. One commit lane, in which a few may be on their way; one ownership call at a time, so that answers cannot overtake each other,
//! and beside it a few renewals that only keep the lease.

use super::stir::Marks;
use super::{CallId, Host, HostOutput, Message, Refusal, StoreAnswer, StoreCall, Under};
use crate::batch::{Event, Output};
use crate::command::{Answer, Refused};
use crate::limits::{
    CLOCK_STEP, COMMIT_MANY, COMMIT_PAUSE, LOOK_AGAIN, MOVES_AT_ONCE, NODE_TTL, RENEWALS_BESIDE,
};
use crate::pipeline::CommitEnd;
use crate::rows::ReadId;
use crate::shard::Shard;
use model::cluster::{Cluster, Give, Renew, Take, Taken};
use model::row::Commit;
use model::{Epoch, NodeId, ShardId, Span, Time};
use std::collections::BTreeSet;

impl Host {
    pub(super) fn renew_soon(&mut self, local: Time) {
        if !self.owning {
            self.call(
                local,
                Under::Renew,
                StoreCall::Renew(Renew { node: self.node, ttl: NODE_TTL }),
            );
            self.owning = true;
        }
    }

    fn call(&mut self, local: Time, under: Under, call: StoreCall) {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, (local, under));
        self.outputs.push_back(HostOutput::Call(id, call));
    }

    /// Moves everything on that can move: outputs, reads, commits, epochs, gifts, the lease.
    pub(super) fn pump(&mut self, local: Time) {
        if self.gathering {
            return;
        }
        if !(self.owning && self.renewing_beside >= RENEWALS_BESIDE)
            && let Some(renew) = self.ownership.poll_renew(local)
        {
            let beside = std::mem::replace(&mut self.owning, true);
            self.renewing_beside += usize::from(beside);
            let under = if beside { Under::RenewBeside } else { Under::Renew };
            self.call(local, under, StoreCall::Renew(renew));
        }
        let stirred = std::mem::take(&mut self.stirred.now);
        self.read(local, stirred);
        let asked = self.commit(local, stirred);
        for id in asked.iter() {
            if let Some(shard) = self.shards.get(&id) {
                let wishes = shard.is_fenced() || shard.wants_epoch().is_some();
                self.stirred.wishes.set(id, wishes);
            }
        }
        self.own(local);
        let mut outputs = Vec::new();
        for id in asked.iter() {
            let Some(shard) = self.shards.get_mut(&id) else { continue };
            while let Some(output) = shard.poll_output() {
                outputs.push((id, output));
            }
        }
        for (shard, output) in outputs {
            self.output(local, shard, output);
        }
        // After what was withdrawn in this very moment.
        self.tell_kept(local);
        self.note_standing(asked);
    }

    fn output(&mut self, local: Time, shard: ShardId, output: Output) {
        match output {
            Output::Reply(id, Answer::Refused(Refused::NotOwner))
                if self.routes.contains_key(&id) =>
            {
                // The shard was closed under it: its new owner is found by the next tick.
                if let Some(route) = self.routes.get_mut(&id) {
                    route.moved(local);
                }
                self.look_again(local, id);
            }
            Output::Reply(id, answer) => self.tell(shard, id, answer),
            Output::Withdraw(id) => self.kept.forget(id),
            other => self.outputs.push_back(HostOutput::Shard(shard, other)),
        }
    }

    fn read(&mut self, local: Time, stirred: Marks) {
        let (mut reads, mut under) = (Vec::new(), Vec::new());
        for id in stirred.iter() {
            let Some(shard) = self.shards.get_mut(&id) else { continue };
            while let Some((read_id, read)) = shard.poll_read() {
                reads.push((id, read));
                under.push((id, read_id, shard.epoch()));
            }
        }
        if !reads.is_empty() {
            self.call(local, Under::Read(under), StoreCall::Read(reads));
        }
    }

    /// One commit lane: the batches of all shards in one call. Returns the shards that may have
    /// something to say now.
    fn commit(&mut self, local: Time, stirred: Marks) -> Marks {
        self.stirred.to_commit.add(stirred);
        let Some(now) = self.now(local) else { return stirred };
        if self.committing >= self.commits_at_once || self.is_gathering_callers(local) {
            return stirred;
        }
        let asked = std::mem::take(&mut self.stirred.to_commit);
        let (mut commits, mut decided): (Vec<Commit>, usize) = (Vec::new(), 0);
        for id in asked.iter() {
            let Some(shard) = self.shards.get_mut(&id) else { continue };
            if let Some(commit) = shard.poll_commit(now) {
                decided += shard.decided_in_commit();
                commits.push(commit);
            }
        }
        if !commits.is_empty() {
            self.committing += 1;
            let pause = if decided >= COMMIT_MANY { COMMIT_PAUSE } else { Span::ZERO };
            self.commit_after = local.plus(pause);
            let under = commits.iter().map(|c| (c.shard, c.seq, c.epoch)).collect();
            self.call(local, Under::Commit(under), StoreCall::Commit(commits));
        }
        asked
    }

    /// The last commit answered many callers, so more of them are about to ask: a commit costs the
    /// same few pages for one as for thirty.
    fn is_gathering_callers(&self, local: Time) -> bool {
        let pause = self.commit_after.since(local);
        // Further away than the pause: the local clock ran wild and came back.
        pause > Span::ZERO && pause <= COMMIT_PAUSE
    }

    /// When a commit that waits for more callers goes, in local time. The pause may have ended since somebody last
    /// looked: then it goes now. Nobody else would wake us, if all callers wait for this very commit.
    pub(super) fn next_commit(&self, local: Time) -> Option<Time> {
        let free = self.committing < self.commits_at_once && self.now(local).is_some();
        let waits = free && !self.stirred.to_commit.is_empty();
        waits.then(|| if self.is_gathering_callers(local) { self.commit_after } else { local })
    }

    /// New epochs for shards that lost track, gifts for nodes that asked.
    fn own(&mut self, local: Time) {
        if self.owning {
            return;
        }
        let wishes = self.stirred.wishes;
        let is_fenced = |id: &ShardId| self.shards.get(id).is_some_and(Shard::is_fenced);
        let fenced: Vec<ShardId> = wishes.iter().filter(is_fenced).collect();
        fenced.into_iter().for_each(|id| self.close(local, id));
        let mut takes = std::mem::take(&mut self.pending_takes);
        let gifts = self.unwrap_gifts(local, &mut takes);
        takes.retain(|take| !self.shards.contains_key(&take.shard));
        for shard in wishes.iter() {
            if let Some(wish) = self.shards.get(&shard).and_then(Shard::wants_epoch) {
                takes.push(Take { shard, node: self.node, epoch: wish.epoch, by: wish.by });
            }
        }
        if !takes.is_empty() {
            self.owning = true;
            self.call(local, Under::Take(takes.clone(), gifts), StoreCall::Take(takes));
            return;
        }
        self.bequeath(local);
        let gives: Vec<Give> = self
            .giving
            .iter()
            .filter_map(|(id, to)| {
                let shard = self.shards.get(id).filter(|shard| shard.is_drained())?;
                Some(Give { shard: *id, node: self.node, epoch: shard.epoch(), to: *to })
            })
            .collect();
        if !gives.is_empty() {
            self.owning = true;
            self.call(local, Under::Give(gives.clone()), StoreCall::Give(gives));
        }
    }

    /// What other nodes said they gave us joins what a renewal found. A letter that was late, or said
    /// twice, names an epoch that has passed: the store refuses it.
    fn unwrap_gifts(&mut self, local: Time, takes: &mut Vec<Take>) -> BTreeSet<ShardId> {
        let mut gifts = std::mem::take(&mut self.gifts);
        if self.ownership.waits(local) {
            return BTreeSet::new(); // What was said may be of the lost tail.
        }
        gifts.retain(|id, _| !self.shards.contains_key(id));
        takes.retain(|take| gifts.get(&take.shard).is_none_or(|epoch| *epoch < take.epoch));
        for take in takes.iter() {
            gifts.remove(&take.shard);
        }
        let node = self.node;
        takes.extend(gifts.iter().map(|(id, epoch)| Take {
            shard: *id,
            node,
            epoch: *epoch,
            by: 1,
        }));
        gifts.into_keys().collect()
    }

    /// A node that leaves gives its shards away, a few at a time: each waits for its heir to load it.
    fn bequeath(&mut self, local: Time) {
        if !self.ownership.is_leaving() {
            return;
        }
        let stay = |id: &&ShardId| !self.giving.contains_key(id);
        let heir = |id: &ShardId| Some((*id, self.ownership.heir(*id)?));
        let room = MOVES_AT_ONCE.saturating_sub(self.giving.len());
        let gifts: Vec<_> = self.shards.keys().filter(stay).filter_map(heir).take(room).collect();
        gifts.into_iter().for_each(|(id, heir)| self.begin_give(local, id, heir));
    }

    /// The shard finishes its batch and goes.
    pub(super) fn begin_give(&mut self, local: Time, id: ShardId, to: NodeId) {
        let now = self.now(local).unwrap_or(Time::MAX);
        let Some(shard) = self.shards.get_mut(&id) else { return };
        shard.drain(now);
        let outputs: Vec<Output> = std::iter::from_fn(|| shard.poll_output()).collect();
        self.stirred.now.insert(id);
        self.giving.insert(id, to);
        // What it withdraws must not be told in this very moment.
        outputs.into_iter().for_each(|output| self.output(local, id, output));
    }

    /// Nodes whose lease has run out since the last renewal: what their executors held ends with
    /// them, also in shards that have been here all the time.
    fn vanish(&mut self, local: Time) {
        let alive: BTreeSet<NodeId> = self.ownership.alive().into_iter().collect();
        self.met.extend(&alive);
        self.met.extend(self.shards.values().flat_map(Shard::strangers));
        if self.ownership.judges(local) {
            let gone: Vec<NodeId> = self.met.difference(&alive).copied().collect();
            for node in gone {
                self.met.remove(&node);
                self.shards.values_mut().for_each(|shard| shard.handle_node_gone(node));
                self.stir_all();
            }
        }
    }

    /// A shard is not where it was thought to be: looks where it is now, not too often. It is a
    /// renewal like any other but for the judging of others, who need the time of one.
    pub(super) fn look(&mut self, local: Time) {
        let pause = local.since(self.looked);
        if !self.owning && (pause >= LOOK_AGAIN || pause < Span::ZERO) {
            self.looked = local;
            self.owning = true;
            let renew = Renew { node: self.node, ttl: NODE_TTL };
            self.call(local, Under::Look, StoreCall::Renew(renew));
        }
    }

    fn close(&mut self, local: Time, id: ShardId) {
        self.giving.remove(&id);
        self.doubted.remove(&id);
        self.stirred.forget(id);
        if let Some(shard) = self.shards.remove(&id) {
            for output in shard.close() {
                self.output(local, id, output);
            }
        }
    }

    pub fn handle_store(&mut self, local: Time, id: CallId, answer: StoreAnswer) {
        let Some((sent, under)) = self.calls.remove(&id) else { return };
        match (under, answer) {
            (Under::Commit(under), answer) => self.committed(local, sent, under, answer),
            (Under::Read(under), answer) => self.were_read(local, under, answer),
            (Under::Renew, StoreAnswer::Renew(view)) => {
                self.owning = false;
                self.doubted.clear();
                self.doubt(&view);
                self.lease_renewed(local, sent, id, view.now);
                self.renewed(local, local.since(sent), view);
            }
            (Under::Renew, _) => {
                self.owning = false;
                self.ownership.handle_renew_failed(local);
            }
            (Under::Look, answer) => {
                self.owning = false;
                if let StoreAnswer::Renew(view) = answer {
                    self.doubt(&view);
                    self.lease_renewed(local, sent, id, view.now);
                    self.ownership.handle_look(view);
                }
            }
            (Under::RenewBeside, answer) => {
                self.renewing_beside = self.renewing_beside.saturating_sub(1);
                if let StoreAnswer::Renew(view) = answer {
                    self.doubt(&view);
                    self.lease_renewed(local, sent, id, view.now);
                    // It may have seen others renew, too late for the one that it stands in for.
                    self.ownership.handle_look(view);
                }
            }
            (Under::Take(takes, gifts), StoreAnswer::Take(taken)) => {
                self.taken(local, &takes, &gifts, taken);
            }
            (Under::Give(gives), StoreAnswer::Give(given)) => {
                self.owning = false;
                for (give, given) in gives.into_iter().zip(given) {
                    self.giving.remove(&give.shard);
                    self.close(local, give.shard);
                    if given {
                        self.ownership.gave(give.shard, give.to);
                        let epoch = give.epoch.0.checked_add(1).map(Epoch);
                        let message = Message::Gave { shard: give.shard, epoch };
                        self.outputs.push_back(HostOutput::Send(give.to, message));
                        let event = Output::Event(Event::Gave);
                        self.outputs.push_back(HostOutput::Shard(give.shard, event));
                    }
                }
            }
            // A take or a gift without an answer shows in the next renewal.
            (Under::Take(..) | Under::Give(_), _) => {
                self.owning = false;
                self.renew_soon(local);
            }
        }
        self.pump(local);
    }

    fn committed(
        &mut self,
        local: Time,
        sent: Time,
        under: Vec<(ShardId, u64, Epoch)>,
        answer: StoreAnswer,
    ) {
        self.committing = self.committing.saturating_sub(1);
        let ends = match answer {
            StoreAnswer::Commit { now, ends } => {
                self.sample(sent, local, now);
                ends
            }
            StoreAnswer::Refused(Refusal::Room) => vec![CommitEnd::NoRoom; under.len()],
            StoreAnswer::Refused(Refusal::NotNow) => vec![CommitEnd::NotNow; under.len()],
            _ => vec![CommitEnd::Unknown; under.len()],
        };
        let Some(now) = self.now(local) else { return };
        for ((id, seq, epoch), end) in under.into_iter().zip(ends) {
            if let Some(shard) = self.shards.get_mut(&id).filter(|s| s.epoch() == epoch) {
                shard.handle_commit(now, seq, end);
                self.stirred.now.insert(id);
            }
        }
    }

    fn sample(&mut self, sent: Time, local: Time, store: Time) {
        let before = self.now(local);
        self.clock.handle_sample(sent, local, store);
        self.kept.sampled(sent, local, store);
        let (Some(before), Some(after)) = (before, self.now(local)) else { return };
        let jump = after.since(before).max(before.since(after));
        if self.follows_steps && jump > CLOCK_STEP {
            self.shards.values_mut().for_each(Shard::handle_clock_step);
            self.stir_all();
        }
    }

    fn were_read(
        &mut self,
        local: Time,
        under: Vec<(ShardId, ReadId, Epoch)>,
        answer: StoreAnswer,
    ) {
        let Some(now) = self.now(local) else { return };
        let mut pages = match answer {
            StoreAnswer::Read(pages) => pages.into_iter().map(Some).collect(),
            _ => vec![None; under.len()],
        }
        .into_iter();
        for (id, read, epoch) in under {
            let page = pages.next().flatten();
            // Ids of reads begin again with every epoch of a shard.
            let Some(shard) = self.shards.get_mut(&id).filter(|s| s.epoch() == epoch) else {
                continue;
            };
            match page {
                Some(page) => shard.handle_read(now, read, page),
                None => shard.handle_read_failed(now, read),
            }
            self.stirred.now.insert(id);
        }
    }

    fn lease_renewed(&mut self, local: Time, sent: Time, by: CallId, now: Time) {
        self.sample(sent, local, now);
        if by > self.renewed_by {
            self.renewed_by = by;
            self.expires = now.plus(NODE_TTL);
        }
        self.trust(local);
    }

    fn renewed(&mut self, local: Time, took: Span, view: Cluster) {
        let held = self.shards.iter().map(|(id, shard)| (*id, shard.epoch())).collect();
        let found = self.ownership.handle_renewed(local, took, view, &held);
        self.vanish(local);
        self.ask_heirs(local);
        found.fenced.into_iter().for_each(|id| self.close(local, id));
        if found.lost_tail {
            for (id, shard) in &mut self.shards {
                shard.handle_lost_tail();
                self.stirred.now.insert(*id);
                let event = Output::Event(Event::LostTail);
                self.outputs.push_back(HostOutput::Shard(*id, event));
            }
        }
        for (owner, shard) in found.ask {
            self.outputs.push_back(HostOutput::Send(owner, Message::Ask { shard }));
        }
        self.pending_takes = found.take;
    }

    /// The lease had ended, and somebody took the shard before this renewal: that the lease holds
    /// again proves nothing for it. A view that is older than our own take shows the same; then the
    /// next one clears it.
    fn doubt(&mut self, view: &Cluster) {
        for row in &view.shards {
            if row.owner != Some(self.node) && self.shards.contains_key(&row.shard) {
                self.doubted.insert(row.shard);
            }
        }
    }

    /// Heartbeats are answered while the lease holds even by the latest the store's time can be.
    fn trust(&mut self, local: Time) {
        let (Some(least), Some(most)) = (self.clock.at_least(local), self.clock.at_most(local))
        else {
            return;
        };
        let until = self.expires.minus(most.since(least));
        for (id, shard) in &mut self.shards {
            if !self.doubted.contains(id) {
                shard.handle_trust(until);
                // Answers without a commit wait for it.
                self.stirred.now.insert(*id);
            }
        }
    }

    fn taken(
        &mut self,
        local: Time,
        takes: &[Take],
        gifts: &BTreeSet<ShardId>,
        taken: Vec<Option<Taken>>,
    ) {
        self.owning = false;
        let Some(now) = self.now(local) else { return };
        let alive = self.ownership.alive();
        // What held up our renewal may have held up theirs: whoever is not seen may be alive.
        let slow = self.ownership.was_slow(local);
        let seen_at = if slow { Time::MIN } else { self.ownership.seen_at() };
        for (take, taken) in takes.iter().zip(taken) {
            let id = take.shard;
            self.stirred.now.insert(id);
            match (self.shards.get_mut(&id), taken) {
                (Some(shard), Some(taken)) => {
                    shard.handle_epoch(now, taken, &alive);
                    shard.handle_seen(seen_at);
                }
                (None, Some(taken)) => {
                    let mut shard = Shard::new(id, self.node, taken, &alive, now, self.planted);
                    shard.handle_seen(seen_at);
                    shard.set_sizes(self.sizes);
                    shard.set_quotas(self.quotas.clone());
                    shard.set_commits_at_once(self.commits_at_once);
                    self.shards.insert(id, shard);
                    let event = Output::Event(Event::TookOver);
                    self.outputs.push_back(HostOutput::Shard(id, event));
                    if gifts.contains(&id) {
                        let event = Output::Event(Event::TookGift);
                        self.outputs.push_back(HostOutput::Shard(id, event));
                    }
                }
                // Somebody else has it.
                (Some(_), None) => self.close(local, id),
                (None, None) => {}
            }
        }
        if takes.len() >= MOVES_AT_ONCE {
            // There may be more to take.
            self.renew_soon(local);
        }
        self.trust(local);
    }
}

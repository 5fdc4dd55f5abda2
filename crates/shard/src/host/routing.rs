//! The way of a command to the shard that decides it, here or on another node. Any node takes any
//! command; a forward is repeated only after a definite refusal, and makes one hop.

use super::{Host, HostOutput, Message};
use crate::batch::Output;
use crate::command::{Answer, Command, CommandId, Refused};
use crate::limits::{GIFTS_MAX, HEARD_MAX, PARTING_MAX, ROUTE_AGAIN, ROUTE_WAIT};
use crate::shard::Caller;
use model::{NodeId, ShardId, Span, Time};

/// A command of a local caller on its way to an owner.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) shard: ShardId,
    pub(super) command: Command,
    pub(super) deadline: Time,
    /// Local time until which an owner is looked for.
    pub(super) patience: Time,
    pub(super) sent_to: Option<NodeId>,
    pub(super) sent_at: Time,
    pub(super) tries: u32,
    /// It was sent to a node that died, and may have been done there: whoever refuses it now does not
    /// say that it was not.
    pub(super) doubtful: bool,
    /// Not to be tried before this: an owner that has just refused refuses again.
    pub(super) again_at: Time,
}

impl Route {
    pub(super) fn new(shard: ShardId, command: Command, deadline: Time, patience: Time) -> Route {
        Route {
            shard,
            command,
            deadline,
            patience,
            sent_to: None,
            sent_at: Time::MIN,
            tries: 0,
            doubtful: false,
            again_at: Time::MIN,
        }
    }

    /// Who had it has no more: patience is for the time without an owner, and a claim may have
    /// waited long with one.
    pub(super) fn moved(&mut self, local: Time) {
        if self.sent_to.is_some() {
            let stood = local.since(self.sent_at).max(Span::ZERO);
            self.patience = self.patience.plus(stood).min(self.deadline);
        }
    }
}

impl Host {
    pub(super) fn begin_route(&mut self, id: CommandId, route: Route) {
        self.unsent.insert(id);
        self.route_ends.insert((route.deadline, id));
        self.routes.insert(id, route);
    }

    pub(super) fn forget_route(&mut self, id: CommandId) -> Option<Route> {
        let route = self.routes.remove(&id)?;
        self.unsent.remove(&id);
        self.route_ends.remove(&(route.deadline, id));
        Some(route)
    }

    /// Its owner is looked for once more.
    pub(super) fn look_again(&mut self, local: Time, id: CommandId) {
        if let Some(route) = self.routes.get_mut(&id) {
            route.sent_to = None;
            route.again_at = local.plus(ROUTE_AGAIN);
            self.unsent.insert(id);
        }
    }

    /// Sends a command to its owner, or waits for there to be one. Repeats only after a definite
    /// refusal.
    pub(super) fn route(&mut self, local: Time, id: CommandId) {
        let now = self.now(local);
        let Some(route) = self.routes.get_mut(&id) else { return };
        if route.sent_to.is_some() {
            if route.deadline <= local {
                // No answer came: it may have been done. A claim may wait on in the shard, if its
                // time is over by our clock and not yet by the store's: what it gets from now on
                // would be nobody's.
                let claims = matches!(route.command, Command::Claim(_));
                let here = route.sent_to == Some(self.node);
                self.answer(id, Answer::Refused(Refused::Unknown));
                if claims && here {
                    self.gone(local, id);
                }
            }
            return;
        }
        // Further away than a pause can be: the local clock ran wild and came back.
        let pause = route.again_at.since(local);
        if pause > Span::ZERO && pause <= ROUTE_AGAIN {
            return;
        }
        if let (Some(shard), Some(now)) = (self.shards.get_mut(&route.shard), now)
            && !self.giving.contains_key(&route.shard)
        {
            route.sent_to = Some(self.node);
            route.sent_at = local;
            route.tries += 1;
            self.unsent.remove(&id);
            self.stirred.now.insert(route.shard);
            let deadline = now.plus(route.deadline.since(local));
            let command = route.command.clone();
            shard.handle_command(now, Caller { id, deadline }, command);
            return;
        }
        if let Some(owner) = self.ownership.owner(route.shard)
            && owner != self.node
        {
            route.sent_to = Some(owner);
            route.sent_at = local;
            route.tries += 1;
            self.unsent.remove(&id);
            let message = Message::Forward {
                id,
                shard: route.shard,
                command: route.command.clone(),
                wait: route.deadline.since(local),
                try_no: route.tries,
            };
            self.outputs.push_back(HostOutput::Send(owner, message));
            return;
        }
        if route.patience <= local {
            self.answer(id, Answer::Refused(Refused::NotOwner));
        }
    }

    /// Commands that were sent to a node which died: whoever has its shard now knows what became of
    /// them, because what the dead one had not committed by then it never will. Only where asking
    /// again is safe; the others hear at their deadline that nobody knows.
    pub(super) fn ask_heirs(&mut self, local: Time) {
        let alive = self.ownership.alive();
        let (node, ownership) = (self.node, &self.ownership);
        let died = |to: &NodeId| *to != node && !alive.contains(to);
        let mut again = Vec::new();
        for (id, route) in &mut self.routes {
            if let Some(to) = route.sent_to.filter(died)
                && ownership.owner(route.shard).is_some_and(|owner| owner != to)
                && route.command.is_repeatable()
            {
                route.patience = local.plus(ROUTE_WAIT).min(route.deadline);
                route.doubtful = true;
                again.push(*id);
            }
        }
        again.into_iter().for_each(|id| self.look_again(local, id));
    }

    pub(super) fn answer(&mut self, id: CommandId, answer: Answer) {
        if let Some((node, theirs, try_no)) = self.guests.remove(&id) {
            if matches!(&answer, Answer::Claimed(leases) if !leases.is_empty()) {
                if self.parting.len() >= PARTING_MAX {
                    self.parting.pop_front();
                }
                self.parting.push_back((node, theirs, id));
            }
            let message = Message::Answer { id: theirs, answer, try_no };
            self.outputs.push_back(HostOutput::Send(node, message));
        } else if let Some(route) = self.forget_route(id) {
            let answer = match answer {
                Answer::Refused(_) if route.doubtful => Answer::Refused(Refused::Unknown),
                answer => answer,
            };
            let output = Output::Reply(id, answer);
            self.outputs.push_back(HostOutput::Shard(route.shard, output));
        }
    }

    pub fn handle_message(&mut self, local: Time, from: NodeId, message: Message) {
        match message {
            Message::Forward { id, try_no, .. } if !self.first_time((from, id, try_no)) => {}
            Message::Forward { id, shard, command, wait, try_no } => {
                self.last_command += 1;
                let mine = CommandId(self.last_command);
                self.guests.insert(mine, (from, id, try_no));
                let now = self.now(local);
                let giving = self.giving.contains_key(&shard);
                match (self.shards.get_mut(&shard), now) {
                    (Some(shard), Some(now)) if !giving => {
                        let caller = Caller { id: mine, deadline: now.plus(wait) };
                        self.stirred.now.insert(shard.id());
                        shard.handle_command(now, caller, command);
                    }
                    _ => self.answer(mine, Answer::Refused(Refused::NotOwner)),
                }
            }
            Message::Answer { id, answer, try_no } => {
                let refused = answer == Answer::Refused(Refused::NotOwner);
                let mut route = self.routes.get_mut(&id).filter(|route| route.tries == try_no);
                if let Some(route) = route.as_mut().filter(|_| refused) {
                    route.moved(local);
                }
                match route {
                    // A definite refusal: the shard has moved. Look for its owner again.
                    Some(route) if refused && route.patience > local => {
                        self.look_again(local, id);
                        self.look(local);
                    }
                    Some(_) => self.answer(id, answer),
                    None => {}
                }
            }
            Message::Gone { id } => {
                let guests = self.guests.iter().map(|(mine, guest)| (guest.0, guest.1, *mine));
                let mine: Vec<CommandId> = guests
                    .chain(self.parting.iter().copied())
                    .filter(|(node, theirs, _)| (*node, *theirs) == (from, id))
                    .map(|(_, _, mine)| mine)
                    .collect();
                for mine in mine {
                    self.gone(local, mine);
                    self.guests.remove(&mine);
                }
            }
            Message::Ask { shard } => {
                if self.ownership.belongs_to(shard, from) {
                    self.begin_give(local, shard, from);
                }
            }
            Message::Gave { shard, epoch: Some(epoch) } if self.gifts.len() < GIFTS_MAX => {
                self.gifts.insert(shard, epoch);
            }
            Message::Gave { .. } => self.renew_soon(local),
        }
        self.pump(local);
    }

    /// A message could not be handed over at all (nobody listens there): it was not heard.
    pub fn handle_bounce(&mut self, local: Time, message: &Message) {
        if let Message::Forward { id, try_no, .. } = message
            && let Some(route) = self.routes.get_mut(id).filter(|route| route.tries == *try_no)
        {
            if route.patience > local {
                self.look_again(local, *id);
                self.look(local);
            } else {
                self.answer(*id, Answer::Refused(Refused::NotOwner));
            }
        }
        self.pump(local);
    }

    /// A router that asks again after a refusal counts its tries, so only a repetition by the
    /// network has been heard before.
    pub(super) fn first_time(&mut self, forward: (NodeId, CommandId, u32)) -> bool {
        if self.heard_order.len() >= HEARD_MAX
            && let Some(oldest) = self.heard_order.pop_front()
        {
            self.heard.remove(&oldest);
        }
        self.heard_order.push_back(forward);
        self.heard.insert(forward)
    }
}

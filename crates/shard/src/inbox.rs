//! Commands that wait to be decided, by class: what frees work comes before what adds it.

use crate::command::{Command, CommandId, Refused};
use crate::limits::INBOX_MAX;
use crate::shard::Caller;
use model::Time;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Inbox {
    classes: [VecDeque<(Caller, Command)>; Inbox::CLASSES],
    waiting: usize,
    next_deadline: Option<Time>,
}

impl Inbox {
    pub const CLASSES: usize = 4;
    /// Settles and heartbeats, then what people do to jobs and runs, then claims, then new work.
    pub const SUBMIT: usize = 3;

    fn class(command: &Command) -> usize {
        match command {
            Command::Settle(_) | Command::Heartbeat(_) => 0,
            Command::Claim(_) => 2,
            Command::Submit(_) => Inbox::SUBMIT,
            _ => 1,
        }
    }

    /// Commands of a class decided in one pass. Many runs may ride in one command.
    pub fn share(class: usize) -> usize {
        [1_024, 256, 1_024, 512][class]
    }

    pub fn push(&mut self, caller: Caller, command: Command) -> Result<(), Refused> {
        let class = Inbox::class(&command);
        // A settle is never turned away: it is what makes room.
        if self.waiting >= INBOX_MAX && class != 0 {
            return Err(Refused::Busy);
        }
        self.next_deadline =
            Some(self.next_deadline.map_or(caller.deadline, |at| at.min(caller.deadline)));
        self.waiting += 1;
        self.classes[class].push_back((caller, command));
        Ok(())
    }

    /// Back to where it came from, before everything else of its class.
    pub fn push_front(&mut self, caller: Caller, command: Command) {
        self.next_deadline =
            Some(self.next_deadline.map_or(caller.deadline, |at| at.min(caller.deadline)));
        self.waiting += 1;
        self.classes[Inbox::class(&command)].push_front((caller, command));
    }

    pub fn pop(&mut self, class: usize) -> Option<(Caller, Command)> {
        let popped = self.classes[class].pop_front();
        self.waiting -= usize::from(popped.is_some());
        if self.waiting == 0 {
            self.next_deadline = None;
        }
        popped
    }

    pub fn remove(&mut self, caller: CommandId) {
        for class in &mut self.classes {
            class.retain(|(other, _)| other.id != caller);
        }
        self.waiting = self.classes.iter().map(VecDeque::len).sum();
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub fn next_deadline(&self) -> Option<Time> {
        self.next_deadline
    }

    /// Takes out what is too late to be decided.
    pub fn expired(&mut self, now: Time) -> Vec<CommandId> {
        if self.next_deadline.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        let mut next = None;
        for class in &mut self.classes {
            class.retain(|(caller, _)| {
                if caller.deadline <= now {
                    expired.push(caller.id);
                    return false;
                }
                next = Some(next.map_or(caller.deadline, |at: Time| at.min(caller.deadline)));
                true
            });
        }
        self.next_deadline = next;
        self.waiting -= expired.len();
        expired
    }

    pub fn drain(&mut self) -> Vec<(Caller, Command)> {
        self.waiting = 0;
        self.next_deadline = None;
        self.classes.iter_mut().flat_map(std::mem::take).collect()
    }
}

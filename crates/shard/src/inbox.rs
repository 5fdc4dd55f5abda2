//! Commands that wait to be decided, by class: what frees work comes before what adds it. Inside the class
//! of new work namespaces take turns (`turns.rs`); the others are decided as they come.

mod turns;

use crate::command::{Command, CommandId, Refused};
use crate::limits::INBOX_MAX;
use crate::shard::Caller;
use model::Time;
use std::collections::VecDeque;
use turns::Turns;

#[derive(Debug, Default)]
pub struct Inbox {
    /// All but submissions.
    classes: [VecDeque<(Caller, Command)>; Inbox::SUBMIT],
    submissions: Turns,
    /// Of the classes.
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
        if self.waiting + self.submissions.len() >= INBOX_MAX && class != 0 {
            return Err(Refused::Busy);
        }
        match self.classes.get_mut(class) {
            Some(class) => {
                class.push_back((caller, command));
                self.waiting += 1;
            }
            None => self.submissions.push(caller, command, self.waiting)?,
        }
        self.next_deadline =
            Some(self.next_deadline.map_or(caller.deadline, |at| at.min(caller.deadline)));
        Ok(())
    }

    /// Back to where it came from, before everything else of its class.
    pub fn push_front(&mut self, caller: Caller, command: Command) {
        self.next_deadline =
            Some(self.next_deadline.map_or(caller.deadline, |at| at.min(caller.deadline)));
        match self.classes.get_mut(Inbox::class(&command)) {
            Some(class) => {
                class.push_front((caller, command));
                self.waiting += 1;
            }
            None => self.submissions.push_front(caller, command),
        }
    }

    pub fn pop(&mut self, class: usize) -> Option<(Caller, Command)> {
        let popped = match self.classes.get_mut(class) {
            Some(class) => {
                let popped = class.pop_front();
                self.waiting -= usize::from(popped.is_some());
                popped
            }
            None => self.submissions.pop(),
        };
        if self.is_empty() {
            self.next_deadline = None;
        }
        popped
    }

    pub fn remove(&mut self, caller: CommandId) {
        for class in &mut self.classes {
            class.retain(|(other, _)| other.id != caller);
        }
        self.waiting = self.classes.iter().map(VecDeque::len).sum();
        self.submissions.remove(caller);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.submissions.len() == 0
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
        let mut next = self.submissions.expire(now, &mut expired);
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
        self.waiting = self.classes.iter().map(VecDeque::len).sum();
        expired
    }

    pub fn drain(&mut self) -> Vec<(Caller, Command)> {
        self.waiting = 0;
        self.next_deadline = None;
        let mut all: Vec<_> = self.classes.iter_mut().flat_map(std::mem::take).collect();
        all.extend(self.submissions.drain());
        all
    }
}

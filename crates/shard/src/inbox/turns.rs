//! Submissions that wait to be decided: namespaces take turns, by deficit round robin. A request may carry
//! thousands of jobs, so turns are counted in jobs and not in requests. A namespace holds at most as much of
//! the room as it leaves free, so there is always room for another.

use crate::command::{Command, CommandId, Refused};
use crate::limits::{INBOX_MAX, TURN_JOBS};
use crate::shard::Caller;
use model::{Namespace, Time};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: BTreeMap<Namespace, Line>,
    /// Namespaces that have something, whose turn is next in front.
    turns: VecDeque<Namespace>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Line {
    commands: VecDeque<(Caller, Command)>,
    /// Jobs that it may still have decided in this turn.
    credit: usize,
}

fn namespace(command: &Command) -> Namespace {
    match command {
        Command::Submit(jobs) => jobs.first().map_or(Namespace(0), |job| job.spec.namespace),
        _ => Namespace(0),
    }
}

fn cost(command: &Command) -> usize {
    match command {
        Command::Submit(jobs) => jobs.len().max(1),
        _ => 1,
    }
}

impl Turns {
    /// `others` wait in the same room.
    pub fn push(&mut self, caller: Caller, command: Command, others: usize) -> Result<(), Refused> {
        let of = namespace(&command);
        let own = self.lines.get(&of).map_or(0, |line| line.commands.len());
        if own >= INBOX_MAX.saturating_sub(self.waiting + others) {
            return Err(Refused::Busy);
        }
        self.line(of).commands.push_back((caller, command));
        self.waiting += 1;
        Ok(())
    }

    pub fn push_front(&mut self, caller: Caller, command: Command) {
        self.line(namespace(&command)).commands.push_front((caller, command));
        self.waiting += 1;
    }

    fn line(&mut self, of: Namespace) -> &mut Line {
        let turns = &mut self.turns;
        self.lines.entry(of).or_insert_with(|| {
            turns.push_back(of);
            Line::default()
        })
    }

    pub fn pop(&mut self) -> Option<(Caller, Command)> {
        // Each round gives every line as much, so this ends when the largest request can be paid.
        loop {
            let of = self.turns.pop_front()?;
            let Some(line) = self.lines.get_mut(&of) else { continue };
            let Some(wanted) = line.commands.front().map(|(_, command)| cost(command)) else {
                self.lines.remove(&of);
                continue;
            };
            if line.credit < wanted {
                line.credit += TURN_JOBS;
                self.turns.push_back(of);
                continue;
            }
            line.credit -= wanted;
            let popped = line.commands.pop_front();
            self.waiting -= usize::from(popped.is_some());
            match line.commands.is_empty() {
                // What it did not use is lost: whoever comes back begins like all others.
                true => drop(self.lines.remove(&of)),
                false => self.turns.push_front(of),
            }
            return popped;
        }
    }

    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn remove(&mut self, caller: CommandId) {
        self.retain(|other| other.id != caller);
    }

    /// Takes out what is too late; returns the next deadline of those that are left.
    pub fn expire(&mut self, now: Time, expired: &mut Vec<CommandId>) -> Option<Time> {
        let mut next: Option<Time> = None;
        self.retain(|caller| {
            if caller.deadline <= now {
                expired.push(caller.id);
                return false;
            }
            next = Some(next.map_or(caller.deadline, |at| at.min(caller.deadline)));
            true
        });
        next
    }

    fn retain(&mut self, mut keep: impl FnMut(&Caller) -> bool) {
        for line in self.lines.values_mut() {
            line.commands.retain(|(caller, _)| keep(caller));
        }
        self.waiting = self.lines.values().map(|line| line.commands.len()).sum();
    }

    pub fn drain(&mut self) -> Vec<(Caller, Command)> {
        self.waiting = 0;
        self.turns.clear();
        std::mem::take(&mut self.lines).into_values().flat_map(|line| line.commands).collect()
    }
}

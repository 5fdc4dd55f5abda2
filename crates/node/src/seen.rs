//! Which queues hold what executors of this process do: webhooks, commands, messages. A claim names its queues, so the executor must know them. Everything
//! that can become ready passes through the driver: a run in memory came from a page that was read
//! or from a change that is committed. Looking at both tells every queue in time, without a query
//! and without a list that could be wrong after a restart.

use crate::limits::QUEUES_MAX;
use model::read::Page;
use model::row::{Commit, Row};
use model::{FlowKey, Namespace, Target, Text};
use std::collections::BTreeSet;
use tokio::sync::mpsc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenQueue {
    pub namespace: Namespace,
    pub queue: Text,
}

#[derive(Debug)]
pub struct Seen {
    known: BTreeSet<SeenQueue>,
    tell: mpsc::Sender<SeenQueue>,
}

impl Seen {
    pub fn new() -> (Seen, mpsc::Receiver<SeenQueue>) {
        // Each queue is told once and no more than fit are known: telling never fails for room.
        let (tell, told) = mpsc::channel(QUEUES_MAX);
        (Seen { known: BTreeSet::new(), tell }, told)
    }

    pub fn commits(&mut self, commits: &[Commit]) {
        for change in commits.iter().flat_map(|commit| commit.changes.iter()) {
            if let Some(row) = &change.row {
                self.row(row);
            }
        }
    }

    pub fn pages(&mut self, pages: &[Page]) {
        for page in pages {
            match page {
                Page::Rows(rows) => rows.iter().flatten().for_each(|row| self.row(row)),
                Page::Due { rows, .. } => rows.iter().for_each(|row| self.row(row)),
                Page::Runs(runs) => runs.iter().for_each(|run| self.flow(&run.flow)),
                Page::Flows(flows) => flows.iter().for_each(|flow| self.flow(flow)),
                Page::Leases(leases) => leases.iter().for_each(|(_, run)| self.flow(&run.flow)),
                Page::Holds(_) | Page::Queues(_) | Page::Spec(_) | Page::Outcomes(_) => {}
            }
        }
    }

    fn row(&mut self, row: &Row) {
        if let Row::Run(run) = row {
            self.flow(&run.flow);
        }
    }

    fn flow(&mut self, flow: &FlowKey) {
        if !Target::BUILT_IN.contains(&flow.kind.as_ref()) || self.known.len() >= QUEUES_MAX {
            return;
        }
        let queue = SeenQueue { namespace: flow.namespace, queue: flow.queue.clone() };
        if !self.known.contains(&queue) {
            // Nobody listens in a process without an executor.
            let _ = self.tell.try_send(queue.clone());
            self.known.insert(queue);
        }
    }
}

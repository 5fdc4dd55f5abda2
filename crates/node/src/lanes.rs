//! Lanes: threads that carry store calls, one at a time each. What waits for a lane waits in the
//! driver, in order; how much that can be is bounded by the core (one commit, one ownership call and a
//! renewal beside it,
//! `PAGES_MAX` pages and the reads of the commands in its inboxes).

use crate::calls::carry;
use crate::clock::BootClock;
use crate::crash;
use crate::driver::Input;
use crate::handle::Shared;
use shard::{CallId, StoreCall};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use store::Store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Commit,
    Read,
    /// Renewals, takes and gifts: apart, so that a slow commit cannot cost the node its lease.
    Own,
}

pub fn lane_of(call: &StoreCall) -> Which {
    match call {
        StoreCall::Commit(_) => Which::Commit,
        StoreCall::Read(_) => Which::Read,
        StoreCall::Renew(_) | StoreCall::Take(_) | StoreCall::Give(_) => Which::Own,
    }
}

#[derive(Debug)]
pub struct Lane {
    thread: SyncSender<(CallId, StoreCall)>,
    busy: bool,
    waiting: VecDeque<(CallId, StoreCall)>,
}

impl Lane {
    pub fn start(
        which: Which,
        store: Arc<dyn Store>,
        input: SyncSender<Input>,
        shared: Arc<Shared>,
    ) -> Lane {
        let (thread, calls) = sync_channel::<(CallId, StoreCall)>(1);
        crate::tasks::thread(&format!("lane-{which:?}").to_lowercase(), move || {
            while let Ok((id, call)) = calls.recv() {
                if which == Which::Commit {
                    crash::point("commit-before");
                    crash::during("commit-during");
                }
                let began = BootClock.local();
                let answer = carry(store.as_ref(), &call);
                let took = BootClock.local().since(began);
                match which {
                    Which::Commit => shared.metrics.commit.observe(took),
                    Which::Read => shared.metrics.read.observe(took),
                    Which::Own => {}
                }
                crash::point(match call {
                    StoreCall::Commit(_) => "commit-after",
                    StoreCall::Read(_) => "load-after",
                    StoreCall::Renew(_) => "renew-after",
                    StoreCall::Take(_) | StoreCall::Give(_) => "take-after",
                });
                if input.send(Input::Store { which, id, answer }).is_err() {
                    return; // The driver has ended.
                }
            }
        });
        Lane { thread, busy: false, waiting: VecDeque::new() }
    }

    pub fn send(&mut self, id: CallId, call: StoreCall) {
        self.waiting.push_back((id, call));
        self.next();
    }

    /// The lane has answered and is free.
    pub fn answered(&mut self) {
        self.busy = false;
        self.next();
    }

    fn next(&mut self) {
        if !self.busy
            && let Some(call) = self.waiting.pop_front()
        {
            // Never blocks: the lane has room for one and is idle.
            self.busy = self.thread.send(call).is_ok();
        }
    }
}

//! How a node begins and ends.
//!
//! **Taking over quickly.** A store inside the process is locked by it, so whoever held it before
//! is dead, whatever its lease says. Such a node ends the leases of all others first (a renewal of
//! length zero), then takes every shard as fast as the store answers, and the core rescues the
//! attempts of the former process at load. Without that lock nothing of the kind is done: leases
//! run out in 3 seconds.

use crate::driver::{Driver, Input};
use crate::handle::{NodeHandle, Shared};
use crate::lanes::{Lane, Which, commits_at_once};
use crate::limits::{CALLS_MAX, INPUT_MAX, READS_MAX, SETTLES_MAX};
use crate::post::Post;
use crate::seen::{Seen, SeenQueue};
use crate::view::View;
use crate::{crash, random, tasks};
use model::cluster::{About, Renew};
use model::{NodeId, Span, Time};
use shard::limits::NODE_TTL;
use shard::{Bug, Host, Planted};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use store::{Backend, Store, StoreError};
use tokio::sync::{Semaphore, mpsc, watch};

#[derive(Clone, Debug)]
pub struct Options {
    pub node: u32,
    /// The store is locked by this process: nobody else is alive.
    pub exclusive: bool,
    /// What this node tells the others of itself.
    pub about: About,
    /// Who carries letters to them.
    pub post: Option<Arc<dyn Post>>,
}

impl Options {
    /// A node that has its store for itself.
    pub fn alone() -> Options {
        Options { node: 1, exclusive: true, about: About { address: None, owns: true }, post: None }
    }
}

#[derive(Debug)]
pub struct Node {
    handle: NodeHandle,
    input: SyncSender<Input>,
}

impl Node {
    /// Starts the threads. The queues with webhooks are told on the channel as they are seen.
    pub fn start(
        store: Arc<dyn Backend>,
        options: Options,
    ) -> Result<(Node, mpsc::Receiver<SeenQueue>), StoreError> {
        let id = NodeId { node: options.node, boot: random::bits() >> 1 };
        if options.exclusive {
            end_former(&*store, id)?;
            crash::point("former-ended");
        }
        store.introduce(id, &options.about)?;
        let (input, inputs) = sync_channel(INPUT_MAX);
        let (seen, told) = Seen::new();
        let (live, is_live) = watch::channel(false);
        let (view, views) = watch::channel(Arc::new(View::empty(id)));
        let shared = Arc::new(Shared::new(id.boot));
        shared.last.store(random::bits() >> 8, Ordering::Relaxed);
        let lane = |which| Lane::start(which, store.clone(), input.clone(), shared.clone());
        let mut host = Host::new(id, planted());
        host.set_quotas(shared.quotas.clone());
        host.set_commits_at_once(commits_at_once(&*store));
        if options.exclusive {
            host.follow_clock_steps();
        }
        let driver = Driver {
            host,
            input: inputs,
            commit: lane(Which::Commit),
            read: lane(Which::Read),
            own: lane(Which::Own),
            renew: lane(Which::Renew),
            shared: shared.clone(),
            seen,
            live,
            callers: BTreeMap::new(),
            exclusive: options.exclusive,
            hurrying: false,
            hurried: 0,
            looked: Time::MIN,
            post: options.post,
            view,
            stale: true,
            claims: BTreeMap::new(),
        };
        tasks::thread("driver", move || {
            tasks::wake_punctually();
            driver.run();
        });
        let handle = NodeHandle {
            node: id,
            input: input.clone(),
            shared,
            store,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            settles: Arc::new(Semaphore::new(SETTLES_MAX)),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            live: is_live,
            view: views,
            about: Arc::new(Mutex::new(options.about)),
        };
        Ok((Node { handle, input }, told))
    }

    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Ends the driver and the node's lease, so that the next process need not wait for it.
    pub fn stop(self) {
        let _ = self.input.send(Input::Stop);
        let _ = self.handle.store.renew(Renew { node: self.handle.node, ttl: Span::ZERO });
    }
}

/// The crash test proves that it would notice a fault of the core by planting one, as the simulator
/// does. Only in builds that carry the faults (the feature `planted` of `shard`) and are not for
/// use: elsewhere the variable is not even read.
fn planted() -> Planted {
    if !cfg!(debug_assertions) {
        return Planted(None);
    }
    let Ok(name) = std::env::var("DULY_PLANTED") else { return Planted(None) };
    let bug = Bug::ALL.iter().copied().find(|bug| format!("{bug:?}") == name);
    if bug.is_none() {
        tasks::end(&format!("DULY_PLANTED={name}: there is no such fault"));
    }
    Planted(bug)
}

fn end_former(store: &dyn Store, id: NodeId) -> Result<(), StoreError> {
    let cluster = store.renew(Renew { node: id, ttl: NODE_TTL })?;
    for lease in cluster.nodes.iter().filter(|lease| lease.node != id) {
        if lease.expires > cluster.now {
            store.renew(Renew { node: lease.node, ttl: Span::ZERO })?;
        }
    }
    Ok(())
}

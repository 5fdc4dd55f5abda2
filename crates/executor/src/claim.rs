//! Claims: one loop per queue that has webhooks. A loop never waits for a slow host: a claimed run is
//! sent, waits for its host in a bounded room, or is put back for later, and the loop goes on to
//! whatever stands behind it. So a slow host holds up its own runs, and nobody else's.

use crate::attempt::{self, Job, back, kept_back, never};
use crate::client::Client;
use crate::command::Commands;
use crate::destinations::{Destinations, Under};
use crate::limits::{
    CLAIM_AGAIN, CLAIM_BATCH, CLAIM_MARGIN, CLAIM_WAIT, IDLE_TIME_MAX, IN_FLIGHT_MAX, LEASE,
    SHARE_LOOK, WAITING_MAX,
};
use crate::publish::Publisher;
use crate::secrets::Secrets;
use crate::settle::{self, Ended, Settler};
use crate::shares::Shares;
use crate::slots::{Entry, Slots};
use crate::verdict;
use model::row::Holder;
use model::{ShardId, Slot, Target, Text, Time};
use node::namespaces::Namespaces;
use node::{NodeHandle, SeenQueue, Tasks};
use shard::command::{Answer, Claim, Command, End, Leased, Settle};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};

/// Attempts that exist: under way, waiting for their host, or being settled.
const ATTEMPTS_MAX: usize = IN_FLIGHT_MAX + WAITING_MAX;
/// How long what was handed back may take to be settled when the process ends.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    pub client: Arc<Client>,
    pub secrets: Arc<dyn Secrets>,
    pub commands: Commands,
    pub destinations: Arc<Destinations>,
    pub shares: Arc<Shares>,
    pub whose: Whose,
}

/// Whose webhooks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of shards that this node owns.
    Own,
    /// Those of all nodes: this one owns no shards and only works.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Work,
    /// Claim nothing more; what is under way may finish.
    Drain,
    /// Hand back what is still under way.
    Release,
}

#[derive(Debug)]
pub struct Context {
    pub node: NodeHandle,
    pub tasks: Tasks,
    pub options: Options,
    pub slots: Slots,
    pub destinations: Arc<Destinations>,
    pub publisher: Arc<Publisher>,
    pub settler: Settler,
    namespaces: Namespaces,
    attempts: Arc<Semaphore>,
}

impl Context {
    /// Is the run kept back because its destination fails? Until when?
    fn look(&self, job: &Job) -> Option<Time> {
        let run = job.leased.run;
        self.destinations.look(job.spec.namespace, &job.place, run, self.node.now())
    }

    /// Does the limit of its destination allow it now? If not, how does its attempt end?
    fn room(&self, job: &Job) -> Result<(), End> {
        let (namespace, deadline) = (job.spec.namespace, job.leased.deadline);
        match self.slots.look(namespace, &job.place, self.node.now(), deadline) {
            Ok(()) => Ok(()),
            Err(Some(until)) => Err(End::Snoozed { until }),
            Err(None) => Err(never(job)),
        }
    }

    /// May its attempt begin? If not, when shall it come again?
    pub fn ask(&self, job: &Job) -> Result<Under, Time> {
        let run = job.leased.run;
        self.destinations.ask(job.spec.namespace, &job.place, run, self.node.now())
    }
}

#[derive(Debug)]
pub struct Executor {
    phase: watch::Sender<Phase>,
    attempts: Arc<Semaphore>,
    commands: Commands,
}

impl Executor {
    pub fn start(
        node: NodeHandle,
        tasks: Tasks,
        mut queues: mpsc::Receiver<SeenQueue>,
        options: Options,
    ) -> Executor {
        let (phase, phases) = watch::channel(Phase::Work);
        let attempts = Arc::new(Semaphore::new(ATTEMPTS_MAX));
        let commands = options.commands.clone();
        let (slots, all) = (Slots::new(options.shares.clone()), attempts.clone());
        if !options.shares.is_empty() {
            let shares = options.shares.clone();
            tasks.start(follow(node.clone(), shares, slots.clone(), phases.clone()));
        }
        let publisher = Arc::new(Publisher::default());
        let destinations = options.destinations.clone();
        tasks.start(sweep(options.client.clone(), publisher.clone(), phases.clone()));
        let namespaces = Namespaces::new(node.clone());
        let context = Arc::new(Context {
            node,
            tasks: tasks.clone(),
            options,
            slots,
            destinations,
            publisher,
            settler: Settler::default(),
            namespaces,
            attempts: all,
        });
        tasks.start(async move {
            while let Some(queue) = queues.recv().await {
                context.tasks.start(serve(context.clone(), queue, phases.clone()));
            }
        });
        Executor { phase, attempts, commands }
    }

    /// No program that was started outlives this process, also when it ends without waiting.
    pub fn kill(&self) {
        self.commands.kill_all();
    }

    /// Finishes what is under way, for at most `grace`, and hands back the rest.
    pub async fn drain(&self, grace: Duration) {
        let _ = self.phase.send(Phase::Drain);
        let all = self.attempts.acquire_many(ATTEMPTS_MAX as u32);
        if tokio::time::timeout(grace, all).await.is_err() {
            let _ = self.phase.send(Phase::Release);
            let all = self.attempts.acquire_many(ATTEMPTS_MAX as u32);
            let _ = tokio::time::timeout(RELEASE_WAIT, all).await;
        }
    }
}

/// Tells the shares which nodes live: by changes, and now and then, because some of it goes by time.
async fn follow(
    node: NodeHandle,
    shares: Arc<Shares>,
    slots: Slots,
    mut phases: watch::Receiver<Phase>,
) {
    let mut views = node.views();
    let ended = phases.wait_for(|phase| *phase == Phase::Release);
    tokio::pin!(ended);
    loop {
        let view = views.borrow_and_update().clone();
        shares.seen(view.node, view.alive().map(|lease| lease.node).collect(), node.now());
        slots.refresh(node.now());
        tokio::select! {
            _ = &mut ended => return,
            changed = views.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(SHARE_LOOK) => {}
        }
    }
}

/// Closes connections that nobody needed for a while.
async fn sweep(client: Arc<Client>, publisher: Arc<Publisher>, mut phases: watch::Receiver<Phase>) {
    let ended = phases.wait_for(|phase| *phase == Phase::Release);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => return,
            () = tokio::time::sleep(IDLE_TIME_MAX / 4) => {
                client.sweep();
                publisher.sweep();
            }
        }
    }
}

async fn serve(context: Arc<Context>, queue: SeenQueue, mut phases: watch::Receiver<Phase>) {
    let shares = &context.options.shares;
    while shares.limits_tenants() && *phases.borrow() == Phase::Work {
        // Limits are written with names; a store that does not answer is asked again.
        match context.namespaces.name(queue.namespace).await {
            Ok(name) => {
                shares.is_called(queue.namespace, &name);
                break;
            }
            Err(_) => tokio::time::sleep(CLAIM_AGAIN).await,
        }
    }
    let shard = Slot::of(queue.namespace, &queue.queue, 0).shard();
    let mut views = context.node.views();
    let own = context.options.whose == Whose::Own;
    while *phases.borrow() == Phase::Work {
        // Webhooks of a shard are sent by the node that owns it: their attempts end with it.
        tokio::select! {
            here = views.wait_for(|view| view.is_here(shard)), if own => {
                if here.is_err() {
                    return;
                }
            }
            () = std::future::ready(()), if !own => {}
            _ = phases.wait_for(|phase| *phase != Phase::Work) => return,
        }
        let claim = Claim {
            holder: Holder::Node(context.node.node()),
            namespace: queue.namespace,
            queues: vec![queue.queue.clone()],
            kinds: Some(Target::BUILT_IN.map(Text::from).to_vec()),
            max: CLAIM_BATCH,
            lease: LEASE,
            request: context.node.request(),
            wait_until: context.node.now().plus(CLAIM_WAIT),
            // One loop claims for a whole queue: a promise would keep it from what is ready.
            reserve: false,
        };
        let ask = async {
            context.slots.any_free().await;
            context.slots.room(queue.namespace).await;
            let wait = CLAIM_WAIT.plus(CLAIM_MARGIN);
            settle::go_along(&context, shard).await;
            context.node.call_for(shard, Command::Claim(claim), wait).await
        };
        tokio::pin!(ask);
        let answer = tokio::select! {
            biased;
            answer = &mut ask => Some(answer),
            // Its new owner's executor does the rest.
            _ = views.wait_for(|view| !view.is_here(shard)), if own => None,
            _ = phases.wait_for(|phase| *phase != Phase::Work) => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            // What was answered before the shard went is heard: its leases would be nobody's.
            None => tokio::select! {
                biased;
                answer = &mut ask => answer,
                () = std::future::ready(()) => continue,
            },
        };
        match answer {
            Answer::Claimed(leases) => begin(&context, shard, leases, &phases).await,
            _ => tokio::time::sleep(CLAIM_AGAIN).await,
        }
    }
}

async fn begin(
    context: &Arc<Context>,
    shard: ShardId,
    leases: Vec<Leased>,
    phases: &watch::Receiver<Phase>,
) {
    if leases.is_empty() {
        return;
    }
    let wanted = leases.iter().map(|leased| (leased.run, leased.version)).collect();
    let Ok(specs) = context.node.specs(wanted).await else {
        let released = leases.iter().map(|leased| settled(leased, End::Released)).collect();
        settle::settle(context, shard, released).await;
        return tokio::time::sleep(CLAIM_AGAIN).await;
    };
    let mut at_once = Vec::new();
    for (leased, spec) in leases.into_iter().zip(specs) {
        let job = match Job::of(leased, spec) {
            Ok(job) => job,
            Err((leased, end)) => {
                at_once.push(settled(&leased, end));
                continue;
            }
        };
        // Before it takes a slot: those of other destinations need them.
        if let Some(until) = context.look(&job) {
            at_once.push(settled(&job.leased, kept_back(context, &job, until)));
            continue;
        }
        if let Err(end) = context.room(&job) {
            at_once.push(settled(&job.leased, end));
            continue;
        }
        // Who drains waits for all permits and stands before us: then nothing new begins.
        let mut told = phases.clone();
        let permit = tokio::select! {
            permit = context.attempts.clone().acquire_owned() => permit.ok(),
            _ = told.wait_for(|phase| *phase != Phase::Work) => None,
        };
        let entry = context.slots.enter(job.spec.namespace, &job.place);
        match (permit, entry) {
            (None, _) => at_once.push(settled(&job.leased, End::Released)),
            (_, Entry::Full) => at_once.push(settled(&job.leased, back(context, &job))),
            (Some(permit), entry) => {
                let (here, phases) = (context.clone(), phases.clone());
                context.tasks.start(async move {
                    // In a box: a task is copied when it begins and when it ends, with all it has room for.
                    let end = Box::pin(attempt::run(&here, &job, entry, phases)).await;
                    let (gone, settle) = (verdict::is_gone(&end), settled(&job.leased, end));
                    drop(job);
                    settle::bring(&here, Ended { settle, gone, _permit: permit }).await;
                });
            }
        }
    }
    if !at_once.is_empty() {
        settle::settle(context, shard, at_once).await;
    }
}

fn settled(leased: &Leased, end: End) -> Settle {
    Settle { run: leased.run, token: leased.token, end }
}

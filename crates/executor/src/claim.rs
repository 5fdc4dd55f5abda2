//! Claims: one loop per queue that has webhooks. A loop does not claim again before all that it got
//! has found a place among those under way, so what is claimed and not begun is bounded by
//! queues × `CLAIM_BATCH`.

use crate::attempt;
use crate::limits::{CLAIM_AGAIN, CLAIM_BATCH, CLAIM_MARGIN, CLAIM_WAIT, IN_FLIGHT_MAX, LEASE};
use crate::sign::Secret;
use crate::vet::Guard;
use model::row::Holder;
use model::{Slot, Text};
use node::{NodeHandle, SeenQueue, Tasks};
use shard::command::{Answer, Claim, Command, End, Leased};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};

#[derive(Clone, Debug)]
pub struct Options {
    pub guard: Guard,
    pub secret: Secret,
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
    in_flight: Arc<Semaphore>,
}

#[derive(Debug)]
pub struct Executor {
    phase: watch::Sender<Phase>,
    in_flight: Arc<Semaphore>,
}

impl Executor {
    pub fn start(
        node: NodeHandle,
        tasks: Tasks,
        mut queues: mpsc::Receiver<SeenQueue>,
        options: Options,
    ) -> Executor {
        let (phase, phases) = watch::channel(Phase::Work);
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let context =
            Arc::new(Context { node, tasks: tasks.clone(), options, in_flight: in_flight.clone() });
        tasks.start(async move {
            while let Some(queue) = queues.recv().await {
                context.tasks.start(serve(context.clone(), queue, phases.clone()));
            }
        });
        Executor { phase, in_flight }
    }

    /// Finishes what is under way, for at most `grace`, and hands back the rest.
    pub async fn drain(&self, grace: Duration) {
        let _ = self.phase.send(Phase::Drain);
        let all = self.in_flight.acquire_many(IN_FLIGHT_MAX as u32);
        if tokio::time::timeout(grace, all).await.is_err() {
            let _ = self.phase.send(Phase::Release);
            let all = self.in_flight.acquire_many(IN_FLIGHT_MAX as u32);
            let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        }
    }
}

async fn serve(context: Arc<Context>, queue: SeenQueue, mut phases: watch::Receiver<Phase>) {
    let shard = Slot::of(queue.namespace, &queue.queue, 0).shard();
    while *phases.borrow() == Phase::Work {
        let claim = Claim {
            holder: Holder::Node(context.node.node()),
            namespace: queue.namespace,
            queues: vec![queue.queue.clone()],
            kinds: Some(vec![Text::from("http")]),
            max: CLAIM_BATCH,
            lease: LEASE,
            request: context.node.request(),
            wait_until: context.node.now().plus(CLAIM_WAIT),
        };
        let wait = CLAIM_WAIT.plus(CLAIM_MARGIN);
        let answer = tokio::select! {
            answer = context.node.call_for(shard, Command::Claim(claim), wait) => answer,
            _ = phases.wait_for(|phase| *phase != Phase::Work) => return,
        };
        match answer {
            Answer::Claimed(leases) => begin(&context, leases, &phases).await,
            _ => tokio::time::sleep(CLAIM_AGAIN).await,
        }
    }
}

async fn begin(context: &Arc<Context>, leases: Vec<Leased>, phases: &watch::Receiver<Phase>) {
    if leases.is_empty() {
        return;
    }
    let wanted = leases.iter().map(|leased| (leased.run, leased.version)).collect();
    let Ok(specs) = context.node.specs(wanted).await else {
        for leased in leases {
            attempt::settle(context, &leased, End::Released).await;
        }
        return tokio::time::sleep(CLAIM_AGAIN).await;
    };
    for (leased, spec) in leases.into_iter().zip(specs) {
        let Ok(permit) = context.in_flight.clone().acquire_owned().await else { return };
        let (context, phases) = (context.clone(), phases.clone());
        context.clone().tasks.start(async move {
            attempt::run(context, leased, spec, phases).await;
            drop(permit);
        });
    }
}

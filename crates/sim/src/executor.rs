//! Executors inside nodes: they claim webhooks, send them to endpoints and settle. They die with
//! their node; a request that is on the wire still arrives.

use crate::event::{Asked, Asker, Happens};
use crate::workload::{NAMESPACES, queues};
use crate::world::World;
use model::row::Holder;
use model::{NodeId, RunId, Span, Text, Token};
use shard::command::{Answer, Claim, Command, End, Leased};

const SETTLE_TRIES: u8 = 8;
/// How long an executor may send a webhook; it sends no heartbeats.
pub(crate) const LEASE: Span = Span::from_secs(5);

impl World {
    pub(crate) fn execute(&mut self, node: usize, boot: u64, shard: u16) {
        if self.nodes[node].boot != boot || self.nodes[node].host.is_none() {
            return;
        }
        if self.has_left(node, shard) {
            return;
        }
        let request = self.last_command;
        let longest = if self.healed { 400 } else { 900 };
        let wait = Span::from_millis(self.rng.range(50, if self.healed { 60 } else { 900 }));
        let claim = Claim {
            holder: Holder::Node(NodeId { node: node as u32 + 1, boot }),
            namespace: NAMESPACES[self.rng.below(NAMESPACES.len() as u64) as usize],
            queues: queues(shard),
            kinds: Some(vec![Text::from("http")]),
            max: if self.healed { 50 } else { 1 + self.rng.below(6) as usize },
            lease: LEASE,
            request,
            wait_until: self.now.plus(wait),
            reserve: request.is_multiple_of(2),
        };
        let what = Asked::Claim { request };
        let asker = Asker::Executor { node, boot, what };
        self.ask(asker, shard, Command::Claim(claim), Some(node));
        let every = Span::from_millis(self.rng.range(80, longest));
        self.after(every, Happens::Execute { node, boot, shard });
    }

    pub(crate) fn executor_hears(&mut self, node: usize, boot: u64, what: Asked, answer: Answer) {
        let alive = self.nodes[node].boot == boot && self.nodes[node].host.is_some();
        match (what, answer) {
            (Asked::Claim { request }, Answer::Claimed(leases)) if alive => {
                for leased in leases {
                    let entry = (leased.token, false);
                    self.nodes[node].webhooks.insert(leased.run, entry);
                    let latency = self.latency();
                    let arrives = Happens::WebhookArrives { node, boot, leased, request };
                    self.after(latency, arrives);
                }
            }
            (Asked::Settle { run, token, seen, .. }, Answer::Settled(answers)) => {
                if let Some((_, answer)) = answers.first() {
                    self.heard_settle(seen, *answer);
                }
                // A run that was given back may have come again already, in the same commit: that attempt is
                // under way (seed 5000326).
                let webhooks = &mut self.nodes[node].webhooks;
                if webhooks.get(&run).is_some_and(|(under_way, _)| *under_way == token) {
                    webhooks.remove(&run);
                }
            }
            (settle @ Asked::Settle { .. }, _) if alive => {
                self.executor_gives_up(node, boot, settle);
            }
            _ => {}
        }
    }

    pub(crate) fn executor_gives_up(&mut self, node: usize, boot: u64, what: Asked) {
        if let Asked::Settle { run, token, end, tries, .. } = what
            && tries < SETTLE_TRIES
            && self.nodes[node].boot == boot
        {
            let tries = tries + 1;
            let again = Happens::WebhookEnds { node, boot, run, token, end, tries };
            let wait = Span::from_millis(self.rng.range(50, 900));
            self.after(wait, again);
        }
    }

    pub(crate) fn webhook_arrives(&mut self, node: usize, boot: u64, leased: Leased, request: u64) {
        let holder = Holder::Node(NodeId { node: node as u32 + 1, boot });
        self.log_start(leased, holder, request);
        let end = self.draw_end();
        let longest = if self.rng.per_mille(100) { 6_000 } else { 300 };
        let span = Span::from_millis(self.rng.range(1, longest));
        let (run, token) = (leased.run, leased.token);
        self.after(span, Happens::WebhookEnds { node, boot, run, token, end, tries: 0 });
    }

    pub(crate) fn webhook_ends(
        &mut self,
        node: usize,
        boot: u64,
        run: RunId,
        token: Token,
        end: End,
        tries: u8,
    ) {
        if self.nodes[node].boot != boot || self.nodes[node].host.is_none() {
            return;
        }
        let stopped = self.nodes[node].webhooks.get(&run) == Some(&(token, true));
        let end = if stopped && tries == 0 {
            End::Failed {
                error: Text::from("stopped"),
                code: None,
                retryable: true,
                retry_after: None,
            }
        } else {
            end
        };
        let (seen, command) = self.log_settle(run, token, &end);
        let what = Asked::Settle { run, token, end, seen, tries };
        let asker = Asker::Executor { node, boot, what };
        self.ask(asker, run.job.shard().0, command, Some(node));
    }
}

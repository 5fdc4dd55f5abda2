//! What a seed's world is like. Options are drawn swarm-wise: each fault is in some worlds and
//! absent from others, so that one fault does not always hide what another would show.

use crate::rng::Rng;
use model::Span;
use shard::limits::Sizes;

#[derive(Clone, Debug)]
pub struct Options {
    pub nodes: u32,
    pub shards: u16,
    pub workers: usize,
    pub steps: u64,
    pub sizes: Sizes,
    /// Chances, in a thousand, per fault step.
    pub kill: u64,
    pub freeze: u64,
    pub partition: u64,
    pub stall: u64,
    /// Stalls last longer than a node's lease.
    pub long_stall: bool,
    pub outage: u64,
    /// Nodes are told to stop and come back.
    pub leave: u64,
    /// Nothing goes wrong but that.
    pub orderly: bool,
    pub wild_clock: u64,
    pub full: u64,
    pub read_only: u64,
    pub tail_loss: u64,
    /// Chances, in a thousand, per store call.
    pub unknown_before: u64,
    pub unknown_after: u64,
    pub refuse: u64,
    /// Chances, in a thousand, per message.
    pub drop: u64,
    pub repeat: u64,
    pub slow: u64,
    /// Chance, in a thousand, that a claimer hangs up before it hears.
    pub hang_up: u64,
    pub drift_ppm: i64,
    pub poison: bool,
    pub worker_dies: u64,
    pub worker_freezes: u64,
    pub worker_fails: u64,
    pub recurring: u64,
    pub keyed: u64,
    pub batch: i64,
    /// A herd: many runs of one namespace at one instant.
    pub herd: u64,
    pub fault_every: Span,
    pub client_every: Span,
    /// Nodes hear the store and act a moment later, as real ones do.
    pub acts_later: bool,
}

impl Options {
    pub fn draw(rng: &mut Rng, steps: u64) -> Options {
        // Each fault is absent from half of all worlds.
        let mut some = |chance: u64| if rng.per_mille(500) { 0 } else { 1 + rng.below(chance) };
        let (kill, freeze, partition, stall) = (some(200), some(150), some(150), some(100));
        let (outage, wild_clock, full, read_only) = (some(40), some(60), some(60), some(40));
        let (unknown_before, unknown_after, refuse) = (some(30), some(30), some(30));
        let (drop, repeat, slow) = (some(60), some(40), some(60));
        let (worker_dies, worker_freezes, worker_fails) = (some(30), some(30), some(300));
        let calm = rng.per_mille(80);
        let quiet = |chance| if calm { 0 } else { chance };
        let mut options = Options {
            nodes: 1 + rng.below(3) as u32,
            shards: 1 + rng.below(3) as u16,
            workers: 1 + rng.below(4) as usize,
            steps,
            sizes: Sizes {
                page: rng.range(2, 24) as usize,
                timer_max: rng.range(16, 400) as usize,
                sparse: 0,
                flow_front: rng.range(6, 60) as usize,
                flow_low: rng.range(1, 5) as usize,
                slice: rng.range(2, 40) as usize,
                batch_changes: rng.range(8, 300) as usize,
                tokens: if rng.per_mille(200) { rng.range(20, 400) as u32 } else { u32::MAX / 2 },
                versions: 2,
                ..Sizes::default()
            },
            kill: quiet(kill),
            freeze: quiet(freeze),
            partition: quiet(partition),
            stall: quiet(stall),
            long_stall: rng.per_mille(500),
            outage: quiet(outage),
            leave: 0,
            orderly: calm,
            wild_clock: quiet(wild_clock),
            full: quiet(full),
            read_only: quiet(read_only),
            tail_loss: if rng.per_mille(60) { quiet(1 + rng.below(60)) } else { 0 },
            unknown_before: quiet(unknown_before),
            unknown_after: quiet(unknown_after),
            refuse: quiet(refuse),
            drop: quiet(drop),
            repeat: quiet(repeat),
            slow: quiet(slow),
            hang_up: 0,
            drift_ppm: if rng.per_mille(500) { 0 } else { rng.range(-900, 900) },
            poison: rng.per_mille(150),
            worker_dies: quiet(worker_dies),
            worker_freezes: quiet(worker_freezes),
            worker_fails,
            recurring: rng.below(600),
            keyed: rng.below(700),
            batch: rng.range(1, 6),
            herd: if rng.per_mille(300) { 10 } else { 0 },
            fault_every: Span::from_millis(rng.range(200, 3_000)),
            client_every: Span::from_millis(rng.range(20, 150)),
            acts_later: false,
        };
        // Promises that last long meet more of what can happen meanwhile.
        let page = options.sizes.page;
        options.sizes.reserve = Span::from_millis([1, 30, 150][page % 3]);
        options.sizes.herd = [4, 256][page % 2];
        options.acts_later = page % 4 == 1;
        let stalls = rng.per_mille(40);
        if stalls {
            options.only_stalls(rng);
        }
        if rng.per_mille(500) {
            options.hang_up = 1 + rng.below(200);
        }
        // Drawn last: worlds without it are what they were before it was known.
        if rng.per_mille(500) && !stalls {
            options.leave = 1 + rng.below(150);
        }
        if rng.per_mille(200) {
            options.sizes.sparse = rng.range(2, 60) as usize;
        }
        options
    }

    /// A store that stalls, calls that are slow, answers that are lost, and nothing else: only there
    /// can it be said for certain that no shard may change its owner.
    fn only_stalls(&mut self, rng: &mut Rng) {
        self.nodes = 2 + rng.below(2) as u32;
        (self.stall, self.long_stall) = (300, true);
        (self.kill, self.freeze, self.partition, self.outage) = (0, 0, 0, 0);
        (self.wild_clock, self.read_only, self.tail_loss) = (0, 0, 0);
        (self.unknown_before, self.unknown_after, self.refuse) = (0, 0, 0);
    }
}

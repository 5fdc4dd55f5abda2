//! Quotas of fires in every second world with limits, and in every second of those for API keys as well: what
//! they put off must come all the same, once, as the run of its instant, or the checker finds an instant
//! without a verdict.

use crate::limited::LIMITED;
use crate::rng::Rng;
use crate::workload::NAMESPACES;
use model::{JobId, KeyId, Rate, Span};
use shard::{Allowed, Quotas};

/// What namespaces may fire on each node. Their chances come from a source of their own, so that worlds
/// without them are what they were.
#[derive(Debug)]
pub struct Fires {
    of_nodes: Vec<Quotas>,
    rng: Rng,
    /// Of API keys, in every second world with quotas.
    keys: Option<Rng>,
}

/// Keys that have quotas where worlds have keys.
const KEYS: [KeyId; 2] = [KeyId::from_bits(1), KeyId::from_bits(2)];

/// The key that a job was made with, in worlds with keys: by its id, so that nothing else changes.
pub fn key_of(seed: u64, job: JobId) -> Option<KeyId> {
    let has = seed >= LIMITED && seed % 4 == 3;
    let place = model::hash::mix(job.bits().1) % 3;
    KEYS.get(place as usize).copied().filter(|_| has)
}

impl Fires {
    pub fn new(seed: u64, nodes: u32) -> Option<Fires> {
        let has = seed >= LIMITED && seed % 2 == 1;
        let of_nodes = (0..nodes).map(|_| Quotas::default()).collect();
        let keys = (seed % 4 == 3).then(|| Rng::new(!seed ^ 0x6e75));
        let mut fires = Fires { of_nodes, rng: Rng::new(!seed), keys };
        fires.draw();
        has.then_some(fires)
    }

    pub fn of(&self, node: usize) -> Quotas {
        self.of_nodes.get(node).cloned().unwrap_or_default()
    }

    /// Somebody sets other quotas, or runs pile up, or there is room again.
    pub fn draw(&mut self) {
        let per = Span::from_secs(60);
        let told = NAMESPACES.map(|namespace| {
            let (starts, burst) = (self.rng.range(10, 120) as u32, self.rng.range(1, 5) as u32);
            let fires = self.rng.per_mille(800).then_some(Rate { starts, per, burst });
            (namespace, Allowed { fires, crowded: self.rng.per_mille(200) })
        });
        self.of_nodes.iter().for_each(|quotas| quotas.set(&told, Allowed::default()));
        let Some(rng) = &mut self.keys else { return };
        let told = KEYS.map(|key| {
            let rate = Rate { starts: rng.range(5, 60) as u32, per, burst: rng.range(1, 3) as u32 };
            let fires = rng.per_mille(800).then_some(rate);
            (key, Allowed { fires, crowded: rng.per_mille(200) })
        });
        self.of_nodes.iter().for_each(|quotas| quotas.set_keys(&told));
    }

    pub fn lift(&self) {
        let free = NAMESPACES.map(|namespace| (namespace, Allowed::default()));
        let keys = KEYS.map(|key| (key, Allowed::default()));
        for quotas in &self.of_nodes {
            quotas.set(&free, Allowed::default());
            quotas.set_keys(&keys);
        }
    }
}

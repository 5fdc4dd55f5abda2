//! Submissions under way, by namespace: one holds at most as many of the places for calls as it leaves free,
//! so that one that floods leaves room for the others.

use model::Namespace;
use shard::command::Command;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Tenants(Mutex<BTreeMap<Namespace, usize>>);

/// Counted until it is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    tenants: &'a Tenants,
    of: Option<Namespace>,
}

impl Tenants {
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<Namespace, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a command in, while so many places are free. Only submissions are counted.
    pub fn enter(&self, command: &Command, free: usize) -> Option<Inside<'_>> {
        let of = match command {
            Command::Submit(jobs) => jobs.first().map(|job| job.spec.namespace),
            _ => None,
        };
        if let Some(namespace) = of {
            let mut under_way = self.under_way();
            let own = under_way.entry(namespace).or_default();
            if *own > free {
                return None;
            }
            *own += 1;
        }
        Some(Inside { tenants: self, of })
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let Some(namespace) = self.of else { return };
        let mut under_way = self.tenants.under_way();
        if let Some(own) = under_way.get_mut(&namespace) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                under_way.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Slot;
    use model::{JobId, Spec, Time};
    use shard::command::NewJob;
    use std::sync::Arc;

    fn submit(namespace: u32) -> Command {
        let spec = Spec {
            namespace: Namespace(namespace),
            ..(*store::conformance::sample::spec(b"x")).clone()
        };
        let id = JobId::mint(Time::from_secs(1), Slot::from_bits(0), 1);
        Command::Submit(vec![NewJob { id, spec: Arc::new(spec), key: None, paused: false }])
    }

    #[test]
    fn one_holds_no_more_than_it_leaves_free_and_gives_it_back() {
        const PLACES: usize = 10;
        let tenants = Tenants::default();
        let mut inside = Vec::new();
        while let Some(one) = tenants.enter(&submit(7), PLACES - inside.len()) {
            inside.push(one);
            assert!(inside.len() < PLACES, "it took everything");
        }
        let others = tenants.enter(&submit(8), PLACES - inside.len());
        assert!(others.is_some(), "there is room for another");
        assert!(tenants.enter(&Command::Submit(Vec::new()), 0).is_some(), "nothing is counted");
        inside.clear();
        drop(others);
        assert!(tenants.under_way().is_empty());
    }
}

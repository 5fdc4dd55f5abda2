//! Tells the core what recurring jobs may do: this node's part of the fires that a namespace may have, and
//! whether so many of its runs wait that no more should be made. The core says whose fires were asked for;
//! only those are looked at, so that a thousand namespaces that rest cost nothing.

use crate::Api;
use crate::limits::{FIRES_LOOK_EVERY, FIRES_LOOKED_AT};
use crate::quota::{EVERYBODY, Submitter};
use crate::tenant::{Caller, Tenant};
use model::{Namespace, Rate};
use shard::Allowed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// This node's part of a rate: the same number in a longer time.
fn share(rate: Rate, nodes: usize) -> Rate {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
    Rate { per: rate.per.times(i64::from(nodes)), burst: (rate.burst / nodes).max(1), ..rate }
}

/// For the life of the process; ends at once where no quota is about it.
pub async fn follow(api: Arc<Api>) {
    let given = api.quotas.given();
    if given.values().all(|quota| quota.fires.is_none() && quota.waiting.is_none()) {
        return;
    }
    let named: Vec<String> = given.keys().filter(|name| *name != EVERYBODY).cloned().collect();
    // Namespaces that were found full: they are looked at until they are not.
    let mut crowded = BTreeSet::new();
    loop {
        let mut asked = api.node.quotas().take_asked();
        asked.extend(&crowded);
        for name in &named {
            // One that nobody has used yet is found when it is.
            if let Ok(Some(found)) = api.namespaces.find(name).await {
                asked.insert(found);
            }
        }
        tell(&api, &asked, &mut crowded).await;
        tokio::select! {
            () = tokio::time::sleep(FIRES_LOOK_EVERY) => {}
            () = api.node.events().closed() => return,
        }
    }
}

async fn tell(api: &Api, asked: &BTreeSet<Namespace>, crowded: &mut BTreeSet<Namespace>) {
    let nodes = api.node.view().alive().count();
    let part = |rate: Option<Rate>| rate.map(|rate| share(rate, nodes));
    let others = Allowed { fires: part(api.quotas.of(EVERYBODY).fires), crowded: false };
    let mut told = Vec::new();
    for namespace in asked.iter().take(FIRES_LOOKED_AT) {
        let Ok(name) = api.namespaces.name(*namespace).await else { continue };
        let fires = part(api.quotas.of(&name).fires);
        let one = Submitter { tenant: Tenant(*namespace), name, caller: Caller(None) };
        let full = one.is_crowded(api).await;
        if full {
            crowded.insert(*namespace);
        } else {
            crowded.remove(namespace);
        }
        told.push((*namespace, Allowed { fires, crowded: full }));
    }
    api.node.quotas().set(&told, others);
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Span;

    #[test]
    fn a_part_is_the_same_number_in_a_longer_time() {
        let rate = Rate { starts: 100, per: Span::from_secs(60), burst: 100 };
        let third = share(rate, 3);
        assert_eq!((third.starts, third.per, third.burst), (100, Span::from_secs(180), 33));
        assert_eq!(share(rate, 0), rate);
        assert_eq!(share(Rate { burst: 1, ..rate }, 3).burst, 1);
    }
}

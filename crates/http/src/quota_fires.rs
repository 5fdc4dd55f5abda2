//! Tells the core what recurring jobs may do: this node's part of the fires that a namespace, and what was
//! made with an API key, may have, and whether so many runs wait that no more should be made. The core
//! says whose fires were asked for; only those are counted, so that a thousand that rest cost nothing.

use crate::Api;
use crate::key_quota::KeyQuota;
use crate::limits::{FIRES_LOOK_EVERY, FIRES_LOOKED_AT};
use crate::quota::EVERYBODY;
use crate::quota_counts::{Bound, Of, is_crowded};
use model::{KeyId, Namespace, Rate};
use shard::Allowed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// This node's part of a rate: the same number in a longer time.
pub(crate) fn share(rate: Rate, nodes: usize) -> Rate {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
    Rate { per: rate.per.times(i64::from(nodes)), burst: (rate.burst / nodes).max(1), ..rate }
}

/// For the life of the process: keys with quotas may come at any time.
pub async fn follow(api: Arc<Api>) {
    let given = api.quotas.given();
    let namespaces = given.values().any(|quota| quota.fires.is_some() || quota.waiting.is_some());
    let named: Vec<String> = given.keys().filter(|name| *name != EVERYBODY).cloned().collect();
    // Those that were found full: they are looked at until they are not.
    let (mut crowded, mut crowded_keys) = (BTreeSet::new(), BTreeSet::new());
    // After a restart nobody was asked for yet, and some may be full: all keys are looked at once.
    let mut unseen: BTreeSet<KeyId> = quotas_of_keys(&api).map(|(key, _)| key).collect();
    loop {
        let mut asked = api.node.quotas().take_asked();
        if namespaces {
            asked.extend(&crowded);
            for name in &named {
                // One that nobody has used yet is found when it is.
                if let Ok(Some(found)) = api.namespaces.find(name).await {
                    asked.insert(found);
                }
            }
            tell(&api, &asked, &mut crowded).await;
        }
        let mut asked = api.node.quotas().take_keys_asked();
        asked.extend(&crowded_keys);
        asked.append(&mut unseen);
        if api.ring.counts() {
            unseen = tell_keys(&api, asked, &mut crowded_keys).await;
        }
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
        let quota = api.quotas.of(&name);
        let of = Of::Namespace(*namespace);
        let full = is_crowded(api, &Bound { of, waiting: quota.waiting, jobs: quota.jobs }).await;
        if full {
            crowded.insert(*namespace);
        } else {
            crowded.remove(namespace);
        }
        told.push((*namespace, Allowed { fires: part(quota.fires), crowded: full }));
    }
    api.node.quotas().set(&told, others);
}

/// Keys that count, revoked ones as well: their jobs go on.
fn quotas_of_keys(api: &Api) -> impl Iterator<Item = (KeyId, KeyQuota)> {
    let all = api.ring.all();
    let each: Vec<_> =
        all.values().filter_map(|key| Some((key.counted_id()?, key.quota))).collect();
    each.into_iter()
}

/// All keys are told of, and of those that were asked for what waits is counted, of some in each pass;
/// the others are answered.
async fn tell_keys(
    api: &Api,
    mut asked: BTreeSet<KeyId>,
    crowded: &mut BTreeSet<KeyId>,
) -> BTreeSet<KeyId> {
    let nodes = api.node.view().alive().count();
    let (mut told, mut looked) = (Vec::new(), 0);
    for (key, quota) in quotas_of_keys(api) {
        if looked < FIRES_LOOKED_AT && asked.remove(&key) {
            looked += 1;
            let of = Of::Key(key);
            match is_crowded(api, &Bound { of, waiting: quota.waiting, jobs: quota.jobs }).await {
                true => crowded.insert(key),
                false => crowded.remove(&key),
            };
        }
        let fires = quota.fires().map(|rate| share(rate, nodes));
        told.push((key, Allowed { fires, crowded: crowded.contains(&key) }));
    }
    api.node.quotas().set_keys(&told);
    asked
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

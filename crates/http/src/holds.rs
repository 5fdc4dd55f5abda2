//! What is held. A hold of everything, or of a namespace, stands in every shard, a hold of a queue in the
//! queue's: all of them are looked at in one read, so that a hold that only some shards have heard of is seen.

use crate::limits::{HOLDS_NAMESPACES, HOLDS_SHOWN};
use crate::refusal::{Answered, Refusal};
use crate::run_read::time;
use crate::tenant::Tenant;
use crate::{Api, DEFAULT, Shared};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use model::id::SHARDS;
use model::read::{Page, Read};
use model::row::{HoldRow, Scope};
use model::{Namespace, ShardId};
use node::namespaces::Namespaces;
use std::collections::BTreeMap;
use wire::answer::{Hold, HoldScope, Holds};

/// A hold, and how many shards have it.
type Found = BTreeMap<Scope, (HoldRow, u16)>;

pub async fn list(State(api): Shared, Tenant(namespace): Tenant) -> Answered {
    let found = read(&api, namespace).await?;
    let (all, names) = (found.len(), names(&api, &found).await?);
    let items = found.into_iter().take(HOLDS_SHOWN);
    let items: Vec<_> = items.filter_map(|(scope, hold)| shown(scope, hold, &names)).collect();
    let complete = items.len() == all;
    Ok(Json(Holds { items, complete }).into_response())
}

async fn read(api: &Api, namespace: Namespace) -> Result<Found, Refusal> {
    let reads = (0..SHARDS).map(|shard| (ShardId(shard), Read::Holds)).collect();
    let mut found = Found::new();
    for page in api.node.read_each(reads).await? {
        let Page::Holds(holds) = page else { continue };
        for (scope, hold) in holds {
            if concerns(namespace, &scope) {
                found.entry(scope).or_insert((hold, 0)).1 += 1;
            }
        }
    }
    Ok(found)
}

/// Whoever may release it sees it, and whoever is stopped by it.
fn concerns(namespace: Namespace, scope: &Scope) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespace(of) => *of == namespace || namespace == DEFAULT,
        Scope::Queue(of, _) => *of == namespace,
    }
}

/// Names of the namespaces that are held; nobody is asked where none is.
async fn names(api: &Api, found: &Found) -> Result<BTreeMap<Namespace, String>, Refusal> {
    let held = |scope: &Scope| matches!(scope, Scope::Namespace(of) if *of != DEFAULT);
    let mut names = BTreeMap::from([(DEFAULT, node::namespaces::DEFAULT_NAME.to_string())]);
    if found.keys().any(held) {
        let listed = Namespaces::new(api.node.clone()).list(HOLDS_NAMESPACES).await?;
        names.extend(listed.into_iter().map(|(name, number)| (number, name.to_string())));
    }
    Ok(names)
}

fn shown(
    scope: Scope,
    (hold, shards): (HoldRow, u16),
    names: &BTreeMap<Namespace, String>,
) -> Option<Hold> {
    let (scope, needed) = match scope {
        Scope::All => (HoldScope::All, SHARDS),
        // One whose name was not among those that were looked up is left out, and the answer is not complete.
        Scope::Namespace(of) => (HoldScope::Namespace(names.get(&of)?.clone()), SHARDS),
        Scope::Queue(_, queue) => (HoldScope::Queue(queue.to_string()), 1),
    };
    let (reason, until) = (hold.reason.to_string(), hold.until.map(time));
    Some(Hold { scope, reason, until, everywhere: shards >= needed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Text;

    #[test]
    fn a_hold_that_some_shards_did_not_hear_of_is_not_everywhere() {
        let names = BTreeMap::from([(Namespace(3), "team".to_string())]);
        let row = || HoldRow { reason: Text::from("r"), until: None };
        let everywhere = |scope: Scope, shards| {
            shown(scope, (row(), shards), &names).map(|hold| hold.everywhere)
        };
        assert_eq!(everywhere(Scope::All, SHARDS), Some(true));
        assert_eq!(everywhere(Scope::All, SHARDS - 1), Some(false));
        assert_eq!(everywhere(Scope::Namespace(Namespace(3)), 1), Some(false));
        assert_eq!(everywhere(Scope::Queue(Namespace(3), Text::from("q")), 1), Some(true));
        assert_eq!(everywhere(Scope::Namespace(Namespace(4)), SHARDS), None, "it has no name");
    }
}

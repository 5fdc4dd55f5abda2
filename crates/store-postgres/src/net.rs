//! Several changes of one row as one: the first's expectation, the last's row. The steps between
//! are checked here, because the store never sees them.

use model::Spec;
use model::row::{Change, Expect, Key, Row};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Net<'a> {
    pub key: &'a Key,
    pub expect: Expect,
    pub row: Option<&'a Row>,
    /// A run's body; none leaves what is stored.
    pub body: Option<&'a Arc<Spec>>,
}

impl<'a> Net<'a> {
    pub fn of(change: &'a Change) -> Net<'a> {
        let row = change.row.as_ref();
        Net { key: &change.key, expect: change.expect, row, body: body(row) }
    }

    /// This, and then that; none where that does not find what this leaves, or where one change
    /// cannot say both.
    fn then(&self, change: &'a Change) -> Option<Net<'a>> {
        let finds = match (self.row, change.expect) {
            (None, Expect::Absent) => true,
            (Some(row), Expect::Rev(rev)) => row.rev() == rev,
            _ => false,
        };
        // Removed and made anew: an update would keep the body of what is gone.
        let made_anew =
            self.row.is_none() && change.row.is_some() && matches!(self.expect, Expect::Rev(_));
        if !finds || made_anew {
            return None;
        }
        let row = change.row.as_ref();
        let kept = if row.is_some() { self.body } else { None };
        Some(Net { key: self.key, expect: self.expect, row, body: body(row).or(kept) })
    }
}

fn body(row: Option<&Row>) -> Option<&Arc<Spec>> {
    match row {
        Some(Row::Run(row)) => row.body.as_ref(),
        _ => None,
    }
}

/// One change per row, or none if they cannot be merged or do not fit each other.
pub(crate) fn net(changes: &[Change]) -> Option<Vec<Net<'_>>> {
    let mut places: BTreeMap<&Key, usize> = BTreeMap::new();
    let mut nets: Vec<Net<'_>> = Vec::with_capacity(changes.len());
    for change in changes {
        if !store::fits(change) {
            return None;
        }
        match places.get(&change.key) {
            Some(at) => nets[*at] = nets[*at].then(change)?,
            None => {
                places.insert(&change.key, nets.len());
                nets.push(Net::of(change));
            }
        }
    }
    Some(nets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::ShardId;
    use model::{RunState, Time};
    use store::conformance::desk::{insert_run, remove, update_run};
    use store::conformance::sample::{one_off, run, spec};

    #[test]
    fn chains_become_one_change() {
        let mut one = run(one_off(ShardId(3), 1), RunState::Ready, Time::from_secs(9));
        one.body = Some(spec(b"kept"));
        let mut two = one.clone();
        (two.rev, two.body) = (2, None);
        let key = Key::Run(one.id);
        let changes = [insert_run(&one), update_run(&two, 1)];
        let merged = net(&changes).expect("they fit");
        assert_eq!((merged.len(), merged[0].expect), (1, Expect::Absent));
        assert_eq!(merged[0].row.map(Row::rev), Some(2));
        assert_eq!(merged[0].body, one.body.as_ref(), "the body came with the first");
        let gone = [insert_run(&one), remove(key.clone(), 1)];
        assert!(net(&gone).expect("they fit")[0].row.is_none());
        let again = [insert_run(&one), remove(key.clone(), 1), insert_run(&two)];
        assert_eq!(net(&again).expect("they fit")[0].body, None, "the first body is gone");
        assert!(net(&[insert_run(&one), update_run(&two, 7)]).is_none(), "another revision");
        assert!(net(&[insert_run(&one), insert_run(&one)]).is_none(), "twice");
        assert!(net(&[remove(key, 1), insert_run(&one)]).is_none(), "made anew");
    }
}

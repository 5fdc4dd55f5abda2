//! What three nodes with nothing to do ask of their database: to keep their leases, and little else.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::cluster::{Cluster, until};

/// In this time what starting leaves to be done is done: shards are loaded, and what nodes remember of the
/// catalog is looked at once more.
const FIRST_RENEWALS: u64 = 10;
const RENEWALS: u64 = 20;
/// A look at the wheel's next minutes, and one each at what nodes remember of the catalog.
const OTHERS: u64 = 5;

#[test]
fn an_idle_node_asks_for_little_more_than_its_renewals() {
    let cluster = Cluster::start();
    let counts = |n: usize| {
        let node = cluster.node(n);
        // In this order: a renewal between the two is a transaction more, never one less.
        let transactions = node.metric("duly_store_transactions_total");
        (node.metric("duly_lease_renewals_total"), transactions)
    };
    let renewed = |times: u64| {
        let before: Vec<(u64, u64)> = (0..3).map(counts).collect();
        until("each has renewed its lease so often", || {
            (0..3).all(|n| counts(n).0 >= before[n].0 + times)
        });
        before
    };
    renewed(FIRST_RENEWALS);
    let before = renewed(RENEWALS);
    for (n, before) in before.iter().enumerate() {
        let after = counts(n);
        let (renewals, transactions) = (after.0 - before.0, after.1 - before.1);
        assert!(
            transactions <= renewals + OTHERS,
            "node {n}: {transactions} transactions in the time of {renewals} renewals"
        );
    }
}

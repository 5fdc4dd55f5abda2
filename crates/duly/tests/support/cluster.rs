//! Several nodes that share a database.

use super::PATIENCE;
use super::database::{Database, Node};
use std::time::{Duration, Instant};

pub struct Cluster {
    pub nodes: Vec<Node>,
    pub database: Database,
}

impl Cluster {
    /// Three nodes, each with its share of the shards.
    pub fn start() -> Cluster {
        Cluster::of(3)
    }

    pub fn of(count: u32) -> Cluster {
        let database = Database::start();
        let nodes: Vec<Node> = (1..=count).map(|number| Node::start(&database, number)).collect();
        let cluster = Cluster { nodes, database };
        cluster.settled();
        cluster
    }

    /// Every node has its share and no shard is on its way.
    pub fn settled(&self) {
        let least = 256 / self.nodes.len() as u64 / 2;
        until("all shards are spread", || {
            let counts: Vec<u64> = self.nodes.iter().map(Node::shards).collect();
            counts.iter().sum::<u64>() == 256 && counts.iter().all(|count| *count > least)
        });
    }

    pub fn each(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// In turn: whatever a job's queue, its requests fall on all nodes.
    pub fn node(&self, n: usize) -> &Node {
        &self.nodes[n % self.nodes.len()]
    }
}

/// Waits for what must come to pass.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + 2 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it did not come to pass: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! All that a store holds, in fixed order, for checkers.

use super::cluster::Shard;
use model::Time;
use model::cluster::{NodeLease, ShardRow};
use model::row::{HistoryRow, Key, Row, Starts};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    pub now: Time,
    pub incarnation: u64,
    /// Those that expired long ago may be missing.
    pub nodes: Vec<NodeLease>,
    /// By number.
    pub shards: Vec<ShardDump>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardDump {
    pub row: ShardRow,
    pub floor: Time,
    pub starts: Starts,
    /// All rows but the history, runs with their bodies.
    pub rows: BTreeMap<Key, Row>,
    /// By run, then token.
    pub history: Vec<HistoryRow>,
}

impl ShardDump {
    pub(super) fn of(shard: &Shard) -> ShardDump {
        ShardDump {
            row: shard.row(),
            floor: shard.floor,
            starts: shard.tables.starts,
            rows: shard.tables.rows().into_iter().collect(),
            history: shard.tables.history.iter().cloned().collect(),
        }
    }
}

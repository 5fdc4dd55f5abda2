//! How long does a shard's reload take, however much it holds? What an owner reads when it takes a
//! shard: leases, the next minute of the wheel, the flows and the first page of each.
//!
//!     cargo run --release -p store-postgres --example postgres_reload -- ADDRESS SHARD [rounds]
#![allow(clippy::expect_used)] // a bench: whatever goes wrong ends it

use model::cluster::{Renew, Take};
use model::read::{Page, Read};
use model::{NodeId, ShardId, Span};
use std::time::Instant;
use store::Store;
use store_postgres::PostgresStore;

const PAGE: usize = 1_024;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = args.first().expect("an address");
    let shard = ShardId(args.get(1).expect("a shard").parse().expect("a number"));
    let rounds: usize = args.get(2).map_or(11, |rounds| rounds.parse().expect("a number"));
    let store = PostgresStore::open(address).expect("it opens");
    let node = NodeId { node: 1, boot: 1 };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let cluster = store.renew(Renew { node, ttl: Span::from_secs(60) }).expect("it answers");
        let epoch = cluster.shards[usize::from(shard.0)].epoch;
        let began = Instant::now();
        let take = Take { shard, node, epoch, by: 1 };
        let taken = store.take(&[take]).expect("it answers")[0].expect("one's own");
        let due = Read::Due {
            from: taken.floor,
            before: cluster.now.plus(Span::from_secs(60)),
            after: None,
            limit: PAGE,
        };
        let reads = [
            Read::Leases { after: None, limit: PAGE },
            due,
            Read::Holds,
            Read::Flows { after: None, limit: PAGE },
        ];
        let pages = store.read(&reads.map(|read| (shard, read))).expect("it answers");
        let Some(Page::Flows(flows)) = pages.last() else { continue };
        let fronts: Vec<(ShardId, Read)> = flows
            .iter()
            .map(|flow| (shard, Read::Flow { flow: flow.clone(), after: None, limit: PAGE }))
            .collect();
        let fronts = store.read(&fronts).expect("it answers");
        let rows: usize = fronts
            .iter()
            .map(|page| if let Page::Runs(runs) = page { runs.len() } else { 0 })
            .sum();
        times.push((began.elapsed().as_secs_f64() * 1e3, flows.len(), rows));
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, flows, rows) = times[times.len() / 2];
    println!(
        "take and load, {rounds} rounds: median {median:.1} ms, least {:.1}, most {:.1}; {flows} flows, {rows} runs read",
        times[0].0,
        times[times.len() - 1].0
    );
}

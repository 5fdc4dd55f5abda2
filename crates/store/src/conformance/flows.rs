//! Ready runs, in the order in which they start.

use super::TestStore;
use super::desk::{Desk, insert_lease, insert_run, remove, update_run};
use super::sample::{self, flow, one_off, run};
use model::row::{Key, RunRow};
use model::{FlowKey, Lane, Namespace, RunId, RunState, Span, Time};

fn ids(runs: &[RunRow]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

/// All runs of a flow, in pages of `limit`.
fn paged(desk: &Desk<'_>, flow: &FlowKey, limit: usize) -> Vec<RunId> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = desk.flow(flow, after, limit);
        after = page.last().map(|run| (run.due, run.id));
        all.extend(ids(&page));
        if page.len() < limit {
            return all;
        }
    }
}

pub fn runs_come_in_due_then_id_order(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let due = |secs| now.plus(Span::from_secs(secs));
    for (n, secs) in [(1, 5), (2, 3), (3, 3), (4, -9), (5, 5)] {
        desk.commit(vec![insert_run(&run(one_off(desk.shard, n), RunState::Ready, due(secs)))]);
    }
    let expected = [4, 2, 3, 1, 5].map(|n| one_off(desk.shard, n));
    let flow = flow("default", 5, Lane::Fresh, None);
    assert_eq!(ids(&desk.flow(&flow, None, 99)), expected);
    let rest = desk.flow(&flow, Some((due(3), one_off(desk.shard, 2))), 99);
    assert_eq!(ids(&rest), expected[2..]);
    // A cursor need not name a run that is there.
    assert_eq!(ids(&desk.flow(&flow, Some((due(4), one_off(desk.shard, 9))), 1)), expected[3..4]);
    assert_eq!(desk.flow(&flow, Some((Time::MAX, one_off(desk.shard, 1))), 9), []);
}

pub fn a_flow_is_paged(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let runs: Vec<RunRow> = (0..30)
        .map(|n| {
            let due = now.plus(Span::from_secs((n * 7 % 10) as i64));
            run(one_off(desk.shard, n), RunState::Ready, due)
        })
        .collect();
    desk.commit(runs.iter().map(insert_run).collect());
    let mut expected: Vec<_> = runs.iter().map(|run| (run.due, run.id)).collect();
    expected.sort_unstable();
    let expected: Vec<RunId> = expected.into_iter().map(|(_, id)| id).collect();
    for limit in [1, 2, 7, 30, 31] {
        assert_eq!(paged(&desk, &runs[0].flow, limit), expected, "in pages of {limit}");
    }
}

pub fn equal_dues_are_paged(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let runs: Vec<RunRow> =
        (0..9).map(|n| run(one_off(desk.shard, n), RunState::Ready, now)).collect();
    desk.commit(runs.iter().map(insert_run).collect());
    for limit in [1, 2, 7] {
        assert_eq!(paged(&desk, &runs[0].flow, limit), ids(&runs), "in pages of {limit}");
    }
}

pub fn flows_are_listed_and_paged(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let mut flows = vec![
        flow("a", 0, Lane::Fresh, None),
        flow("a", 0, Lane::Fresh, Some("")),
        flow("a", 0, Lane::Fresh, Some("g")),
        flow("a", 0, Lane::Retry, None),
        flow("a", 9, Lane::Fresh, None),
        flow("b", 0, Lane::Backfill, Some("g")),
        flow("", 3, Lane::Fresh, None),
    ];
    let mut tenant = flows[0].clone();
    tenant.namespace = Namespace(u32::MAX);
    let mut kind = flows[0].clone();
    kind.kind = "http".into();
    flows.extend([tenant, kind]);
    for (n, flow) in flows.iter().enumerate() {
        // Two runs each: a flow is listed once.
        for n in [n as u64, n as u64 + 100] {
            let mut row = run(one_off(desk.shard, n), RunState::Ready, desk.now());
            row.flow = flow.clone();
            desk.commit(vec![insert_run(&row)]);
        }
    }
    flows.sort();
    for limit in [1, 2, 7, 9, 10] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = desk.flows(after, limit);
            after = page.last().cloned();
            let ended = page.len() < limit;
            all.extend(page);
            if ended {
                break;
            }
        }
        assert_eq!(all, flows, "in pages of {limit}");
    }
    for flow in &flows {
        assert_eq!(desk.flow(flow, None, 9).len(), 2, "{flow:?}");
    }
}

pub fn only_ready_runs_are_in_a_flow(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let mut row = run(one_off(desk.shard, 1), RunState::Scheduled, desk.now());
    desk.commit(vec![insert_run(&row)]);
    assert_eq!(desk.flows(None, 9), []);
    let states = [RunState::Ready, RunState::Retrying, RunState::Ready, RunState::Dead];
    for state in states {
        row.rev += 1;
        row.state = state;
        desk.commit(vec![update_run(&row, row.rev - 1)]);
        let expected = usize::from(state == RunState::Ready);
        assert_eq!(desk.flows(None, 9).len(), expected, "{state:?}");
        assert_eq!(desk.flow(&row.flow, None, 9).len(), expected, "{state:?}");
    }
    row.rev += 1;
    row.state = RunState::Ready;
    desk.commit(vec![update_run(&row, row.rev - 1)]);
    desk.commit(vec![remove(Key::Run(row.id), row.rev)]);
    assert_eq!(desk.flows(None, 9), []);
    assert_eq!(desk.flow(&row.flow, None, 9), []);
}

pub fn a_run_moves_between_flows(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let mut row = run(one_off(desk.shard, 1), RunState::Ready, now);
    desk.commit(vec![insert_run(&row)]);
    let steps = [
        (flow("default", 5, Lane::Retry, None), now),
        (flow("default", 5, Lane::Retry, None), now.plus(Span::from_secs(1))),
        (flow("default", 6, Lane::Retry, Some("g")), now),
    ];
    for (flow, due) in steps {
        row.rev += 1;
        (row.flow, row.due) = (flow, due);
        desk.commit(vec![update_run(&row, row.rev - 1)]);
        assert_eq!(desk.flows(None, 9), [row.flow.clone()]);
        assert_eq!(desk.flow(&row.flow, None, 9), [row.clone()]);
    }
}

/// The lease stands beside the run; the core skips what it knows to be claimed.
pub fn a_claimed_run_stays(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    desk.commit(vec![insert_run(&row)]);
    desk.commit(vec![insert_lease(&sample::lease(row.id, 1, desk.now()))]);
    assert_eq!(desk.flow(&row.flow, None, 9), [row.clone()]);
    desk.commit(vec![remove(Key::Lease(row.id), 1), remove(Key::Run(row.id), 1)]);
    assert_eq!(desk.flow(&row.flow, None, 9), []);
}

//! The groups of a queue that have runs waiting or running, the longest line first. Rows are counted up to a
//! bound: a page for people, and no statistic.

use crate::limits::{GROUP_FLOWS, GROUP_RUNS, READ_PAGE};
use crate::queues;
use crate::refusal::{Answered, Refusal, unexpected};
use crate::tenant::Tenant;
use crate::{Api, Shared};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use model::read::{Page, Read};
use model::{FlowKey, Lane, Namespace, RunId, ShardId, Slot, Text, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use wire::answer::{QueueGroup, QueueGroups};

#[derive(Debug, Default)]
struct Line {
    ready: usize,
    running: usize,
    oldest: Option<Time>,
}

/// By group; runs without one are in none.
type Lines = BTreeMap<Option<Text>, Line>;

pub async fn list(
    State(api): Shared,
    Tenant(namespace): Tenant,
    Path(queue): Path<String>,
) -> Answered {
    let queue = queues::known(&api, namespace, &queue).await?;
    let shard = Slot::of(namespace, &queue, 0).shard();
    let weights = queues::limits(&api, namespace, &queue).await?.map(|row| row.weights);
    let mut lines = Lines::new();
    let (held, all_running) = running(&api, shard, (namespace, &queue), &mut lines).await?;
    let all_ready = waiting(&api, shard, (namespace, &queue), &held, &mut lines).await?;
    let now = api.node.now();
    let weight = |group: &Option<Text>| {
        let named = group.as_ref().and_then(|group| weights.as_ref()?.get(group));
        named.copied().unwrap_or(1)
    };
    let mut items: Vec<QueueGroup> = lines
        .into_iter()
        .map(|(group, line)| QueueGroup {
            weight: weight(&group),
            group: group.map(|group| group.to_string()),
            ready: line.ready,
            running: line.running,
            oldest_ready_ms: line.oldest.map(|at| now.since(at).micros().max(0) / 1_000),
        })
        .collect();
    items.sort_by_key(|one| Reverse((one.ready, one.running)));
    Ok(Json(QueueGroups { items, complete: all_ready && all_running }).into_response())
}

/// Counts what is ready: a run that is held stays in its line until it ends, and does not wait. Is that all?
async fn waiting(
    api: &Api,
    shard: ShardId,
    (namespace, queue): (Namespace, &Text),
    held: &BTreeSet<RunId>,
    lines: &mut Lines,
) -> Result<bool, Refusal> {
    // Before every flow of the queue.
    let after = Some(FlowKey {
        namespace,
        queue: queue.clone(),
        kind: Text::from(""),
        priority: 0,
        lane: Lane::Fresh,
        group: None,
    });
    let Page::Flows(flows) =
        api.node.read(shard, Read::Flows { after, limit: GROUP_FLOWS }).await?
    else {
        return Err(unexpected());
    };
    let full = flows.len() >= GROUP_FLOWS;
    let own = |flow: &FlowKey| flow.namespace == namespace && flow.queue == *queue;
    // The flows of a queue stand together: if the last one is another's, none was left out.
    let mut all = !full || flows.last().is_some_and(|last| !own(last));
    let flows: Vec<FlowKey> = flows.into_iter().filter(own).collect();
    let read =
        |flow: &FlowKey| (shard, Read::Flow { flow: flow.clone(), after: None, limit: GROUP_RUNS });
    let pages = api.node.read_each(flows.iter().map(read).collect()).await?;
    for (flow, page) in flows.into_iter().zip(pages) {
        let Page::Runs(runs) = page else { return Err(unexpected()) };
        all &= runs.len() < GROUP_RUNS;
        let line = lines.entry(flow.group).or_default();
        for run in runs.iter().filter(|run| !held.contains(&run.id)) {
            line.ready += 1;
            line.oldest = Some(line.oldest.map_or(run.due, |oldest| oldest.min(run.due)));
        }
    }
    Ok(all)
}

/// Counts what runs. Which runs are these, and is that all?
async fn running(
    api: &Api,
    shard: ShardId,
    (namespace, queue): (Namespace, &Text),
    lines: &mut Lines,
) -> Result<(BTreeSet<RunId>, bool), Refusal> {
    let read = Read::Leases { after: None, limit: READ_PAGE };
    let Page::Leases(leases) = api.node.read(shard, read).await? else {
        return Err(unexpected());
    };
    let all = leases.len() < READ_PAGE;
    let mut held = BTreeSet::new();
    for (_, run) in leases {
        if run.flow.namespace == namespace && run.flow.queue == *queue {
            held.insert(run.id);
            lines.entry(run.flow.group).or_default().running += 1;
        }
    }
    Ok((held, all))
}

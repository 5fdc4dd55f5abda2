//! Does a limit of its queue keep a ready run from starting, and who holds it?

use crate::explain::reason;
use crate::limits::{HOLDERS_SHOWN, LEASES_LOOKED_AT, READ_PAGE};
use crate::refusal::Refusal;
use crate::{Api, queues};
use model::read::{Page, Read};
use model::row::RunRow;
use model::{Rate, RunId, Text};
use wire::answer::Reason;
use wire::queue::rate_text;

pub async fn limits(api: &Api, row: &RunRow) -> Result<Vec<Reason>, Refusal> {
    let flow = &row.flow;
    let Some(limits) = queues::limits(api, flow.namespace, &flow.queue).await? else {
        return Ok(Vec::new());
    };
    let (of_queue, of_group) = running(api, row).await?;
    let queue = format!("queue {}", flow.queue);
    let group = flow.group.as_ref().map(|group| format!("group {group} of {queue}"));
    let mut reasons = Vec::new();
    reasons.extend(full(&queue, limits.max_running, &of_queue, &flow.queue));
    if let Some(group) = &group {
        reasons.extend(full(group, limits.group_max_running, &of_group, &flow.queue));
    }
    reasons.extend(rated(&queue, limits.rate, &flow.queue));
    if let Some(group) = &group {
        reasons.extend(rated(group, limits.group_rate, &flow.queue));
    }
    Ok(reasons)
}

/// Runs of its queue, and of its group there, that have a lease.
async fn running(api: &Api, row: &RunRow) -> Result<(Vec<RunId>, Vec<RunId>), Refusal> {
    let (mut of_queue, mut of_group) = (Vec::new(), Vec::new());
    let (mut after, mut seen) = (None, 0);
    loop {
        let read = Read::Leases { after, limit: READ_PAGE };
        let Page::Leases(leases) = api.node.read(row.id.job.shard(), read).await? else { break };
        seen += leases.len();
        after = leases.last().map(|(lease, _)| lease.run);
        let whole = leases.len() < READ_PAGE || seen >= LEASES_LOOKED_AT;
        for (_, run) in leases {
            let same =
                (run.flow.namespace, &run.flow.queue) == (row.flow.namespace, &row.flow.queue);
            if same {
                of_queue.push(run.id);
                if run.flow.group == row.flow.group {
                    of_group.push(run.id);
                }
            }
        }
        if whole {
            break;
        }
    }
    Ok((of_queue, of_group))
}

fn full(what: &str, max: Option<u32>, running: &[RunId], queue: &Text) -> Option<Reason> {
    let max = max?;
    if running.len() < max as usize {
        return None;
    }
    let held: Vec<String> = running.iter().take(HOLDERS_SHOWN).map(ToString::to_string).collect();
    let more = match running.len().saturating_sub(held.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "The limit of {what} is full: max_running is {max}, held by {}{more}.",
        held.join(", ")
    );
    let mut one = reason("limit_full", message);
    one.queue = Some(queue.to_string());
    one.limit = Some(max);
    one.held_by = Some(held);
    Some(one)
}

fn rated(what: &str, rate: Option<Rate>, queue: &Text) -> Option<Reason> {
    let rate = rate?;
    let text = rate_text(rate.starts, rate.per.micros());
    let message = format!(
        "Starts of {what} are limited to {text}, {} at once after a pause: it may wait for that.",
        rate.burst
    );
    let mut one = reason("rate_limited", message);
    one.queue = Some(queue.to_string());
    one.rate = Some(text);
    Some(one)
}

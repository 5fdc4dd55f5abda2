//! Whose turn it is: queues, their kinds, levels and lanes, and the one function that picks.

use super::{Flow, FlowId};
use crate::limits::{LANE_SHARES, OLDEST_EVERY, OWED_MAX};
use model::{RunId, Text, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) lines: BTreeMap<Text, Line>,
    pub(super) starts: u32,
}

/// The ready runs of one kind in a queue.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) levels: [Level; 10],
    pub(super) heads: BTreeSet<(Time, RunId, FlowId)>,
    pub(super) served: u64,
}

#[derive(Debug, Default)]
pub(super) struct Level {
    /// Flows in turn. One that ran empty by another way (cancelled, taken as the oldest) is left
    /// here until its turn comes and is dropped then: looking for it would cost a scan.
    pub(super) turns: [VecDeque<FlowId>; 3],
    /// How many flows of each lane have a run.
    pub(super) ready: [u32; 3],
    pub(super) credit: [i32; 3],
}

fn accepts(kinds: Option<&[Text]>, kind: &Text) -> bool {
    match kinds {
        Some(kinds) => kinds.contains(kind),
        None => kind.starts_with("worker:"),
    }
}

/// Which flow of this queue starts next. The one place where a run is picked.
pub(super) fn choose(
    queue: &mut Queue,
    flows: &mut [Option<Flow>],
    kinds: Option<&[Text]>,
) -> Option<FlowId> {
    let mut lines: Vec<&mut Line> = queue
        .lines
        .iter_mut()
        .filter(|(kind, line)| !line.heads.is_empty() && accepts(kinds, kind))
        .map(|(_, line)| line)
        .collect();
    if lines.is_empty() {
        return None;
    }
    queue.starts = queue.starts.wrapping_add(1);
    if queue.starts.is_multiple_of(OLDEST_EVERY) {
        let oldest = lines.iter().filter_map(|line| line.heads.first()).min().map(|head| head.2)?;
        if let Some(Some(flow)) = flows.get_mut(oldest.0 as usize) {
            // Else a group that is served slowly, by its weight, would be served again for its age.
            flow.owed = (flow.owed + 1).min(OWED_MAX);
        }
        return Some(oldest);
    }
    // The highest level; between kinds with runs on that level, the one served longest ago.
    let best = lines
        .iter_mut()
        .map(|line| (line.top_level(), std::cmp::Reverse(line.served)))
        .enumerate()
        .max_by_key(|(_, rank)| *rank)
        .map(|(at, _)| at)?;
    lines[best].next_in_turn(flows)
}

impl Line {
    fn top_level(&self) -> usize {
        (0..10).rev().find(|l| self.levels[*l].ready.iter().any(|n| *n > 0)).unwrap_or(0)
    }

    /// Lanes by share (the one with the most credit goes), groups of a lane in turn.
    fn next_in_turn(&mut self, flows: &mut [Option<Flow>]) -> Option<FlowId> {
        let level = self.top_level();
        let level = &mut self.levels[level];
        let mut total = 0;
        for (lane, share) in LANE_SHARES.into_iter().enumerate() {
            if level.ready[lane] > 0 {
                level.credit[lane] += share;
                total += share;
            }
        }
        let lane = (0..3)
            .filter(|lane| level.ready[*lane] > 0)
            .max_by_key(|lane| (level.credit[*lane], std::cmp::Reverse(*lane)))?;
        level.credit[lane] -= total;
        let turns = &mut level.turns[lane];
        while let Some(id) = turns.pop_front() {
            let Some(Some(flow)) = flows.get_mut(id.0 as usize) else { continue };
            if flow.shown.is_none() {
                (flow.listed, flow.turn) = (false, 0);
                continue;
            }
            flow.turn += 1;
            let over = flow.turn >= flow.weight;
            if over {
                flow.turn = 0;
            }
            if flow.owed > 0 {
                // It had this start before its turn.
                flow.owed -= 1;
                if over {
                    turns.push_back(id)
                } else {
                    turns.push_front(id)
                }
                continue;
            }
            if over {
                // It is put back behind the others if it has a run left (`refresh`).
                flow.listed = false;
            } else {
                turns.push_front(id);
            }
            return Some(id);
        }
        None
    }
}

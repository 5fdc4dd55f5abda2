//! The part of a flow that is on disk: when its next page is wanted, and what a page brings.

use super::{FlowId, Flows, PageUnderWay, WantedPage};
use crate::entry::Entry;
use crate::limits::{PAGE_SCARCE, PAGES_MAX, READY_MAX, Sizes};
use model::{FlowKey, RunId, Time};

impl Flows {
    /// Flows whose front is running out while more is on disk; each is asked for once. While
    /// memory is scarce a flow gets only a few runs at a time, so that all flows have some.
    pub fn wanted_pages(&mut self) -> Vec<WantedPage> {
        let mut wanted = Vec::new();
        while self.pages < PAGES_MAX
            && let Some(id) = self.low.pop_first()
        {
            let Sizes { page, flow_low, .. } = self.sizes;
            let scarce = self.resident + (self.pages + 1) * page > READY_MAX / 2;
            let (low, limit) = if scarce { (1, PAGE_SCARCE) } else { (flow_low, page) };
            let Some(Some(flow)) = self.flows.get_mut(id.0 as usize) else { continue };
            if flow.more && flow.page.is_none() && flow.front.len() < low {
                flow.page = Some(PageUnderWay::default());
                self.pages += 1;
                let (key, after) = (flow.key.clone(), flow.cursor);
                wanted.push(WantedPage { flow: id, key, after, limit });
            }
        }
        wanted
    }

    /// Before this no run of any flow is due, in memory or on disk; inside none: there is none at all.
    /// None if that is not known, because a flow has not been looked at.
    pub fn first_due(&self) -> Option<Option<Time>> {
        let mut first: Option<Time> = None;
        for flow in self.flows.iter().flatten() {
            let due = match (flow.front.front(), flow.more, flow.cursor) {
                (Some(entry), ..) => entry.due,
                (None, true, Some((due, _))) => due,
                (None, true, None) => return None,
                (None, false, _) => continue,
            };
            first = Some(first.map_or(due, |first| first.min(due)));
        }
        Some(first)
    }

    /// The store has ready runs of this flow that are not in memory (found at load).
    pub fn found(&mut self, key: &FlowKey) {
        let id = self.id(key);
        let flow = self.flow_mut(id);
        if flow.front.is_empty() {
            flow.more = true;
        }
        self.note_low(id);
    }

    /// A page arrived: `rows` in order, without those that were touched since it was asked for.
    /// `complete` says that nothing lies behind it on disk; `places` are those of all the page's
    /// rows, touched or not.
    pub fn merge(
        &mut self,
        id: FlowId,
        rows: Vec<Entry>,
        places: Vec<(Time, RunId)>,
        complete: bool,
        forget_arrivals: bool,
    ) {
        let flow = self.flow_mut(id);
        let Some(page) = flow.page.take() else { return };
        self.pages -= 1;
        let flow = self.flow_mut(id);
        let queue = (flow.key.namespace, flow.key.queue.clone());
        let fits = |place| page.overflow.is_none_or(|first| place < first);
        flow.cursor = match page.overflow {
            // The last of the page that lies before what did not fit.
            Some(_) => places.into_iter().rev().find(|place| fits(*place)).or(flow.cursor),
            None => places.last().copied().or(flow.cursor),
        };
        flow.more = !complete || page.overflow.is_some();
        let cursor = flow.cursor;
        let more = flow.more;
        for entry in rows {
            if fits(entry.place()) {
                self.insert(entry);
            }
        }
        if !forget_arrivals {
            for entry in page.arrived {
                // Behind the page's end it will come with a later page.
                if !more || cursor.is_some_and(|cursor| entry.place() <= cursor) {
                    self.insert(entry);
                }
            }
        }
        self.note_low(id);
        self.woken.insert(queue);
    }
}

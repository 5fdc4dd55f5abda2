//! Cron in a zone: which instants the matching local times are.
//!
//! A zone is a row of segments with a constant offset. Inside a segment local time runs like UTC,
//! so a search or a count is one over local times. Only the seams need rules:
//!
//! ```text
//! gap      clocks go forward: local times [τ+o, τ+o') do not exist
//! repeat   clocks go back:    local times [τ+o', τ+o) exist twice, before τ and after it
//! ```
//!
//! - A **wildcard** job (minute or hour starts with `*`) follows real time, as Debian documents: it
//!   fires whenever a wall clock would match. Nothing in a gap, both passes of a repeat. Neither
//!   policy applies to it.
//! - A **fixed** job: if any of its local times lies in a gap, it fires once at the transition
//!   (`Gap::Run`; together with a time that matches there anyway) or not at all (`Gap::Skip`). In
//!   a repeat it fires in the first pass, in the second, or in both.
//!
//! Unlike Debian and cronsim there is no limit of three hours: a zone that skips a whole day (Apia
//! 2011-12-30, Kwajalein 1993-08-21) has a gap like any other, and a job of that day fires once at
//! its end. Debian takes such a jump for a correction of the clock, which a zone's table never is.

use crate::limits::{OFFSET_SECS_MAX, SECS_MAX, SECS_MIN};
use crate::local::Local;
use crate::zone::{Segment, Zone};
use model::{Dst, Gap, Repeat};
use std::sync::Arc;

/// A search that starts this long before a segment's end sees every local time that later segments
/// can have: offsets differ by less than twice the largest.
const JUMP_SECS: i64 = 2 * OFFSET_SECS_MAX;

#[derive(Clone, Debug)]
pub(crate) struct Cron {
    pub local: Local,
    pub zone: Arc<Zone>,
    pub wildcard: bool,
    pub dst: Dst,
}

impl Cron {
    /// The part `[from, to)` of a segment in which every matching local time fires.
    fn window(&self, index: usize, segment: &Segment) -> (i64, i64) {
        let (mut from, mut to) = (segment.start, segment.end);
        if self.wildcard {
            return (from, to);
        }
        match self.dst.repeat {
            Repeat::First => {
                from += (self.zone.offset_before(index) - segment.offset).max(0);
            }
            Repeat::Second => {
                to -= (segment.offset - self.zone.segment(index + 1).offset).max(0);
            }
            Repeat::Both => {}
        }
        (from, to)
    }

    /// Does the start of this segment close a gap that swallowed local times of a fixed job?
    pub fn closes_gap(&self, index: usize, segment: &Segment) -> bool {
        let before = self.zone.offset_before(index);
        before < segment.offset
            && !self.wildcard
            && self.dst.gap == Gap::Run
            && self.local.any(segment.start + before, segment.start + segment.offset)
    }

    /// The first instant at or after this second.
    pub fn next(&self, second: i64) -> Option<i64> {
        if self.local.is_never() {
            return None;
        }
        let mut second = second.max(SECS_MIN);
        let mut index = self.zone.index(second);
        while second <= SECS_MAX {
            let segment = self.zone.segment(index);
            if second <= segment.start && self.closes_gap(index, &segment) {
                return Some(segment.start);
            }
            let (from, to) = self.window(index, &segment);
            let from = from.max(second);
            index += 1;
            if from < to {
                let found = self.local.next(from + segment.offset);
                if let Some(instant) = found.map(|local| local - segment.offset)
                    && instant < to
                {
                    return (instant <= SECS_MAX).then_some(instant);
                }
                if from + JUMP_SECS <= segment.end {
                    // Nothing between here and `found`, in whatever segment: go near it at once.
                    index = index.max(self.zone.index(found? - OFFSET_SECS_MAX));
                }
            }
            second = self.zone.segment(index).start;
        }
        None
    }

    /// The last instant at or before this second.
    pub fn previous(&self, second: i64) -> Option<i64> {
        if self.local.is_never() {
            return None;
        }
        let mut second = second.min(SECS_MAX);
        let mut index = self.zone.index(second.max(SECS_MIN));
        while second >= SECS_MIN {
            let segment = self.zone.segment(index);
            let (from, to) = self.window(index, &segment);
            let to = second.min(to - 1);
            let mut skip_to = index;
            if from <= to {
                let found = self.local.previous(to + segment.offset);
                if let Some(instant) = found.map(|local| local - segment.offset)
                    && instant >= from
                {
                    return (instant >= SECS_MIN).then_some(instant);
                }
                if to - JUMP_SECS >= segment.start {
                    skip_to = found.map_or(0, |local| {
                        let near = (local + OFFSET_SECS_MAX).max(SECS_MIN);
                        self.zone.index(near.min(segment.start)) + 1
                    });
                }
            }
            // The start is the earliest instant of a segment, so it is asked last.
            if segment.start >= SECS_MIN && self.closes_gap(index, &segment) {
                return Some(segment.start);
            }
            index = index.min(skip_to).checked_sub(1)?;
            second = self.zone.segment(index).end - 1;
        }
        None
    }

    /// How many instants lie in `[from, to)`.
    pub fn count(&self, from: i64, to: i64) -> u64 {
        let (from, to) = (from.max(SECS_MIN), to.min(SECS_MAX + 1));
        if self.local.is_never() || from >= to {
            return 0;
        }
        let (repeats, cycle) = (Zone::REPEATS_FROM, Zone::CYCLE_SECS);
        if from < repeats && to > repeats + cycle {
            return self.count(from, repeats) + self.count(repeats, to);
        }
        if from >= repeats && to - from > cycle && !self.local.days.has_years() {
            // Far enough on, both the zone and the calendar repeat: one cycle stands for all.
            let cycles = (to - from) / cycle;
            let whole = self.count_segments(from, from + cycle) * cycles as u64;
            return whole + self.count_segments(from + cycles * cycle, to);
        }
        self.count_segments(from, to)
    }

    /// The same, segment by segment.
    fn count_segments(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        let mut count = 0;
        for index in self.zone.index(from)..=self.zone.index(to - 1) {
            let segment = self.zone.segment(index);
            let (a, b) = self.window(index, &segment);
            count += self.local.count(a.max(from) + segment.offset, b.min(to) + segment.offset);
            let at = segment.start;
            if from <= at
                && self.closes_gap(index, &segment)
                && !self.local.matches(at + segment.offset)
            {
                count += 1;
            }
        }
        count.max(0) as u64
    }
}

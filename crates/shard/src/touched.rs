//! What decisions changed while pages were under way. A page shows rows as they were when it was
//! read; of those that were touched since it was asked for, memory knows better.
//!
//! Touches are numbered. A page remembers the number at which it was asked for, so that any number
//! of pages share one record, and what is older than every page under way is forgotten.

use model::read::WheelKey;
use std::collections::{BTreeMap, VecDeque};

/// When a page was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since(u64);

#[derive(Debug, Default)]
pub struct Touched {
    count: u64,
    last: BTreeMap<WheelKey, u64>,
    order: VecDeque<(u64, WheelKey)>,
    /// Pages under way, by when they were asked for.
    pages: BTreeMap<Since, usize>,
}

impl Touched {
    /// A page is asked for from here on.
    pub fn begin(&mut self) -> Since {
        let since = Since(self.count);
        *self.pages.entry(since).or_default() += 1;
        since
    }

    pub fn touch(&mut self, key: WheelKey) {
        if !self.pages.is_empty() {
            self.count += 1;
            self.last.insert(key, self.count);
            self.order.push_back((self.count, key));
        }
    }

    pub fn is_touched(&self, key: WheelKey, since: Since) -> bool {
        self.last.get(&key).is_some_and(|at| *at > since.0)
    }

    pub fn any(&self, since: Since) -> bool {
        self.count > since.0
    }

    /// The page was merged, or will never be.
    pub fn end(&mut self, since: Since) {
        if let Some(pages) = self.pages.get_mut(&since) {
            *pages -= 1;
            if *pages == 0 {
                self.pages.remove(&since);
            }
        }
        let oldest = self.pages.keys().next().map_or(self.count, |since| since.0);
        while let Some((at, key)) = self.order.front().copied().filter(|(at, _)| *at <= oldest) {
            self.order.pop_front();
            if self.last.get(&key) == Some(&at) {
                self.last.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::JobId;

    fn key(n: u64) -> WheelKey {
        WheelKey::Job(JobId::from_bits(n, n))
    }

    #[test]
    fn a_page_sees_what_was_touched_since_it_was_asked_for_and_nothing_is_kept_for_nobody() {
        let mut touched = Touched::default();
        touched.touch(key(1));
        let first = touched.begin();
        touched.touch(key(2));
        let second = touched.begin();
        touched.touch(key(3));
        assert!(!touched.is_touched(key(1), first));
        assert!(touched.is_touched(key(2), first) && !touched.is_touched(key(2), second));
        assert!(touched.is_touched(key(3), first) && touched.is_touched(key(3), second));
        touched.touch(key(2));
        touched.end(first);
        assert!(touched.is_touched(key(2), second), "touched again");
        touched.end(second);
        assert!(touched.last.is_empty() && touched.order.is_empty());
    }
}

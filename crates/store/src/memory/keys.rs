//! Idempotency keys: today's table and yesterday's, emptied whole.
//!
//! Days are counted by the store's clock, so a key lives through its own day and the next one:
//! 24 to 48 hours. The tables turn at the first access of a new day, not only when `rotate` is
//! called, so that a late call cannot make a key live longer.

use model::Time;
use model::row::{IdempotencyKey, IdempotencyRow};
use std::collections::BTreeMap;

const DAY_MICROS: i64 = 86_400_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    day: i64,
    today: BTreeMap<IdempotencyKey, IdempotencyRow>,
    yesterday: BTreeMap<IdempotencyKey, IdempotencyRow>,
}

/// A row and the table it stood in, so that a refused commit puts it back there.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub row: IdempotencyRow,
    yesterday: bool,
}

impl Kept {
    pub fn new(row: IdempotencyRow) -> Kept {
        Kept { row, yesterday: false }
    }
}

impl Keys {
    pub fn turn(&mut self, now: Time) {
        let day = now.micros().div_euclid(DAY_MICROS);
        match day - self.day {
            // The same day, or the clock stepped back over midnight: what is known stays known.
            0 | -1 => return,
            1 => self.yesterday = std::mem::take(&mut self.today),
            days if days > 1 => {
                self.today.clear();
                self.yesterday.clear();
            }
            // The clock had been far ahead: all that is known counts as new, so it ends in time.
            _ => {}
        }
        self.day = day;
    }

    pub fn get(&self, key: &IdempotencyKey) -> Option<&IdempotencyRow> {
        self.today.get(key).or_else(|| self.yesterday.get(key))
    }

    pub fn put(&mut self, key: &IdempotencyKey, new: Option<Kept>) -> Option<Kept> {
        let old = match self.today.remove(key) {
            Some(row) => Some(Kept { row, yesterday: false }),
            None => self.yesterday.remove(key).map(|row| Kept { row, yesterday: true }),
        };
        if let Some(new) = new {
            let table = if new.yesterday { &mut self.yesterday } else { &mut self.today };
            table.insert(key.clone(), new.row);
        }
        old
    }

    pub fn iter(&self) -> impl Iterator<Item = (&IdempotencyKey, &IdempotencyRow)> {
        self.yesterday.iter().chain(&self.today)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::row::Made;
    use model::{JobId, Namespace};

    fn key() -> IdempotencyKey {
        IdempotencyKey { namespace: Namespace(1), queue: "q".into(), group: None, key: "k".into() }
    }

    fn known_after(days: &[i64]) -> bool {
        let mut keys = Keys::default();
        keys.turn(Time::from_secs(100 * 86_400));
        let answer = Made::Job(JobId::from_bits(1, 2));
        keys.put(&key(), Some(Kept::new(IdempotencyRow { at: Time::MIN, body: 1, answer })));
        for day in days {
            keys.turn(Time::from_secs(day * 86_400));
        }
        keys.get(&key()).is_some()
    }

    #[test]
    fn a_key_lives_through_its_day_and_the_next() {
        assert!(known_after(&[100]));
        assert!(known_after(&[101]));
        assert!(!known_after(&[101, 102]));
        assert!(!known_after(&[102]), "also when nobody turned the tables in between");
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing_and_keeps_nothing_for_ever() {
        assert!(known_after(&[99]));
        assert!(known_after(&[50]));
        assert!(known_after(&[50, 51]));
        assert!(!known_after(&[50, 51, 52]));
    }
}

//! Random cron fields in the grammar that a peer and we have in common.

use crate::rng::Rng;

/// What one field may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub low: i64,
    pub high: i64,
    pub names: &'static [&'static str],
    /// The number of the first name.
    pub first: i64,
}

pub const SECOND: Bounds = Bounds { low: 0, high: 59, names: &[], first: 0 };
pub const MINUTE: Bounds = SECOND;
pub const HOUR: Bounds = Bounds { low: 0, high: 23, names: &[], first: 0 };
pub const DAY: Bounds = Bounds { low: 1, high: 31, names: &[], first: 0 };
pub const MONTH: Bounds = Bounds {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first: 1,
};
/// 0 and 7 are Sunday.
pub const WEEKDAY: Bounds =
    Bounds { low: 0, high: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"], first: 0 };
/// 1 is Sunday.
pub const WEEKDAY_QUARTZ: Bounds =
    Bounds { low: 1, high: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], first: 1 };

impl Bounds {
    /// A value, by name now and then.
    pub fn value(self, rng: &mut Rng) -> String {
        let number = rng.within(self.low, self.high);
        match self.names.get((number - self.first) as usize) {
            Some(name) if number >= self.first && rng.chance(30) => (*name).to_string(),
            _ => number.to_string(),
        }
    }

    fn range(self, rng: &mut Rng) -> (i64, i64) {
        let from = rng.within(self.low, self.high);
        (from, rng.within(from, self.high))
    }

    fn step(self, rng: &mut Rng) -> i64 {
        // Small steps are what people write; large ones are where an off-by-one hides.
        let top = if rng.chance(80) { 6 } else { self.high - self.low };
        rng.within(1, top.max(2))
    }

    /// One member of a list: a value, a range or a range with a step. No star.
    fn term(self, rng: &mut Rng) -> String {
        match rng.within(1, 10) {
            1..=6 => self.value(rng),
            7 | 8 => {
                let (from, to) = self.range(rng);
                format!("{from}-{to}")
            }
            _ => {
                let (from, to) = self.range(rng);
                format!("{from}-{to}/{}", self.step(rng))
            }
        }
    }

    /// A list of one to three terms. Never begins with a star.
    pub fn list(self, rng: &mut Rng) -> String {
        let count = *rng.pick(&[1, 1, 1, 2, 2, 3]);
        let terms: Vec<String> = (0..count).map(|_| self.term(rng)).collect();
        terms.join(",")
    }

    /// `*` or `*/n`.
    pub fn star(self, rng: &mut Rng) -> String {
        if rng.chance(50) { "*".to_string() } else { format!("*/{}", self.step(rng)) }
    }

    /// Anything: a star in `percent` of a hundred.
    pub fn any(self, rng: &mut Rng, percent: i64) -> String {
        if rng.chance(percent) { self.star(rng) } else { self.list(rng) }
    }
}

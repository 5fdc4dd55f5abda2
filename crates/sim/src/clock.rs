//! A node's own clock: it starts anywhere, drifts, and now and then runs wild.

use model::{Span, Time};

#[derive(Clone, Debug)]
pub struct LocalClock {
    true_base: Time,
    local_base: Time,
    drift_ppm: i64,
    /// Shows a time that far off until it comes to its senses.
    wild: Option<(Time, Span)>,
}

impl LocalClock {
    pub fn new(now: Time, starts_at: Time, drift_ppm: i64) -> LocalClock {
        LocalClock { true_base: now, local_base: starts_at, drift_ppm, wild: None }
    }

    pub fn local(&self, now: Time) -> Time {
        let passed = now.since(self.true_base).micros();
        let drifted = passed + (i128::from(passed) * i128::from(self.drift_ppm) / 1_000_000) as i64;
        let sane = self.local_base.plus(Span::from_micros(drifted));
        match self.wild {
            Some((until, off)) if now < until => sane.plus(off),
            _ => sane,
        }
    }

    /// How long, in true time, until this clock has moved on by `span`.
    pub fn true_span(&self, span: Span) -> Span {
        let drift = 1_000_000 + self.drift_ppm;
        Span::from_micros((i128::from(span.micros()) * 1_000_000 / i128::from(drift)) as i64 + 1)
    }

    pub fn run_wild(&mut self, until: Time, off: Span) {
        self.wild = Some((until, off));
    }

    pub fn heal(&mut self) {
        self.wild = None;
    }
}

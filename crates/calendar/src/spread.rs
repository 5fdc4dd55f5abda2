//! Jitter: a fixed offset that spreads a herd of jobs over a window.
//!
//! The offset is a hash of the seed, so a job keeps it for life. It is in `[0, window)`. Where the
//! window is longer than the time to the next nominal instant, the offset is taken modulo that
//! time: no effective instant reaches the next nominal one, and jobs still spread (cutting offsets
//! off at the end would heap them all on the last microsecond).

use crate::hash::{below, hash};
use model::{Span, Time};

/// The job's own offset inside the window.
pub(crate) fn offset(seed: &[u8], window: Span) -> Span {
    let micros = below(hash("jitter", seed), window.micros().max(0) as u64);
    // Below the window, which was an i64.
    Span::from_micros(micros as i64)
}

/// When a nominal instant fires.
pub(crate) fn effective(nominal: Time, offset: Span, next: Option<Time>) -> Time {
    let gap = next.map(|next| next.since(nominal).micros()).filter(|gap| *gap > 0);
    let offset = gap.map_or(offset, |gap| Span::from_micros(offset.micros() % gap));
    nominal.plus(offset).min(Time::MAX.max(nominal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_fixed_and_inside_the_window() {
        // These values are promises to users; see `hash`.
        let window = Span::from_secs(600);
        let offsets: Vec<i64> =
            [&b""[..], b"a", b"job_1"].iter().map(|s| offset(s, window).micros()).collect();
        assert!(offsets.iter().all(|o| (0..600_000_000).contains(o)));
        assert_eq!(offset(b"job_1", Span::ZERO), Span::ZERO);
        let spread: std::collections::BTreeSet<i64> = (0..1_000_u32)
            .map(|n| offset(&n.to_be_bytes(), window).micros() / 60_000_000)
            .collect();
        assert_eq!(spread.len(), 10, "every minute of the window is used");
    }

    #[test]
    fn jobs_spread_even_where_the_window_is_longer_than_the_interval() {
        let (at, window) = (Time::from_secs, Span::from_secs(3_600));
        let minutes: std::collections::BTreeSet<i64> = (0..1_000_u32)
            .map(|n| effective(at(0), offset(&n.to_be_bytes(), window), Some(at(600))).secs() / 60)
            .collect();
        assert_eq!(minutes.len(), 10, "every minute between two instants is used");
    }

    #[test]
    fn never_reaches_the_next_nominal_instant() {
        let at = Time::from_secs;
        let hour = Span::from_secs(3_600);
        assert_eq!(effective(at(0), Span::from_secs(3_661), Some(at(60))), at(1));
        assert_eq!(effective(at(0), Span::from_secs(60), Some(at(60))), at(0));
        assert_eq!(effective(at(0), Span::from_secs(5), Some(at(60))), at(5));
        assert_eq!(effective(at(0), hour, None), at(3_600));
        assert_eq!(effective(Time::MAX, hour, None), Time::MAX);
    }
}

//! `--every 90s` and `--cron "@every 90s"` are read by different crates (neither may know the
//! other), and must mean the same.

use model::Span;

#[test]
fn the_calendar_and_the_wire_read_the_same_lengths() {
    for text in ["1s", "90s", "250ms", "15m", "1h30m", "2d", "2w1d", "1w1d1h1m1s1ms", "0s"] {
        let ours = wire::duration::parse(text).ok().map(Span::from_micros);
        assert!(ours.is_some(), "{text}");
        assert_eq!(calendar::parse_duration(text).ok(), ours, "{text}");
    }
    for text in ["", "15", "h", "-5m", "1h 30m", "1y", "1h30"] {
        assert!(wire::duration::parse(text).is_err(), "{text}");
        assert!(calendar::parse_duration(text).is_err(), "{text}");
    }
}

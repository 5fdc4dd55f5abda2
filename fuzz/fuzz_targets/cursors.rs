//! Any text as a cursor of a list: no panic, and what is accepted is the one spelling of its place.
#![no_main]

use http_api::cursor;
use libfuzzer_sys::fuzz_target;
use model::{Span, Time};
use store::search::cursor::{is_of_runs, jobs, runs};

fuzz_target!(|text: &str| {
    if let Some(job) = jobs(text) {
        assert_eq!(jobs(&job.to_string()), Some(job));
    }
    if let Some(place) = runs(text) {
        assert_eq!(place.to_string(), text);
        assert!(is_of_runs(text));
    }
    if let Some(at) = cursor::read_occurrence(text) {
        assert_eq!(cursor::write_occurrence(at), text);
        // What a page does with it first.
        let _ = (at.plus(Span::from_secs(1)), at.since(Time::MIN), wire::timestamp::format(at.micros()));
    }
    let _ = is_of_runs(text);
});

//! Any text as any request: no panic, and what is refused is pointed at. A reader that found no fault
//! found none the second time either.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::job::{JobRequest, ScheduleRequest};
use wire::work::{ClaimRequest, read_beats, read_settles};
use wire::{Faults, Object};

fuzz_target!(|input: (u8, &str)| {
    let (which, text) = input;
    let read = |faults: &mut Faults| match which % 5 {
        0 => drop(JobRequest::read(text, "", faults)),
        1 => drop(ClaimRequest::read(text, faults)),
        2 => drop(read_beats(text, faults)),
        3 => drop(read_settles(text, faults)),
        _ => {
            if let Some(object) = Object::read(text, "/schedule", faults) {
                ScheduleRequest::read(object, faults);
            }
        }
    };
    let (mut faults, mut again) = (Faults::default(), Faults::default());
    read(&mut faults);
    read(&mut again);
    assert_eq!(faults.list, again.list);
    for fault in &faults.list {
        assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}");
        assert!(!fault.message.is_empty());
    }
});

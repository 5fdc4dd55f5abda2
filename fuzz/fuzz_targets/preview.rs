//! Any text as the body of POST /v1/schedules/preview, at any time: no panic, no loop; instants grow and
//! lie behind the one that was asked for, and what is refused is pointed at.
#![no_main]

use http_api::preview;
use libfuzzer_sys::fuzz_target;
use model::Time;

/// 1970 to 2100, in seconds.
const NOW_MAX: i64 = 4_102_444_800;

fuzz_target!(|input: (u32, &str)| {
    let (now, text) = input;
    let now = Time::from_secs(i64::from(now) % NOW_MAX);
    match preview::answer(text, now) {
        Ok(answer) => {
            assert!(!answer.description.is_empty());
            let nominal: Vec<&String> = answer.instants.iter().map(|one| &one.nominal).collect();
            assert!(nominal.windows(2).all(|pair| pair[0] <= pair[1]), "{nominal:?}");
        }
        Err(faults) => {
            assert!(!faults.list.is_empty(), "refused without a word");
            for fault in &faults.list {
                assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}");
            }
        }
    }
});

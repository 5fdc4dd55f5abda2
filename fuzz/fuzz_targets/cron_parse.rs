//! Any text as an expression and as a zone: no panic, no loop; an error has a column inside the text.
#![no_main]

use calendar::Schedule;
use libfuzzer_sys::fuzz_target;
use model::{Dialect, ScheduleSpec, Time, When};

fuzz_target!(|input: (&str, &str, bool, &[u8])| {
    let (expression, zone, quartz, seed) = input;
    let dialect = if quartz { Dialect::Quartz } else { Dialect::Cron };
    let when = When::Cron { expression: expression.to_owned(), dialect };
    let mut spec = ScheduleSpec::new(when);
    match Schedule::new(&spec, seed, Time::MIN) {
        Ok(schedule) => assert!(!schedule.describe().is_empty()),
        Err(error) => {
            assert_eq!(error.field, "cron");
            assert!(error.column.is_none_or(|column| column <= expression.len() + 1));
            assert!(!error.message.is_empty());
        }
    }
    spec.when = When::Now;
    spec.timezone = Some(zone.to_owned());
    let _ = Schedule::new(&spec, seed, Time::MIN);
});

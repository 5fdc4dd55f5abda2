//! What an error message tells people to write must itself be accepted.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use calendar::{Schedule, ScheduleError};
use model::{Dialect, ScheduleSpec, Time, When};

fn read(expression: String) -> Result<Schedule, ScheduleError> {
    let spec = ScheduleSpec::new(When::Cron { expression, dialect: Dialect::Cron });
    Schedule::new(&spec, b"seed", Time::MIN)
}

#[test]
fn the_list_that_replaces_a_backward_range_is_good() {
    let mut refused = 0;
    for (field, low, high) in [(0, 0, 59), (1, 0, 23), (2, 1, 31), (3, 1, 12), (4, 0, 7)] {
        for first in low..=high {
            for last in low..first {
                let with = |text: &str| {
                    let mut fields = ["*"; 5];
                    fields[field] = text;
                    read(fields.join(" "))
                };
                let Err(error) = with(&format!("{first}-{last}")) else { continue };
                refused += 1;
                let (_, instead) = error.message.rsplit_once(' ').expect("a way out");
                assert!(with(instead).is_ok(), "{}", error.message);
            }
        }
    }
    assert!(refused > 2_000, "only {refused} were refused");
}

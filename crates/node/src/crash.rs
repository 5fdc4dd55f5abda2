//! Places at which this process ends itself as `kill -9` would, when it was asked to: the crash test
//! (`crates/chaos`) asks with `DULY_CRASH_AT=name:count`, and the count-th time that the place is
//! passed is the last. `name:count:panic` panics there instead, to see that no part of a process dies
//! alone. Always compiled in, so that the binary that is tested is the binary that is
//! used; without the variable a place costs one load, and places lie on the way of commits and
//! attempts, not of single jobs.
//!
//! What it does not do: anything in a process whose environment nobody prepared.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The environment variable.
pub const VARIABLE: &str = "DULY_CRASH_AT";

/// Every place, in the order in which a process may pass them. Those that end in `-during` begin
/// something and end the process a moment later, in the middle of it.
pub const POINTS: [&str; 19] = [
    "opened",
    "former-ended",
    "take-after",
    "renew-after",
    "load-after",
    "commit-before",
    "commit-during",
    "commit-applied",
    "commit-after",
    "reply-before",
    "send-before",
    "answer-after",
    "settle-after",
    "checkpoint-during",
    "checkpoint-after",
    "rotate-during",
    "drain",
    "stop-before",
    "stop-after",
];

/// The longest moment between a `-during` place and the end.
const MOMENT_MAX_MICROS: u64 = 4_000;

#[derive(Debug)]
struct Plan {
    name: String,
    left: AtomicU32,
    panics: bool,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

/// Ends the process here, if this is the place and the time.
pub fn point(name: &'static str) {
    if is_here(name) {
        end();
    }
}

/// Ends the process a moment from now, if this is the place and the time.
pub fn during(name: &'static str) {
    if is_here(name) {
        let moment = Duration::from_micros(crate::random::bits() % MOMENT_MAX_MICROS);
        crate::tasks::thread("crash", move || {
            std::thread::sleep(moment);
            end();
        });
    }
}

fn is_here(name: &'static str) -> bool {
    let Some(plan) = PLAN.get_or_init(read) else { return false };
    let here = plan.name == name && plan.left.fetch_sub(1, Ordering::Relaxed) == 1;
    if here && plan.panics {
        fall(name);
    }
    here
}

/// A fault of ours, where somebody asked for one.
#[allow(clippy::panic)]
fn fall(name: &str) -> ! {
    panic!("{VARIABLE} asked for a panic at {name}")
}

/// A plan that names no place must not look like one that was survived.
fn read() -> Option<Plan> {
    let text = std::env::var(VARIABLE).ok()?;
    let plan = text.split_once(':').and_then(|(name, count)| {
        let (count, panics) = match count.strip_suffix(":panic") {
            Some(count) => (count, true),
            None => (count, false),
        };
        let left = count.parse().ok().filter(|count| *count > 0)?;
        let left = AtomicU32::new(left);
        POINTS.contains(&name).then(|| Plan { name: name.to_string(), left, panics })
    });
    if plan.is_none() {
        let all = POINTS.join(", ");
        crate::tasks::end(&format!(
            "{VARIABLE}={text}: name:count or name:count:panic is expected, one of {all}"
        ));
    }
    plan
}

fn end() -> ! {
    // No destructor, no flush, no exit handler: what is not with the kernel is gone.
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

//! Threads and tasks, started nowhere else. A panic in any of them ends the process: a scheduler
//! with a dead part would go on answering and stop doing.

use std::future::Future;
use std::io::Write;
use std::num::NonZeroU64;
use std::time::Duration;

/// The exit code of a process that had to stop itself.
const EXIT_FAILED: i32 = 1;

/// From here on a panic in any thread or task is printed and ends the process.
pub fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        end("a part of duly panicked (above); what was answered is in the store");
    }));
}

/// Says why on standard error and ends the process without unwinding.
pub fn end(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "duly: {why}");
    std::process::exit(EXIT_FAILED)
}

/// As many open files and sockets as the system allows this process; the usual soft limit is less
/// than the connections there is room for.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// A thread for the life of the process.
pub fn thread(name: &str, body: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_string()).spawn(body) {
        end(&format!("the thread {name} could not be started: {error}"));
    }
}

/// From here on timeouts of this thread end when they say. The system would let them end up to 50 µs later, to wake
/// processors less often; what waits here is the start of a run.
pub fn wake_punctually() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::debug!(%error, "timers of the driver have some slack");
    }
}

/// A thread that does something now and then, for the life of the process.
pub fn every(name: &str, pause: Duration, mut body: impl FnMut() + Send + 'static) {
    thread(name, move || {
        loop {
            std::thread::sleep(pause);
            body();
        }
    });
}

/// As `every`, with a pause that the body chooses anew each time.
pub fn every_now_and_then(name: &str, mut body: impl FnMut() -> Duration + Send + 'static) {
    thread(name, move || {
        loop {
            std::thread::sleep(body());
        }
    });
}

/// Starts tasks for crates that may not start their own.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: tokio::runtime::Handle,
}

impl Tasks {
    pub fn new(runtime: tokio::runtime::Handle) -> Tasks {
        Tasks { runtime }
    }

    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slack_of_a_thread_is_its_own() {
        let slack = || rustix::thread::current_timer_slack().expect("the kernel says it");
        let before = slack();
        let of_driver = std::thread::spawn(move || {
            wake_punctually();
            slack()
        });
        assert_eq!(of_driver.join().expect("it ends"), 1);
        assert_eq!(slack(), before, "others go on saving wake-ups");
    }
}

//! The wall clock is set while duly runs: nothing is early, nothing comes twice, and what lies in a
//! large step forward is held until the step counts as downtime.
#![allow(clippy::expect_used)]

use crate::support::{Hook, Hooks, PATIENCE, Server};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// The clocks of the server, as this test sets them.
struct Clock {
    file: PathBuf,
    wall: i64,
    boot: i64,
}

impl Clock {
    fn new(folder: &Path) -> Clock {
        let clock = Clock { file: folder.join("clock"), wall: 0, boot: 0 };
        clock.write();
        clock
    }

    /// Written beside and renamed, so that no half of it is read.
    fn write(&self) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{} {}\n", self.wall, self.boot)).expect("written");
        std::fs::rename(&new, &self.file).expect("renamed");
    }

    fn step_wall(&mut self, by: i64) {
        self.wall += by;
        self.write();
    }

    /// Time passes, for both clocks.
    fn pass(&mut self, by: i64) {
        self.wall += by;
        self.boot += by;
        self.write();
    }

    /// What the server's wall clock says.
    fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        since.as_micros() as i64 + self.wall
    }

    fn text(&self, ahead: i64) -> String {
        wire::timestamp::format(self.now() + ahead)
    }
}

struct Scene {
    server: Server,
    hooks: Hooks,
    clock: Clock,
    runs: BTreeSet<String>,
}

impl Scene {
    /// One run later than all that was due before: when it has come, they have, or will not.
    fn marker(&mut self) {
        let made = self.server.submit(&json!({
            "target": {"http": {"url": self.hooks.url()}}, "queue": "markers",
        }));
        let run = made["run_id"].as_str().expect("a run").to_string();
        while self.next() != run {}
    }

    /// The next webhook, which is neither early nor a second one.
    fn next(&mut self) -> String {
        let hook = self.hooks.next();
        self.judge(&hook);
        hook.header("x-run-id").to_string()
    }

    fn judge(&mut self, hook: &Hook) {
        let nominal = wire::timestamp::parse(hook.header("x-scheduled-for")).expect("a time");
        let now = self.clock.now();
        // Told in whole milliseconds, rounded up.
        assert!(nominal <= now + 1_000, "early by {} µs: {}", nominal - now, hook.head);
        let run = hook.header("x-run-id").to_string();
        assert!(self.runs.insert(run.clone()), "{run} came twice");
    }

    /// Waits until the server's idea of the time is within a second of this.
    fn wait_for_time(&mut self, wanted: impl Fn(&Clock) -> i64) {
        let until = Instant::now() + PATIENCE;
        loop {
            let probe = json!({"target": {"worker": {"kind": "probe"}}, "queue": "probes",
                               "schedule": {"delay": "1000h"}});
            let reply = self.server.post("/v1/jobs", &probe);
            // Time that passes over a request passes over its deadline, too.
            if reply.status == 202 {
                let next = reply.json()["next_run_at"].as_str().expect("a time").to_string();
                let says = wire::timestamp::parse(&next).expect("a time") - 1_000 * 60 * MINUTE;
                if (says - wanted(&self.clock)).abs() < SECOND {
                    return;
                }
            } else {
                assert_eq!(reply.status, 503, "{}", reply.text);
            }
            assert!(Instant::now() < until, "the server's clock does not follow");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sets the clocks while nothing is under way. An attempt that a minute passes over has lost its
    /// lease, and coming again is right for it; this test is about clocks, so it has none such.
    fn while_idle(&mut self, set: impl FnOnce(&mut Clock)) {
        let hold = json!({"scope": "all", "reason": "the clocks are set"}).to_string();
        assert_eq!(self.server.ask("POST", "/v1/hold", &hold).status, 200);
        let until = Instant::now() + PATIENCE;
        loop {
            let counts = self.server.ask("GET", "/v1/doctor", "").json();
            if counts["memory"]["leases"] == 0 {
                break;
            }
            assert!(Instant::now() < until, "{counts}");
            std::thread::sleep(Duration::from_millis(5));
        }
        while let Ok(hook) = self.hooks.heard.try_recv() {
            self.judge(&hook);
        }
        set(&mut self.clock);
        self.wait_for_time(Clock::now);
        let release = json!({"scope": "all"}).to_string();
        assert_eq!(self.server.ask("POST", "/v1/release", &release).status, 200);
    }

    fn post(&self, path: &str) {
        let reply = self.server.ask("POST", path, "{}");
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    fn at(&self, ahead: i64, queue: &str) -> Value {
        let made = self.server.submit(&json!({
            "target": {"http": {"url": self.hooks.url()}}, "queue": queue,
            "schedule": {"at": self.clock.text(ahead)},
        }));
        made["run_id"].clone()
    }
}

#[test]
fn steps_of_the_wall_clock_fire_nothing_early_and_nothing_twice() {
    let began = Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::new(folder.path());
    let hooks = Hooks::start(&[]);
    let server = Server::start_with(
        &folder.path().join("data"),
        &[("DULY_TEST_CLOCK", clock.file.as_os_str())],
        &[],
    );
    let mut scene = Scene { server, hooks, clock, runs: BTreeSet::new() };
    let every = scene.server.submit(&json!({
        "target": {"http": {"url": scene.hooks.url()}}, "queue": "every",
        "schedule": {"every": "1s"}, "overlap": "allow",
    }));
    let every = every["id"].as_str().expect("an id").to_string();

    // An hour forward: what lies in the hour is held, what was due anyway goes on.
    let in_the_hour = scene.at(30 * MINUTE, "a");
    scene.clock.step_wall(60 * MINUTE);
    scene.marker();
    assert!(!scene.runs.contains(in_the_hour.as_str().expect("a run")), "it was held");
    scene.marker();
    // A minute later the step was meant: it counts as downtime, and what was missed is done once.
    scene.while_idle(|clock| clock.pass(61 * SECOND));
    while scene.next() != in_the_hour {}

    // An hour back is followed. What was done stays done; the instants come again, their runs not.
    scene.post(&format!("/v1/jobs/{every}/pause"));
    scene.while_idle(|clock| clock.step_wall(-60 * MINUTE));
    scene.marker();
    scene.post(&format!("/v1/jobs/{every}/resume"));
    scene.marker();

    // Ten minutes forward, and back before a minute is over: nothing was skipped.
    let in_five = scene.at(5 * MINUTE, "b");
    scene.clock.step_wall(10 * MINUTE);
    scene.marker();
    scene.clock.step_wall(-10 * MINUTE);
    scene.marker();
    assert!(!scene.runs.contains(in_five.as_str().expect("a run")), "its time has not come");
    // Ten minutes forward, meant.
    scene.clock.step_wall(10 * MINUTE);
    scene.marker();
    scene.while_idle(|clock| clock.pass(61 * SECOND));
    while scene.next() != in_five {}

    // Two minutes back.
    let soon = scene.at(30 * SECOND, "c");
    scene.while_idle(|clock| clock.step_wall(-2 * MINUTE));
    scene.marker();
    assert!(!scene.runs.contains(soon.as_str().expect("a run")), "its time went away");
    scene.while_idle(|clock| clock.pass(3 * MINUTE));
    while scene.next() != soon {}

    // Requests came one after the other: however the wall clock was set, together they took no longer than
    // what has passed.
    let metrics = scene.server.ask("GET", "/metrics", "").text;
    let sums = metrics.lines().filter(|line| line.starts_with("duly_http_request_seconds_sum"));
    let sums = sums.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let (took, seen) = sums.fold((0.0, 0), |(sum, seen), one| (sum + one, seen + 1));
    let passed = began.elapsed().as_secs_f64() + scene.clock.boot as f64 / SECOND as f64;
    assert!(seen > 0 && took <= passed, "{took} s in {seen} routes, of {passed} s");
    scene.server.stop();
}

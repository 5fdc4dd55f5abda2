//! One world: a data folder that lives through several deaths of its server, with clients, workers
//! and a receiver that live on; then a last life without trouble, an orderly stop, and the verdict.

use crate::book::{Book, now};
use crate::client::{Client, Load};
use crate::http::ask;
use crate::limits::{
    CARE_PATIENCE, CLIENTS, HEAL_MIN, HEAL_PATIENCE, KILL_MILLIS_MAX, POINT_PATIENCE,
    READY_PATIENCE, ROUNDS_PER_WORLD, STOP_PATIENCE, WORKERS,
};
use crate::server::{Process, Setting, was_killed};
use crate::worker::Worker;
use crate::{receiver, story};
use node::crash::POINTS;
use sim::checker::Violation;
use sim::rng::Rng;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store_sqlite::SqliteStore;

/// How one life is meant to end.
#[derive(Clone, Debug)]
enum End {
    At(&'static str, u32),
    Killed(Duration),
    /// Told to stop after so long, and killed so long after that, if at all.
    Stopped(Duration, Option<Duration>),
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub rounds: u32,
    /// How often each way to end was taken.
    pub ends: BTreeMap<&'static str, u32>,
    pub requests: usize,
    pub answered: usize,
    pub attempts: usize,
    pub violations: Vec<Violation>,
}

#[derive(Debug)]
pub struct World<'a> {
    pub binary: &'a Path,
    pub seed: u64,
    pub planted: Option<String>,
    /// Where its folder is kept if it broke a promise.
    pub keep: Option<PathBuf>,
}

impl World<'_> {
    pub fn run(&self) -> Result<Outcome, String> {
        let folder = tempfile::Builder::new().prefix("duly-chaos-").tempdir();
        let folder = folder.map_err(|error| format!("no folder: {error}"))?;
        let (data, errors) = (folder.path().join("data"), folder.path().join("errors"));
        let mut rng = Rng::new(self.seed);
        let book = Arc::new(Book::default());
        let hooks = receiver::start(book.clone(), rng.draw(), false, Ipv4Addr::LOCALHOST.into())?;
        let threads = self.people(&book, hooks, &mut rng);
        let mut outcome = Outcome::default();
        for _ in 0..ROUNDS_PER_WORLD {
            let end = self.end(&mut rng);
            self.round(&data, &errors, &book, &end, &mut outcome)?;
            outcome.rounds += 1;
            if !outcome.violations.is_empty() {
                break;
            }
        }
        let healed_at = now();
        let healed = self.heal(&data, &errors, &book, hooks, &mut rng);
        book.end();
        for thread in threads {
            let _ = thread.join();
        }
        if let Err(why) = healed {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            outcome.violations.push(broken("life_after_death", format!("{why}; {said}")));
            return Ok(self.kept(folder, outcome));
        }
        let clock = now();
        let store = SqliteStore::open(&data, move || clock).map_err(|error| error.to_string())?;
        let dump = store.dump().map_err(|_| "the final store cannot be read".to_string())?;
        drop(store);
        let pages = std::mem::take(&mut *book.pages());
        outcome.requests = pages.ops.len();
        outcome.answered = pages.ops.iter().filter(|op| op.heard.is_some()).count();
        outcome.attempts = pages.got.len();
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        if said.contains("panicked") {
            outcome.violations.push(broken("no_panic", said.clone()));
        }
        let divergences = said.matches("memory and store disagreed").count() as u64;
        outcome.violations.extend(story::judge(
            pages,
            &dump,
            divergences,
            &crate::cluster::Losses::default(),
            &story::embedded(healed_at),
        ));
        Ok(self.kept(folder, outcome))
    }

    /// The folder of a world that broke a promise is worth a look.
    fn kept(&self, folder: tempfile::TempDir, outcome: Outcome) -> Outcome {
        if let (Some(keep), false) = (&self.keep, outcome.violations.is_empty()) {
            let place = keep.join(format!("chaos-{}", self.seed));
            let _ = std::fs::remove_dir_all(&place);
            let _ = std::fs::create_dir_all(keep);
            if std::fs::rename(folder.path(), &place).is_err() {
                let _ = folder.keep();
            }
        }
        outcome
    }

    fn people(&self, book: &Arc<Book>, hooks: SocketAddr, rng: &mut Rng) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for _ in 0..CLIENTS {
            let (book, rng) = (book.clone(), rng.fork(2));
            let client = Client { book, hooks, rng, load: Load::default() };
            threads.push(std::thread::spawn(move || client.run()));
        }
        for name in 0..WORKERS {
            let name = format!("worker-{name}").into();
            let zombies = Vec::new();
            let queues = vec!["w0".to_string(), "w1".to_string()];
            let worker = Worker { book: book.clone(), name, rng: rng.fork(3), zombies, queues };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        threads
    }

    fn end(&self, rng: &mut Rng) -> End {
        let moment = Duration::from_millis(rng.below(KILL_MILLIS_MAX));
        match rng.below(100) {
            0..60 => {
                let name = POINTS[rng.below(POINTS.len() as u64) as usize];
                let most = match name {
                    "opened" | "former-ended" | "drain" | "stop-before" | "stop-after" => 1,
                    "checkpoint-during" | "checkpoint-after" | "rotate-during" => 1,
                    "take-after" => 9,
                    "renew-after" => 8,
                    "send-before" | "answer-after" | "settle-after" => 12,
                    _ => 60,
                };
                End::At(name, 1 + rng.below(most) as u32)
            }
            60..88 => End::Killed(moment),
            88..94 => End::Stopped(moment, Some(Duration::from_millis(rng.below(60)))),
            _ => End::Stopped(moment, None),
        }
    }

    fn round(
        &self,
        data: &Path,
        errors: &Path,
        book: &Book,
        end: &End,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let mut setting = Setting { planted: self.planted.clone(), ..Setting::default() };
        if let End::At(name, count) = end {
            setting.crash_at = Some(format!("{name}:{count}"));
        }
        let mut process = Process::start(self.binary, data, errors, &setting)?;
        let patience = match end {
            End::Killed(after) => *after,
            _ => READY_PATIENCE,
        };
        if let Some(server) = process.ready(patience) {
            book.set_server(Some(server), true);
        }
        let (kind, status, allowed_by_itself) = match end {
            End::At(name, _) => {
                let patience = match *name {
                    "checkpoint-during" | "checkpoint-after" | "rotate-during" => CARE_PATIENCE,
                    "drain" | "stop-before" | "stop-after" => {
                        process.ended(POINT_PATIENCE / 3);
                        process.terminate();
                        STOP_PATIENCE
                    }
                    _ => POINT_PATIENCE,
                };
                match process.ended(patience) {
                    Some(status) => (*name, Some(status), false),
                    None => ("place not passed", process.kill(), false),
                }
            }
            End::Killed(after) => {
                let status = process.ended(after.saturating_sub(process.age()));
                ("random", status.or_else(|| process.kill()), false)
            }
            End::Stopped(after, then) => {
                process.ended(*after);
                process.terminate();
                match process.ended(then.unwrap_or(STOP_PATIENCE)) {
                    Some(status) => ("stopped", Some(status), true),
                    None => ("killed while stopping", process.kill(), then.is_some()),
                }
            }
        };
        book.set_server(None, true);
        *outcome.ends.entry(kind).or_default() += 1;
        let fine = status.is_some_and(|s| was_killed(s) || (allowed_by_itself && s.success()));
        if !fine {
            let said = std::fs::read_to_string(errors).unwrap_or_default();
            let detail = format!("{end:?} ended as {status:?}: {said}");
            outcome.violations.push(broken("ends_only_when_killed", detail));
        }
        Ok(())
    }

    /// A life without trouble: holds are lifted, workers go on, and when nothing is left to do it
    /// is told to stop.
    fn heal(
        &self,
        data: &Path,
        errors: &Path,
        book: &Arc<Book>,
        hooks: SocketAddr,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let setting = Setting { planted: self.planted.clone(), ..Setting::default() };
        let mut process = Process::start(self.binary, data, errors, &setting)?;
        let server = process.ready(READY_PATIENCE).ok_or("it did not become ready")?;
        book.set_server(Some(server), false);
        let (known, rng) = (book.clone(), rng.fork(4));
        let mut client = Client { book: known, hooks, rng, load: Load::default() };
        for queue in ["h0", "w1"] {
            client.release(server, queue);
        }
        let begun = Instant::now();
        loop {
            book.pause(Duration::from_millis(50));
            let counts = ask(server, "GET", "/v1/doctor", "", None).map_err(|e| e.to_string())?;
            let left = |name: &str| counts.body["memory"][name].as_u64().unwrap_or(u64::MAX);
            let quiet = left("ready") == 0 && left("leases") == 0;
            if quiet && begun.elapsed() > HEAL_MIN {
                break;
            }
            if begun.elapsed() > HEAL_PATIENCE {
                // What is left is the checker's to judge.
                break;
            }
        }
        process.terminate();
        let status = process.ended(STOP_PATIENCE).ok_or("it did not stop when told")?;
        book.set_server(None, false);
        if status.success() { Ok(()) } else { Err(format!("it stopped with {status}")) }
    }
}

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}

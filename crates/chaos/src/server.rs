//! One life of the real binary: started, awaited, killed. What it says on standard error is kept.

use crate::limits::{READY_PATIENCE, STOP_PATIENCE};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often an ended process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a life is given beside its folder.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub crash_at: Option<String>,
    pub planted: Option<String>,
    pub args: Vec<String>,
    /// A file with offsets of the process's clocks.
    pub clock: Option<PathBuf>,
    /// Where it listens; on a free port of loopback unless given.
    pub listen: Option<SocketAddr>,
    /// The network namespace that it lives in.
    pub namespace: Option<String>,
}

#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Receiver<String>,
    started: Instant,
}

/// The binary beside this one: `cargo build -p duly -p chaos` makes both, from the same sources.
pub fn binary() -> Result<PathBuf, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = me.with_file_name("duly");
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is missing; make it: cargo build -p duly -p chaos", path.display()))
}

impl Process {
    pub fn start(
        binary: &Path,
        data: &Path,
        errors: &Path,
        setting: &Setting,
    ) -> Result<Process, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let errors = File::options().create(true).append(true).open(errors);
        let errors = errors.map_err(|error| failed("the error file", error))?;
        // Whatever becomes of us, no server of ours stays behind.
        let mut command = match &setting.namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "setpriv"]);
                command
            }
            None => Command::new("setpriv"),
        };
        let listen = setting.listen.map_or("127.0.0.1:0".to_string(), |at| at.to_string());
        command.args(["--pdeathsig", "KILL"]).arg(binary);
        command.args(["serve", "--listen", &listen, "--data"]).arg(data).args(&setting.args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        // Whatever the caller's environment says about a server is not about this one.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DULY_")) {
            command.env_remove(name);
        }
        if let Some(place) = &setting.crash_at {
            command.env(node::crash::VARIABLE, place);
        }
        if let Some(fault) = &setting.planted {
            command.env("DULY_PLANTED", fault);
        }
        if let Some(clock) = &setting.clock {
            command.env("DULY_TEST_CLOCK", clock);
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| failed("the binary", error))?;
        let (tell, said) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if tell.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Process { child, said, started })
    }

    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Where it listens, once it says "ready"; none if it ended, or `patience` passed, before.
    pub fn ready(&mut self, patience: Duration) -> Option<SocketAddr> {
        let mut address = None;
        let until = self.started + patience.min(READY_PATIENCE);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line == "ready" => return address,
                Ok(line) => {
                    if let Some(found) = line.trim().strip_prefix("address  http://") {
                        address = found.parse().ok();
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// How it ended, if it did within so long.
    pub fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// `kill -STOP`: it does nothing any more and does not know.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        let _ = self.child.kill();
        self.ended(STOP_PATIENCE)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Was it killed, by us or by itself, as by `kill -9`?
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

//! A program of this machine as a target: no shell, no environment but what the job and duly set, the
//! payload on standard input, what it prints kept within a bound, its exit code as the answer.
//!
//! | exit code | what follows |
//! |---|---|
//! | 0 | success |
//! | 75 (`EX_TEMPFAIL`) | not now: the run comes again after `retry.initial`, and spends no retry |
//! | any other, or ended by a signal | failed; tried again, as the job's `retry` says |
//!
//! It leads a process group of its own, and the whole group is killed when its time is over, when the
//! run is cancelled, when the process drains, and when the program itself has ended: whatever it left
//! behind does not outlive its attempt. Only a duly that is killed with no time to act leaves it
//! running; that is what `DULY_TOKEN` is for.
//!
//! What it does not do: choose a user, confine the program, or run what is not on the list of
//! `--allow-command`.

use crate::limits::{COMMAND_DRAIN, COMMAND_TAIL, OUTPUT_MAX};
use crate::message::Message;
use model::{Bytes, Policy, Span, Text, Time};
use rustix::process::{Pid, Signal, kill_process_group};
use shard::command::End;
use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// "Temporary failure" of sysexits.h.
const TEMPFAIL: i32 = 75;
/// Bytes that are read at once.
const CHUNK: usize = 4_096;

/// Which programs may run, and those that do.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    allowed: Arc<[Text]>,
    running: Arc<Mutex<BTreeSet<i32>>>,
}

impl Commands {
    pub fn new(allowed: Vec<String>) -> Commands {
        let allowed = allowed.into_iter().map(Text::from).collect();
        Commands { allowed, running: Arc::default() }
    }

    /// Without waiting for anything: for a process that must end now.
    pub fn kill_all(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(|group| kill(*group));
    }

    pub async fn run(
        &self,
        argv: &[Text],
        env: &[(Text, Text)],
        message: &Message<'_>,
        policy: &Policy,
        within: Duration,
    ) -> End {
        let Some(program) = argv.first().filter(|program| self.allowed.contains(program)) else {
            let program = argv.first().map_or("nothing", AsRef::as_ref);
            let why = format!(
                "duly may not run {program}: it was started without --allow-command {program}"
            );
            return failed(why, None, false);
        };
        let mut command = Command::new(program.as_ref());
        command.args(argv.iter().skip(1).map(AsRef::<str>::as_ref)).env_clear().current_dir("/");
        command.envs(env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
        command.envs(variables(message, message.now.plus(span(within))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = match command.spawn() {
            Ok(child) => child,
            // It may be installed by the next try.
            Err(error) => return failed(format!("{program} did not start: {error}"), None, true),
        };
        let _group = Group::of(&child, self.running.clone());
        let mut said = Said::default();
        let ended =
            tokio::time::timeout(within, talk(&mut child, message.payload, &mut said)).await;
        match ended {
            Ok(Ok(status)) => {
                drop(_group);
                drain(&mut child, &mut said).await;
                verdict(program, status, said, policy, message.now)
            }
            Ok(Err(error)) => failed(format!("{program} was lost: {error}"), None, true),
            Err(_) => End::TimedOut,
        }
    }
}

/// What the program is told about its run.
fn variables(message: &Message<'_>, deadline: Time) -> [(&'static str, String); 10] {
    [
        ("DULY_RUN_ID", message.run.clone()),
        ("DULY_JOB_ID", message.job.clone()),
        ("DULY_ATTEMPT", message.attempt.to_string()),
        ("DULY_TOKEN", message.token.to_string()),
        ("DULY_SCHEDULED_FOR", wire::timestamp::format(message.scheduled_for.micros())),
        ("DULY_DEADLINE", wire::timestamp::format(deadline.micros())),
        ("DULY_REQUEST_ID", message.request_id.clone()),
        ("DULY_CONTENT_TYPE", message.content_type.to_string()),
        ("DULY_TRACEPARENT", message.traceparent()),
        ("TRACEPARENT", message.traceparent()),
    ]
}

/// Says the payload, hears both outputs, and waits for the end of the program itself: a child that
/// it left behind may hold the outputs open for ever.
async fn talk(child: &mut Child, payload: &[u8], said: &mut Said) -> std::io::Result<ExitStatus> {
    let input = child.stdin.take();
    let feed = async {
        if let Some(mut input) = input {
            // A program that does not read its input is no failure.
            let _ = input.write_all(payload).await;
        }
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (Some(mut out), Some(mut err)) = (out, err) else {
        return Err(std::io::Error::other("its outputs are gone"));
    };
    let mut feed = std::pin::pin!(feed);
    let (mut fed, mut open) = (false, [true, true]);
    let mut bytes = ([0; CHUNK], [0; CHUNK]);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = &mut feed, if !fed => fed = true,
            count = out.read(&mut bytes.0), if open[0] => {
                open[0] = said.hear(&bytes.0, count);
            }
            count = err.read(&mut bytes.1), if open[1] => {
                open[1] = said.hear(&bytes.1, count);
            }
        }
    };
    // What it printed last is still in the pipes.
    child.stdout = open[0].then_some(out);
    child.stderr = open[1].then_some(err);
    status
}

/// The rest of what the program printed, once its whole group is dead.
async fn drain(child: &mut Child, said: &mut Said) {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let rest = async {
        read_all(out, said).await;
        read_all(err, said).await;
    };
    let _ = tokio::time::timeout(COMMAND_DRAIN, rest).await;
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, said: &mut Said) {
    let Some(mut from) = from else { return };
    let mut bytes = [0; CHUNK];
    loop {
        let count = from.read(&mut bytes).await;
        if !said.hear(&bytes, count) {
            return;
        }
    }
}

/// What the program printed: its beginning for people and programs, its end for the error.
#[derive(Debug, Default)]
struct Said {
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Said {
    /// False: there is no more.
    fn hear(&mut self, bytes: &[u8], count: std::io::Result<usize>) -> bool {
        let Some(count @ 1..) = count.ok() else { return false };
        let bytes = &bytes[..count];
        let room = OUTPUT_MAX - self.head.len();
        self.head.extend_from_slice(&bytes[..count.min(room)]);
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(COMMAND_TAIL);
        self.tail.drain(..over);
        true
    }
}

fn verdict(program: &str, status: ExitStatus, said: Said, policy: &Policy, now: Time) -> End {
    if status.success() {
        let output = (!said.head.is_empty()).then(|| Bytes::from(said.head));
        return End::Succeeded { output };
    }
    if status.code() == Some(TEMPFAIL) {
        return End::Snoozed { until: now.plus(policy.initial) };
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("{program} ended with exit code {code}"),
        (_, Some(signal)) => format!("{program} was ended by signal {signal}"),
        _ => format!("{program} ended without a word"),
    };
    let tail: Vec<u8> = said.tail.into();
    let tail = String::from_utf8_lossy(&tail);
    let why = if tail.trim().is_empty() { how } else { format!("{how}: {}", tail.trim()) };
    let code = status.code().and_then(|code| u16::try_from(code).ok());
    failed(why, code, true)
}

fn span(of: Duration) -> Span {
    Span::from_micros(i64::try_from(of.as_micros()).unwrap_or(i64::MAX))
}

fn failed(error: String, code: Option<u16>, retryable: bool) -> End {
    End::Failed { error: Text::from(error), code, retryable, retry_after: None }
}

/// A process group; dropping it kills whoever is left in it. The kernel does not give its number to
/// another while somebody is.
#[derive(Debug)]
struct Group {
    number: Option<i32>,
    running: Arc<Mutex<BTreeSet<i32>>>,
}

impl Group {
    fn of(child: &Child, running: Arc<Mutex<BTreeSet<i32>>>) -> Group {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(number) = number {
            running.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
        Group { number, running }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            kill(number);
            self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
    }
}

fn kill(group: i32) {
    if let Some(pid) = Pid::from_raw(group) {
        // Nobody is left: that is what was wanted.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

//! The real binary over real sockets: a server process, a receiver of webhooks, a small client.
#![allow(dead_code)] // Each test file uses its part.
#![allow(clippy::expect_used, clippy::panic)] // A helper of a test may fail the test.

pub mod cluster;
pub mod database;
pub mod outbox;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Nothing in these tests takes longer unless something is broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A new API key of the store in this folder.
pub fn new_key(data: &Path, args: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["key", "create", "--json", "--data"])
        .arg(data)
        .args(args)
        .env_remove("DULY_API_KEY")
        .output()
        .expect("duly runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let made: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    made["key"].as_str().expect("a key").to_string()
}

pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    pub lines: Receiver<String>,
}

impl Server {
    /// Starts `duly serve` on a free port and waits for "ready".
    pub fn start(data: &Path) -> Server {
        Server::start_with(data, &[], &[])
    }

    /// The same with variables of its environment and further arguments.
    pub fn start_with(data: &Path, env: &[(&str, &OsStr)], args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(args);
        command.envs(env.iter().copied());
        Server::spawned(command)
    }

    /// A command that ends up as a server.
    pub fn spawned(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("duly starts");
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let mut address = None;
        loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                // A test that fails here leaves no process behind either.
                let _ = child.kill();
                let _ = child.wait();
                panic!("the server does not say that it is ready");
            };
            if let Some((_, text)) = line.split_once("://").filter(|(at, _)| at.contains("address"))
            {
                address = text.parse().ok();
            }
            if line == "ready" {
                break;
            }
        }
        Server { child, address: address.expect("an address"), lines }
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        ask(self.address, method, path, body, &[]).expect("an answer")
    }

    pub fn get(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.json()
    }

    pub fn listen(&self, path: &str) -> Listener {
        Listener::open(self.address, path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, &body.to_string())
    }

    /// Makes a job that must be accepted.
    pub fn submit(&self, body: &Value) -> Value {
        let reply = self.post("/v1/jobs", body);
        assert_eq!(reply.status, 202, "{}", reply.text);
        reply.json()
    }

    /// Waits until the run is in this state.
    pub fn run_is(&self, run: &Value, status: &str) -> Value {
        let path = format!("/v1/runs/{}", run.as_str().expect("a run id"));
        let until = Instant::now() + PATIENCE;
        loop {
            let reply = self.ask("GET", &path, "");
            if reply.status == 200 && reply.json()["status"] == status {
                return reply.json();
            }
            assert!(Instant::now() < until, "{path} is not {status}: {}", reply.text);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(mut self) {
        self.signal("-TERM");
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
    }

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Told {
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// An open stream of events.
pub struct Listener {
    reader: BufReader<TcpStream>,
    /// The last id that was heard, also without an event.
    pub id: String,
}

impl Listener {
    /// Opened, answered with 200, and listening.
    pub fn open(to: SocketAddr, path: &str, last: Option<&str>) -> Listener {
        let mut stream = TcpStream::connect(to).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        // In HTTP/1.0 a stream has no chunks and ends with its connection.
        let head = format!("GET {path} HTTP/1.0\r\nHost: {to}\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).expect("asked");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status");
        assert!(line.contains(" 200 "), "{line}");
        let mut listener = Listener { reader, id: String::new() };
        while listener.line().is_some_and(|line| !line.is_empty()) {}
        // "retry", then the first id.
        if last.is_empty() {
            while listener.id.is_empty() {
                let line = listener.line().expect("a first id");
                if let Some(id) = line.strip_prefix("id: ") {
                    listener.id = id.to_string();
                }
            }
        }
        listener
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).expect("the stream goes on");
        (read > 0).then(|| line.trim_end().to_string())
    }

    /// The next event; none when the stream has ended.
    pub fn next(&mut self) -> Option<Told> {
        let mut name = String::new();
        loop {
            let line = self.line()?;
            if let Some(id) = line.strip_prefix("id: ") {
                self.id = id.to_string();
            } else if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_string();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).expect("JSON");
                return Some(Told { id: self.id.clone(), name, data });
            }
        }
    }

    /// Waits for an event of this type.
    pub fn until(&mut self, name: &str) -> Told {
        loop {
            let told = self.next().unwrap_or_else(|| panic!("the stream ended before {name}"));
            if told.name == name {
                return told;
            }
        }
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> std::io::Result<Reply> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    let usual = [("Host", to.to_string()), ("Content-Type", "application/json".to_string())];
    for (name, value) in &usual {
        if !headers.iter().any(|(given, _)| given == name) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || std::io::Error::other("the answer broke off");
    let (head, text) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.get(9..12).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    Ok(Reply { status, head: head.to_string(), text: text.to_string() })
}

#[derive(Debug)]
pub struct Hook {
    pub head: String,
    pub body: String,
    pub at: Instant,
}

impl Hook {
    pub fn header(&self, name: &str) -> &str {
        header(&self.head, name).unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }
}

/// A receiver of webhooks: answers with the given statuses in turn, then with 200.
pub struct Hooks {
    pub address: SocketAddr,
    pub heard: Receiver<Hook>,
}

impl Hooks {
    pub fn start(answers: &[&str]) -> Hooks {
        Hooks::slow(answers, Duration::ZERO)
    }

    pub fn slow(answers: &[&str], delay: Duration) -> Hooks {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut answers: Vec<String> = answers.iter().rev().map(|one| one.to_string()).collect();
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answers.pop().unwrap_or_else(|| "200 OK\r\n".to_string());
                let tell = tell.clone();
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let Some((head, body)) = read_request(&mut reader) else { return };
                    let _ = tell.send(Hook { head, body, at: Instant::now() });
                    std::thread::sleep(delay);
                    let answer = format!(
                        "HTTP/1.1 {answer}Content-Length: 11\r\nConnection: close\r\n\r\n{{\"ok\":true}}"
                    );
                    let _ = reader.get_mut().write_all(answer.as_bytes());
                });
            }
        });
        Hooks { address, heard }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn next(&self) -> Hook {
        self.heard.recv_timeout(PATIENCE).expect("a webhook arrives")
    }

    /// Nothing more has come.
    pub fn assert_quiet(&self) {
        if let Ok(hook) = self.heard.try_recv() {
            panic!("another webhook: {}", hook.head);
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

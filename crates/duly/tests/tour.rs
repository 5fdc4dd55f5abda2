//! The two-minute tour of README.md, run as it stands there: only the ports are others, because
//! somebody may be using the usual ones.
#![allow(clippy::expect_used)]

use crate::support::{PATIENCE, Server};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

#[test]
fn the_tour_of_the_readme_works() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).expect("README.md");
    let tour = readme.split("```sh tour\n").nth(1).and_then(|rest| rest.split("```").next());
    let tour = tour.expect("a block `sh tour`");
    for command in ["duly serve\n", "duly listen --fail-first 1\n"] {
        assert!(readme.contains(command), "the tour begins with {command}");
    }
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let binary = env!("CARGO_BIN_EXE_duly");
    let mut listener = Command::new(binary)
        .args(["listen", "--fail-first", "1", "--port", "0", "--data"])
        .arg(data.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("duly listen starts");
    let (tell, lines) = channel();
    let out = BufReader::new(listener.stdout.take().expect("stdout"));
    std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
    });
    let first = lines.recv_timeout(PATIENCE).expect("it listens");
    let port = first.rsplit(':').next().expect("a port");

    let tour = tour
        .replace("127.0.0.1:7070", &server.address.to_string())
        .replace("127.0.0.1:9000", &format!("127.0.0.1:{port}"));
    let folder = Path::new(binary).parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &tour])
        .env("PATH", path)
        .env("DULY_URL", format!("http://{}", server.address))
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains(r#""run_status":"succeeded""#), "{said}");
    assert!(said.lines().any(|line| line == "status           succeeded"), "{said}");

    let mut wanted = vec![
        ("POST /hello", "attempt=1", "answer=500"),
        ("POST /hello", "attempt=2", "answer=200"),
        ("POST /later", "attempt=1", "answer=200"),
    ];
    while !wanted.is_empty() {
        let line = lines.recv_timeout(PATIENCE).expect("a webhook");
        assert!(line.contains("signature=good"), "{line}");
        wanted.retain(|(path, attempt, answer)| {
            !(line.starts_with(path) && line.contains(attempt) && line.contains(answer))
        });
    }
    listener.kill().expect("killed");
    listener.wait().expect("it ends");
    server.stop();
}

//! `duly bench` against the real server: every job is seen once, and what goes wrong is said.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use crate::support::Server;
use serde_json::Value;
use std::process::{Command, Output};

fn bench(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.arg("bench").args(args).args(["--url", url]).env_remove("DULY_URL");
    command.output().expect("duly bench runs")
}

#[test]
fn every_work_sees_each_of_its_jobs_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let url = format!("http://{}", server.address);
    let done = bench(&url, &["all", "--jobs", "300", "--batch", "70", "--json"]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    let rows: Vec<Value> = serde_json::from_str(&out).expect("JSON");
    let works: Vec<&str> = rows.iter().filter_map(|row| row["work"].as_str()).collect();
    let first =
        ["submit", "single", "noop", "drain", "webhook", "burst", "burst-webhook", "spread"];
    assert_eq!(works, [&first[..], &["spread-webhook"]].concat());
    rows.iter().for_each(sound);
    // Due at one instant or spread: how late is told.
    for row in
        rows.iter().filter(|row| row["work"].as_str().is_some_and(|work| work.contains("burst")))
    {
        assert!(row["millis"]["p99"].as_f64().is_some(), "{row}");
    }
    server.stop();
}

/// 300 jobs, each seen once.
fn sound(row: &Value) {
    assert_eq!(row["jobs"], 300, "{row}");
    assert!(row["per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    for bad in ["missing", "repeated", "early", "strange"] {
        assert_eq!(row["tally"][bad], 0, "{bad}: {row}");
    }
}

#[test]
fn works_beside_other_work_see_each_of_their_own_jobs_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let url = format!("http://{}", server.address);
    let tenants = ["--queue", "t", "--rate", "1000"];
    for (work, more) in [
        ("recurring", &[][..]),
        ("stampede", &[]),
        ("fill", &["--queue", "t", "--group", "heavy"]),
        ("tenants", &tenants),
    ] {
        let done = bench(&url, &[&[work, "--jobs", "300", "--json"], more].concat());
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{work}: {out}{err}");
        let rows: Vec<Value> = serde_json::from_str(&out).expect("JSON");
        rows.iter().for_each(sound);
    }
    server.stop();
}

#[test]
fn what_cannot_be_measured_is_said() {
    let nobody = bench("http://127.0.0.1:9", &["noop", "--jobs", "10"]);
    assert_eq!(nobody.status.code(), Some(1));
    let elsewhere = bench("http://192.0.2.1:7070", &["noop", "--jobs", "10"]);
    let words = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(words.contains("this machine only"), "{words}");
    let unknown = bench("http://127.0.0.1:9", &["everything"]);
    let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(words.contains("burst-webhook"), "the works are named: {words}");
}

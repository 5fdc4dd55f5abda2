//! docs/guides/worker-protocol.md, run as it stands there: only the port is another.
#![allow(clippy::expect_used)]

use crate::support::Server;
use std::path::Path;
use std::process::Command;

/// Runs a guide's blocks as one script; what it said.
fn played(file: &str, least: usize) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(file);
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let blocks: Vec<&str> = guide
        .split("```sh guide\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("an end"))
        .collect();
    assert!(blocks.len() >= least, "{} blocks", blocks.len());
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let script = blocks.concat().replace("127.0.0.1:7070", &server.address.to_string());
    // The page says `duly`: that is the binary under test.
    let folder = Path::new(env!("CARGO_BIN_EXE_duly")).parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a PATH"));
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(data.path())
        .env("PATH", path)
        .env("DULY_URL", format!("http://{}", server.address))
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    server.stop();
    said
}

#[test]
fn the_guide_to_the_protocol_works() {
    let said = played("worker-protocol.md", 7);
    // What the page says about what it does.
    for wanted in [
        r#""group":"cust-42""#,
        r#""payload":{"customer": 42}"#,
        r#""status":"ok""#,
        r#""progress":{"fraction":0.5,"message":"page 3 of 6","at":"20"#,
        r#""run_status":"retrying""#,
        r#""checkpoint":{"page": 3}"#,
        r#""previous_error":"the printer is on fire""#,
        r#""attempt":2"#,
        // The first attempt's settle, sent again beside the second one's, gets the answer it got.
        r#"Z"},{"run_id":"run_"#,
        r#""status":"ok","run_status":"succeeded"}]}"#,
        r#"{"left":true}"#,
        r#""id":"host-2-1","status":"active""#,
        r#""id":"host-2-1","status":"quiet""#,
        r#"{"results":[],"signal":"quiet"}"#,
    ] {
        assert!(said.contains(wanted), "{wanted} is missing in:\n{said}");
    }
}

#[test]
fn the_guide_to_autoscaling_works() {
    let said = played("autoscaling.md", 1);
    for wanted in [
        r#""ready":1,"#,
        r#""arrival_per_s":0."#,
        r#""service_per_s":0.0,"suggested_workers":1,"#,
        "arrival_per_s    0.",
        "suggested_workers 1",
    ] {
        assert!(said.contains(wanted), "{wanted} is missing in:\n{said}");
    }
}

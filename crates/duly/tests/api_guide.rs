//! docs/guides/api.md, run as it stands there: only the ports are others.
#![allow(clippy::expect_used)]

use crate::support::Server;
use std::path::Path;
use std::process::Command;

#[test]
fn the_guide_to_the_interface_works() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/api.md");
    let guide = std::fs::read_to_string(guide).expect("docs/guides/api.md");
    let blocks: Vec<&str> = guide
        .split("```sh guide\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("an end"))
        .collect();
    assert!(blocks.len() > 8, "{} blocks", blocks.len());
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(data.path());
    let script = blocks.concat().replace("127.0.0.1:7070", &server.address.to_string());
    let binary = Path::new(env!("CARGO_BIN_EXE_duly"));
    let folder = binary.parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .env("PATH", path)
        .env("DULY_URL", format!("http://{}", server.address))
        .env_remove("DULY_NAMESPACE")
        .env_remove("DULY_API_KEY")
        .current_dir(data.path())
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    // What the page says about what it does.
    for wanted in [
        r#""code":"dst""#,
        r#"{"results":[{"status":202,"id":"job_"#,
        r#""code":"version""#,
        "created   hourly-tidy (version 1)",
        "unchanged hourly-tidy (version 1)",
        "a worker of kind bill",
        r#""kind":"backfill""#,
        "would_run        7",
        "printer is broken",
        ": listening",
    ] {
        assert!(said.contains(wanted), "{wanted} is missing in:\n{said}");
    }
    server.stop();
}

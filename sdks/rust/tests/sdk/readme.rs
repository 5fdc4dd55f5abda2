//! The README's example is a program that works.

use crate::server::Server;
use std::path::Path;
use std::process::Command;

mod bills {
    include!("../../examples/bills.rs");

    pub fn run() {
        main().unwrap();
    }
}

#[test]
#[ignore = "the program that the next test starts"]
fn example_program() {
    bills::run();
}

#[test]
fn the_readme_is_true() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(package.join("README.md")).unwrap();
    let example = std::fs::read_to_string(package.join("examples/bills.rs")).unwrap();
    let block = readme.split("```rust,no_run\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(block, example, "README.md shows examples/bills.rs");

    let server = Server::start();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "readme::example_program", "--ignored", "--nocapture"])
        .env("DULY_URL", &server.url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("\"customer\":42"), "{said}");
}

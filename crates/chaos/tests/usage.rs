//! The program itself. That it has a test of this kind also makes `cargo test` build it, so that `scripts/build-tests.sh`
//! builds everything that tests run, once.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use std::process::{Command, Output};

fn chaos(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chaos")).args(args).output().expect("chaos starts")
}

#[test]
fn what_it_does_not_know_is_refused_before_anything_is_killed() {
    for args in [&["--faluts", "3"][..], &["--cluster", "one"], &["--only", "Earthquake"]] {
        let ran = chaos(args);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(args[args.len() - 1]) || said.contains(args[0]), "{said}");
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn help_names_what_ci_runs() {
    let ran = chaos(&["--help"]);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(0));
    assert!(said.contains("--ci") && said.contains("--cluster"), "{said}");
}

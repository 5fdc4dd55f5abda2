//! Runs the real binary.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use std::process::{Command, Output};

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn duly<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Ran {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(args)
        // Wrapping of help texts and colours must not depend on who runs the test.
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .expect("the binary starts");
    Ran {
        code: status.code().expect("it exits by itself"),
        out: String::from_utf8(stdout).expect("UTF-8 on stdout"),
        err: String::from_utf8(stderr).expect("UTF-8 on stderr"),
    }
}

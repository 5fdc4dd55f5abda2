//! What `duly schedule preview` refuses: exit code 2, the column, and the way out.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use crate::common::duly;

fn refused(args: &[&str]) -> String {
    let ran = duly(&[&["schedule", "preview"], args].concat());
    assert_eq!(ran.code, 2, "{args:?} printed {:?} {:?}", ran.out, ran.err);
    assert_eq!(ran.out, "", "{args:?}");
    assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
    ran.err
}

/// The character of the second line that the caret of the third points at.
fn pointed(text: &str) -> Option<char> {
    let mut lines = text.lines().skip(1);
    let (value, caret) = (lines.next()?, lines.next()?);
    value.chars().nth(caret.find('^')?)
}

#[test]
fn a_bad_expression_is_pointed_at() {
    let text = refused(&["--cron", "0 0 32 * *"]);
    assert!(text.starts_with("error: --cron, column 5: "), "{text}");
    assert_eq!(pointed(&text), Some('3'), "{text}");
    assert!(text.contains("31"), "what is allowed is told: {text}");
    assert!(text.contains("\nhelp: "), "{text}");

    let text = refused(&["--cron", "0 25 * * *"]);
    assert!(text.starts_with("error: --cron, column 3: "), "{text}");
    let text = refused(&["--cron", "0 0 * foo *"]);
    assert_eq!(pointed(&text), Some('f'), "{text}");
    let text = refused(&["--cron", "*/0 * * * *"]);
    assert_eq!(pointed(&text), Some('0'), "{text}");
}

#[test]
fn rubbish_is_refused_without_a_fuss() {
    let long = "1,".repeat(50_000) + "1 * * * *";
    let nested = "H(".repeat(10_000);
    for cron in [
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * * * * *",
        "@never",
        "@every",
        "@every -5s",
        "\u{0}",
        "🦀 * * * *",
        "* * * * 🦀",
        "1-0 * * * *",
        "99999999999999999999 * * * *",
        "1--2 * * * *",
        "\t\n",
        "0 0 L-99 * *",
        "0 0 * * 1#9",
        "0 0 0W * *",
        "H(5-1) * * * *",
        &nested,
    ] {
        // An argument cannot hold a NUL byte at all.
        if cron.contains('\u{0}') {
            continue;
        }
        let text = refused(&["--cron", cron]);
        assert!(text.len() < 2_000, "{} bytes for {:.20}", text.len(), cron);
    }
    // Long but not wrong is still bounded in time and output.
    let ran = duly(&["schedule", "preview", "--cron", &long, "--after", "2027-01-01T00:00:00Z"]);
    assert!(ran.code == 2 || ran.code == 0);
    assert!(ran.err.len() < 2_000, "{} bytes", ran.err.len());
}

#[test]
fn bad_durations() {
    for (flag, value, column) in [
        ("--every", "15", 3),
        ("--every", "", 1),
        ("--every", "15 m", 3),
        ("--every", "1y", 2),
        ("--delay", "PT", 3),
        ("--delay", "soon", 1),
    ] {
        let text = refused(&[flag, value]);
        assert!(text.starts_with(&format!("error: {flag}, column {column}: ")), "{text}");
        assert!(text.contains(&format!("help: for example {flag} 15m")), "{text}");
    }
    let text = refused(&["--cron", "0 0 * * *", "--jitter", "10"]);
    assert!(text.starts_with("error: --jitter, column 3: the number 10 has no unit"), "{text}");
    refused(&["--every", "0s"]);
    refused(&["--every", "999ms"]);
}

#[test]
fn bad_times() {
    let text = refused(&["--at", "2027-03-28T01:00:00"]);
    assert!(text.contains("column 20: the offset from UTC is missing"), "{text}");
    assert!(text.contains("help: for example --at 2027-03-28T01:00:00Z"), "{text}");
    refused(&["--at", "tomorrow"]);
    refused(&["--cron", "0 0 * * *", "--after", "2027-02-30T00:00:00Z"]);
    let text = refused(&["--cron", "0 0 * * *", "--start-at", "1969-12-31T23:59:59Z"]);
    assert!(
        text.contains("times lie between 1970-01-01T00:00:00Z and 9999-12-31T00:00:00Z"),
        "{text}"
    );
    refused(&["--cron", "0 0 * * *", "--end-at", "9999-12-31T23:59:59Z"]);
}

#[test]
fn an_unknown_zone_gets_the_nearest_name() {
    let text = refused(&["--cron", "0 0 * * *", "--timezone", "Europe/Zürich"]);
    assert!(text.contains("Europe/Zurich"), "{text}");
    let text = refused(&["--cron", "0 0 * * *", "--timezone", "Europe/Berlln"]);
    assert!(text.contains("did you mean --timezone \"Europe/Berlin\"?"), "{text}");
    refused(&["--cron", "0 0 * * *", "--timezone", ""]);
    refused(&["--cron", "0 0 * * *", "--timezone", "../../etc/passwd"]);
}

#[test]
fn counts_have_a_bound() {
    for count in ["0", "1001", "99999999999999999999", "-1", "ten", "1.5", ""] {
        let argument = format!("--count={count}");
        let text = refused(&["--cron", "0 0 * * *", &argument]);
        assert!(text.contains("a preview shows 1 to 1000 instants"), "{count}: {text}");
    }
    for runs in ["0", "-1", "many"] {
        let argument = format!("--max-runs={runs}");
        let text = refused(&["--cron", "0 0 * * *", &argument]);
        assert!(text.contains("a whole number from 1"), "{runs}: {text}");
    }
}

#[test]
fn flags_that_contradict_each_other() {
    refused(&[]);
    refused(&["--json"]);
    refused(&["--cron", "0 0 * * *", "--every", "15m"]);
    refused(&["--at", "2027-01-01T00:00:00Z", "--delay", "15m"]);
    // Only cron is read in a zone; silence would look like agreement.
    refused(&["--every", "15m", "--timezone", "Europe/Berlin"]);
    refused(&["--every", "15m", "--dst-gap", "skip"]);
    refused(&["--delay", "15m", "--dialect", "quartz"]);
    refused(&["--cron", "0 0 * * *", "--dst-gap", "maybe"]);
    refused(&["--cron", "0 0 * * *", "--unknown"]);
}

#[test]
fn an_end_before_the_start_is_refused() {
    let bounds = ["--start-at", "2027-02-01T00:00:00Z", "--end-at", "2027-01-01T00:00:00Z"];
    refused(&[&["--cron", "0 0 * * *"], &bounds[..]].concat());
}

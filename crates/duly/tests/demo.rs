//! `duly demo crash`, with few jobs.
#![allow(clippy::expect_used)]

use crate::common::duly;
use serde_json::Value;

#[test]
fn the_demo_counts_honestly_and_loses_nothing() {
    let ran = duly(&["demo", "crash", "--jobs", "60", "--lead", "1", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let count: Value = serde_json::from_str(&ran.out).expect("JSON");
    let number = |name: &str| count[name].as_u64().expect("a number");
    assert_eq!(number("accepted"), 60, "{count}");
    assert_eq!((number("delivered"), number("lost"), number("early")), (60, 0, 0), "{count}");
    assert!(number("before_kill") >= 30, "killed in the middle: {count}");
}

#[test]
fn the_table_is_for_people() {
    let ran = duly(&["demo", "crash", "--jobs", "4", "--lead", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for word in ["kill -9 after", "started again", "accepted   4", "delivered  4", "lost       0"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
}

//! docs/state_machine.md draws the table of moves; this test draws it again and compares.
//! `DULY_BLESS=1` writes the drawing instead.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use model::RunState;
use shard::lifecycle::TABLE;
use std::fmt::Write;

const BEGIN: &str = "<!-- drawn from lifecycle::TABLE -->\n";
const END: &str = "<!-- end of the drawing -->";
const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state_machine.md");

fn drawing() -> String {
    let mut text = String::from("```mermaid\nstateDiagram-v2\n");
    for state in [RunState::Scheduled, RunState::Blocked, RunState::Ready] {
        writeln!(text, "    [*] --> {state:?}").unwrap();
    }
    for (from, by, to) in TABLE {
        writeln!(text, "    {from:?} --> {to:?}: {}", format!("{by:?}").to_lowercase()).unwrap();
    }
    for state in RunState::ALL.into_iter().filter(|state| state.is_final()) {
        if TABLE.iter().any(|(_, _, to)| *to == state) {
            writeln!(text, "    {state:?} --> [*]").unwrap();
        }
    }
    text.push_str("```\n");
    text
}

#[test]
#[allow(clippy::disallowed_methods)] // A test may look at a file; the crate may not.
fn the_document_draws_the_table() {
    let doc = std::fs::read_to_string(DOC).expect("docs/state_machine.md is there");
    let (head, rest) = doc.split_once(BEGIN).expect("it says where the drawing begins");
    let (_, tail) = rest.split_once(END).expect("and where it ends");
    let fresh = format!("{head}{BEGIN}{}{END}{tail}", drawing());
    if std::env::var("DULY_BLESS").is_ok() {
        std::fs::write(DOC, &fresh).expect("it can be written");
    }
    let doc = std::fs::read_to_string(DOC).expect("docs/state_machine.md is there");
    assert!(doc == fresh, "docs/state_machine.md is not lifecycle::TABLE: run with DULY_BLESS=1");
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_document_has_a_word_for_every_state_and_move() {
    let doc = std::fs::read_to_string(DOC).expect("docs/state_machine.md is there");
    for state in RunState::ALL {
        assert!(doc.contains(&format!("**{state:?}**")), "{state:?}");
    }
    for (_, by, _) in TABLE {
        assert!(doc.contains(&format!("**{by:?}**")), "{by:?}");
    }
}

//! Every bound is named in a `limits.rs`, has a reason, and stands in docs/limits.md.
#![allow(clippy::expect_used)]

use std::path::Path;

/// Crate (from crates/), its heading, and whether every bound must say why: those that callers meet.
const FILES: [(&str, &str, bool); 7] = [
    ("http", "Requests and connections", true),
    ("wire", "Fields of requests", true),
    ("executor", "Webhooks", false),
    ("node", "One process", false),
    ("shard", "The core", false),
    ("peers", "Between nodes", false),
    ("../sdks/rust", "The Rust SDK", true),
];

const BEGIN: &str = "<!-- generated: limits -->\n";
const END: &str = "<!-- end -->";

fn table(krate: &str, heading: &str, strict: bool, root: &Path) -> String {
    let path = root.join(format!("crates/{krate}/src/limits.rs"));
    let source = std::fs::read_to_string(&path).expect("a limits.rs");
    let mut text = format!("## {heading}\n\n| name | value | why |\n|---|---|---|\n");
    let (mut why, mut last) = (Vec::new(), String::new());
    let mut statements = Vec::new();
    for line in source.lines() {
        if let Some(comment) = line.strip_prefix("///") {
            why.push(comment.trim());
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            // One comment may stand for the bounds that follow it without a gap.
            let reason = if why.is_empty() { last.clone() } else { why.join(" ") };
            why.clear();
            last.clone_from(&reason);
            statements.push((rest.to_string(), reason));
        } else if line.trim().is_empty() || line.starts_with("//!") {
            why.clear();
            last.clear();
        } else if let Some((statement, _)) = statements.last_mut()
            && !statement.ends_with(';')
        {
            statement.push(' ');
            statement.push_str(line.trim());
        }
    }
    for (statement, reason) in statements {
        let (name, value) = statement.split_once('=').expect("a value");
        let name = name.split(':').next().unwrap_or(name).trim();
        let value = value.trim().trim_end_matches(';');
        assert!(!strict || !reason.is_empty(), "{name} in {} has no reason", path.display());
        text.push_str(&format!("| `{name}` | `{value}` | {} |\n", reason.replace('|', "\\|")));
    }
    text.push('\n');
    text
}

#[test]
fn the_document_lists_every_limit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tables: String = FILES
        .iter()
        .map(|(krate, heading, strict)| table(krate, heading, *strict, &root))
        .collect();
    let path = root.join("docs/limits.md");
    let text = std::fs::read_to_string(&path).expect("docs/limits.md");
    let (before, rest) = text.split_once(BEGIN).expect("the place of the limits");
    let (kept, after) = rest.split_once(END).expect("the end of the limits");
    if std::env::var_os("DULY_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).expect("written");
        return;
    }
    assert!(
        kept == tables,
        "docs/limits.md has drifted; run: DULY_BLESS=1 cargo test -p duly --test end_to_end limits::"
    );
}

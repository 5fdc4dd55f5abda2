//! The rules of ARCHITECTURE.md, kept by a test over cargo's own knowledge of the workspace. A rule
//! about a crate that does not exist yet wakes up when the crate appears.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates that decide without touching the world: the simulator and the proofs stand on them.
const PURE: [&str; 3] = ["model", "calendar", "shard"];
const RUNTIMES: [&str; 6] = ["tokio", "async-std", "smol", "mio", "async-io", "futures-executor"];
const SQL: [&str; 7] = [
    "rusqlite",
    "libsqlite3-sys",
    "tokio-postgres",
    "postgres",
    "postgres-types",
    "sqlx",
    "diesel",
];
const HTTP: [&str; 7] = ["hyper", "hyper-util", "axum", "http", "h2", "reqwest", "ureq"];
const CLOCKS: [&str; 6] = ["chrono", "time", "quanta", "coarsetime", "instant", "web-time"];
const RANDOM: [&str; 6] = ["rand", "rand_core", "getrandom", "fastrand", "uuid", "nanorand"];
const BACKENDS: [&str; 2] = ["store-sqlite", "store-postgres"];

/// Package → what it depends on, without what only its tests need.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn violations(ours: &BTreeSet<String>, graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let banned: Vec<&str> =
        [&RUNTIMES[..], &SQL, &HTTP, &CLOCKS, &RANDOM].into_iter().flatten().copied().collect();
    for name in PURE {
        for bad in reach(graph, name).iter().filter(|one| banned.contains(&one.as_str())) {
            found.push(format!("{name} is pure and must not reach {bad}"));
        }
    }
    for other in reach(graph, "shard").iter().filter(|one| one.starts_with("store")) {
        found.push(format!("shard does not know storage and must not reach {other}"));
    }
    for other in reach(graph, "wire").intersection(ours) {
        found.push(format!("wire depends on nothing of ours and must not reach {other}"));
    }
    for other in reach(graph, "duly-client").intersection(ours) {
        found.push(format!("duly-client is for users of a server and must not reach {other}"));
    }
    for name in ours {
        let direct = graph.get(name).cloned().unwrap_or_default();
        for other in &direct {
            if BACKENDS.contains(&other.as_str()) && !["duly", "chaos"].contains(&name.as_str()) {
                found.push(format!("only duly names backends, {name} must not name {other}"));
            }
            if SQL.contains(&other.as_str()) && !BACKENDS.contains(&name.as_str()) {
                found.push(format!("SQL lives in the backends, {name} must not use {other}"));
            }
        }
    }
    found
}

/// Everything below `name`, itself excluded. Empty for a crate that does not exist.
fn reach(graph: &Graph, name: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![name.to_string()];
    while let Some(next) = open.pop() {
        for below in graph.get(&next).into_iter().flatten() {
            if seen.insert(below.clone()) {
                open.push(below.clone());
            }
        }
    }
    seen
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("two levels up")
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc says its host").to_string()
}

fn workspace() -> (BTreeSet<String>, Graph) {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // What other systems would need has not been downloaded.
        .args(["--filter-platform", &host()])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_string();
    let list = |value: &Value| value.as_array().cloned().expect("an array");
    let names: BTreeMap<String, String> =
        list(&data["packages"]).iter().map(|one| (text(&one["id"]), text(&one["name"]))).collect();
    let ours = list(&data["workspace_members"]).iter().map(|id| names[&text(id)].clone()).collect();
    let mut graph = Graph::new();
    for node in list(&data["resolve"]["nodes"]) {
        let below = graph.entry(names[&text(&node["id"])].clone()).or_default();
        for dep in list(&node["deps"]) {
            if list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].as_str() != Some("dev")) {
                below.insert(names[&text(&dep["pkg"])].clone());
            }
        }
    }
    (ours, graph)
}

#[test]
fn the_workspace_keeps_the_rules() {
    let (ours, graph) = workspace();
    assert!(ours.contains("calendar") && graph["calendar"].contains("jiff"), "metadata was read");
    assert_eq!(violations(&ours, &graph), Vec::<String>::new());
}

#[test]
fn each_rule_can_be_broken() {
    let ours: BTreeSet<String> =
        ["model", "calendar", "shard", "store", "store-sqlite", "wire", "http", "node", "duly"]
            .map(String::from)
            .into();
    let good: [(&str, &[&str]); 5] = [
        ("calendar", &["model", "jiff"]),
        ("shard", &["model", "calendar"]),
        ("store-sqlite", &["store", "rusqlite"]),
        ("duly", &["store-sqlite", "wire", "node"]),
        ("node", &["shard", "store", "tokio"]),
    ];
    let graph_with = |extra: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (name, below) in good {
            graph.insert(name.into(), below.iter().map(|one| one.to_string()).collect());
        }
        for (name, below) in extra {
            graph.entry(name.to_string()).or_default().insert(below.to_string());
        }
        graph
    };
    assert_eq!(violations(&ours, &graph_with(&[])), Vec::<String>::new());
    for (extra, said) in [
        (&[("jiff", "getrandom")][..], "calendar is pure and must not reach getrandom"),
        (&[("model", "tokio")], "shard is pure and must not reach tokio"),
        (&[("shard", "store")], "shard does not know storage and must not reach store"),
        (&[("wire", "x"), ("x", "model")], "wire depends on nothing of ours"),
        (
            &[("duly-client", "wire")],
            "duly-client is for users of a server and must not reach wire",
        ),
        (&[("node", "store-sqlite")], "only duly names backends, node must not name store-sqlite"),
        (&[("http", "rusqlite")], "SQL lives in the backends, http must not use rusqlite"),
    ] {
        let found = violations(&ours, &graph_with(extra));
        assert!(found.iter().any(|one| one.contains(said)), "{said}: {found:?}");
    }
}

/// Words that mean "asks the machine". Reading a clock belongs to node, and in the binary to one
/// file; starting threads and tasks belongs to node; the pure crates do nothing of the kind.
const CLOCK_WORDS: [&str; 4] = ["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now"];
const SPAWN_WORDS: [&str; 2] = ["tokio::spawn", "thread::spawn"];
const WORLD_WORDS: [&str; 5] = ["std::fs", "std::net", "std::env", "std::process", "std::thread"];

fn source_faults(krate: &str, file: &str, source: &str) -> Vec<String> {
    let mut words = Vec::new();
    // The tools that stand outside: real processes and their faults.
    let outside = ["node", "chaos", "bench"].contains(&krate);
    let clock_file = krate == "duly" && file == "clock.rs";
    if !outside && !clock_file {
        words.extend(CLOCK_WORDS);
    }
    if !outside {
        words.extend(SPAWN_WORDS);
    }
    if PURE.contains(&krate) {
        words.extend(WORLD_WORDS);
    }
    if krate == "shard" {
        // Iteration in hash order differs between runs of the same seed.
        words.extend(["HashMap", "HashSet"]);
    }
    let hit = words.into_iter().filter(|word| source.contains(word));
    hit.map(|word| format!("crates/{krate}/src/{file} must not use {word}")).collect()
}

#[test]
fn sources_ask_the_machine_only_where_they_may() {
    let mut found = Vec::new();
    let mut read = 0;
    for krate in std::fs::read_dir(root().join("crates")).expect("crates") {
        let krate = krate.expect("an entry");
        let name = krate.file_name().to_string_lossy().into_owned();
        let src = krate.path().join("src");
        let mut open = vec![src.clone()];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                let inside = std::fs::read_dir(&path).expect("a directory");
                open.extend(inside.map(|entry| entry.expect("an entry").path()));
            } else if path.extension().is_some_and(|end| end == "rs") {
                let file = path.strip_prefix(&src).expect("below src").to_string_lossy();
                let source = std::fs::read_to_string(&path).expect("a source file");
                found.extend(source_faults(&name, &file, &source));
                read += 1;
            }
        }
    }
    assert!(read > 10, "only {read} source files were found");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn each_source_rule_can_be_broken() {
    for (krate, file, source, faults) in [
        ("calendar", "lib.rs", "let t = SystemTime::now();", 1),
        ("duly", "clock.rs", "let t = SystemTime::now();", 0),
        ("duly", "output.rs", "let t = SystemTime::now();", 1),
        ("node", "drive.rs", "tokio::spawn(f); Instant::now();", 0),
        ("http", "lib.rs", "tokio::spawn(f);", 1),
        ("shard", "lib.rs", "use std::collections::HashMap;", 1),
        ("store", "lib.rs", "use std::collections::HashMap;", 0),
        ("model", "lib.rs", "std::fs::read(x)", 1),
    ] {
        assert_eq!(source_faults(krate, file, source).len(), faults, "{krate}/{file}: {source}");
    }
}

#[test]
fn the_architecture_document_knows_every_crate() {
    let (ours, _) = workspace();
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let missing: Vec<&String> =
        ours.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not say what {missing:?} is for");
}

//! Every command in README.md and docs/guides/schedules.md is run with the real binary and must
//! print what the page says. After a wanted change of wording: `DULY_BLESS=1 cargo test -p duly --test end_to_end guide::`.
#![allow(clippy::expect_used)] // A helper of a test may fail the test.

use std::path::{Path, PathBuf};

/// A block ```` ```console ```` (or ```` ```console exit=2 ````): `$ command`, then its output.
#[derive(Debug)]
struct Example {
    line: usize,
    code: i32,
    command: String,
    output: String,
}

const GUIDE: &str = "docs/guides/schedules.md";
const PAGES: [&str; 2] = [GUIDE, "README.md"];

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn examples(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```console") else { continue };
        let code = match info.trim().strip_prefix("exit=") {
            Some(code) => code.parse().expect("a number after exit="),
            None => 0,
        };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let mut rest = block.iter();
        let mut command = rest.next().and_then(|line| line.strip_prefix("$ ")).map(String::from);
        while let Some(text) = command.as_mut().filter(|text| text.ends_with('\\')) {
            text.pop();
            text.push_str(rest.next().expect("a line after a backslash"));
        }
        let output: String = rest.map(|line| format!("{line}\n")).collect();
        let command = command.expect("a console block begins with `$ `");
        found.push(Example { line: number + 1, code, command, output });
    }
    found
}

/// Splits as a shell does, as far as the guide needs it: blanks, single and double quotes.
fn words(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => found.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}

fn run(example: &Example) -> (i32, String) {
    let words = words(&example.command);
    assert_eq!(words.first().map(String::as_str), Some("duly"), "{}", example.command);
    let ran = crate::common::duly(&words[1..]);
    (ran.code, ran.out + &ran.err)
}

#[test]
fn every_example_prints_what_the_page_says() {
    let mut wrong = String::new();
    for name in PAGES {
        let text = std::fs::read_to_string(page(name)).expect("the page");
        let examples = examples(&text);
        assert!(!examples.is_empty(), "{name} has no example");
        if std::env::var_os("DULY_BLESS").is_some() {
            std::fs::write(page(name), blessed(&text, &examples)).expect("the page is written");
            continue;
        }
        for example in &examples {
            let (code, output) = run(example);
            if (code, &output) != (example.code, &example.output) {
                wrong.push_str(&format!(
                    "{name}:{}: {}\nthe page says (exit {}):\n{}\nduly says (exit {code}):\n{output}\n",
                    example.line, example.command, example.code, example.output
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn blessed(text: &str, examples: &[Example]) -> String {
    let mut new = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        new.push_str(&format!("{line}\n"));
        if let Some(example) = examples.iter().find(|example| example.line == number + 1) {
            for (_, line) in lines.by_ref() {
                new.push_str(&format!("{line}\n"));
                if !line.ends_with('\\') {
                    break;
                }
            }
            new.push_str(&run(example).1);
            new.push_str("```\n");
            lines.by_ref().find(|(_, line)| *line == "```");
        }
    }
    new
}

#[test]
fn the_guide_shows_every_form() {
    let text = std::fs::read_to_string(page(GUIDE)).expect("the guide");
    let commands: String = examples(&text).into_iter().map(|one| one.command + "\n").collect();
    for form in [
        "--cron",
        "--every",
        "--at ",
        "--delay",
        "--start-at",
        "--end-at",
        "--max-runs",
        "--jitter",
        "--seed",
        "--json",
        "--dialect quartz",
        "--dst-gap skip",
        "--dst-repeat second",
        "--dst-repeat both",
        "L-",
        "LW",
        "15W",
        "#",
        "5L",
        "?",
        "@daily",
        "@every",
        "H H",
        "H(",
        "*/",
        "Europe/Berlin",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Pacific/Apia",
    ] {
        assert!(commands.contains(form), "no example in the guide shows {form}");
    }
}

#[test]
fn the_reader_of_examples_reads() {
    let text = "a\n```console exit=2\n$ duly a \\\n  'b c' \"d'e\" \"\"\nout\n\nmore\n```\nb\n";
    let found = examples(text);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].line, found[0].code), (2, 2));
    assert_eq!(found[0].output, "out\n\nmore\n");
    assert_eq!(words(&found[0].command), ["duly", "a", "b c", "d'e", ""]);
}

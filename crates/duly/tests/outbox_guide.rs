//! docs/guides/outbox.md, run as it stands there: only the addresses are others.
#![allow(clippy::expect_used)]

use crate::support::Server;
use crate::support::database::Database;
use crate::support::outbox::{Sql, claimed, drained, payloads};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn blocks(guide: &str, kind: &str) -> Vec<String> {
    let begin = format!("```{kind}\n");
    let rest = guide.split(&begin).skip(1);
    rest.map(|rest| rest.split("```").next().expect("an end").to_string()).collect()
}

#[test]
fn the_guide_to_the_outbox_works() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/outbox.md");
    let guide = std::fs::read_to_string(guide).expect("docs/guides/outbox.md");
    let database = Database::start();
    let sql = Sql::connect(&database.address());
    sql.run(
        "CREATE ROLE owner SUPERUSER LOGIN; CREATE ROLE shop_app LOGIN; CREATE ROLE duly LOGIN;
             CREATE TABLE orders (id int, total numeric)",
    );
    let here = |text: &str| {
        let place = database.address().replace("postgres://postgres@", "@");
        text.replace("@db.internal/shop", &place)
    };
    let bash = blocks(&guide, "bash");
    let install = here(&bash[0]).replace("duly outbox", "$DULY outbox");
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &install])
        .env("DULY", env!("CARGO_BIN_EXE_duly"))
        .output()
        .expect("bash runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let statements = blocks(&guide, "sql");
    sql.run(&statements[0]);
    // The file of --config, then the flag.
    let data = tempfile::tempdir().expect("a folder");
    let config = data.path().join("duly.toml");
    std::fs::write(&config, here(&blocks(&guide, "toml")[0])).expect("written");
    let config = config.to_str().expect("a plain path");
    let server = Server::start_with(data.path(), &[], &["--config", config]);
    drained(&sql);
    let runs = claimed(&server, "mails");
    assert_eq!(payloads(&runs), [json!({"order": 42})]);
    assert_eq!(runs[0]["kind"], "send-mail");
    server.stop();

    let bad = "INSERT INTO duly_outbox.refused (id, at, queue, code, problem, job)
               SELECT n, now(), 'q', 'invalid', 'p', '{}' FROM generate_series(17, 19) n";
    sql.run(bad);
    sql.run(&statements[1]);
    assert_eq!(sql.count("duly_outbox.refused"), 0);
    assert_eq!(sql.count("duly_outbox.waiting"), 2);
    let flag = here(bash[1].trim_end().split_once("--outbox ").expect("a flag").1);
    let server = Server::start_with(data.path(), &[], &["--outbox", &flag]);
    drained(&sql);
    assert_eq!(sql.count("duly_outbox.refused"), 1, "one was repaired, one was not");
    assert_eq!(claimed(&server, "default").len(), 1);
    server.stop();
}

#[test]
fn a_file_with_a_wrong_outbox_is_refused_in_words() {
    let data = tempfile::tempdir().expect("a folder");
    for (text, said) in [
        ("outbox = 'x'", "[[outbox]]"),
        ("[[outbox]]\nname = 'a'", "outbox 1: the database is missing"),
        ("[[outbox]]\nname = 'a'\ndatabase = 'x'\nport = '1'", "no field port"),
        (
            "[[outbox]]\nname = 'a'\ndatabase = 'postgres://u@h/d'\n[[outbox]]\nname = 'a'\n\
             database = 'postgres://u@h/e'",
            "the same name",
        ),
    ] {
        let config = data.path().join("duly.toml");
        std::fs::write(&config, text).expect("written");
        let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .arg("--data")
            .arg(data.path().join("data"))
            .output()
            .expect("duly runs");
        let words = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{text}: {words}");
        assert!(words.contains(said), "{text}: {words}");
    }
}

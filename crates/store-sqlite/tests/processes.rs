//! A process that is killed, and threads that read while another writes.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{folder, make, open};
use model::read::{Page, Read};
use model::row::Key;
use model::{NodeId, RunState, Span};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use store::Store;
use store::conformance::desk::{Desk, insert_run, remove};
use store::conformance::sample::{one_off, run};

const ROWS: u64 = 16;
const FOLDER: &str = "DULY_TEST_KILLED_FOLDER";

/// Not a test: the process that `a_killed_process_keeps_its_word` kills.
#[test]
#[ignore = "started by another test"]
fn child() {
    let Ok(path) = std::env::var(FOLDER) else { return };
    let store = open(path.as_ref());
    let mut desk = Desk::open(&store, 3);
    let mut out = std::io::stdout();
    loop {
        let first = desk.seq * ROWS;
        let rows = (first..first + ROWS)
            .map(|n| insert_run(&run(one_off(desk.shard, n), RunState::Ready, desk.now())));
        let rows = rows.collect();
        desk.commit(rows);
        writeln!(out, "acknowledged {}", desk.seq).expect("the parent listens");
    }
}

#[test]
fn a_killed_process_keeps_its_word() {
    for lines in [1, 7, 40] {
        let folder = folder();
        let mut child = Command::new(std::env::current_exe().expect("this file"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let out = BufReader::new(child.stdout.take().expect("its words"));
        let mut acknowledged = 0;
        let said = out.lines().map(|line| line.expect("a line")).filter_map(|line| {
            line.split_once("acknowledged ").and_then(|(_, seq)| seq.parse::<u64>().ok())
        });
        for seq in said.take(lines) {
            acknowledged = seq;
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it is gone");
        assert!(acknowledged > 0);
        // The lock went with the process.
        let store = open(folder.path());
        let node = NodeId { node: 9, boot: 9 };
        let renew = model::cluster::Renew { node, ttl: Span::ZERO };
        let seq = store.renew(renew).expect("answers").shards[3].seq;
        assert!(seq >= acknowledged, "{acknowledged} were acknowledged, {seq} are there");
        let keys = (0..(seq + 2) * ROWS).map(|n| Key::Run(one_off(model::ShardId(3), n)));
        let read = Read::Rows(keys.collect());
        let Page::Rows(rows) = store.read(&[(model::ShardId(3), read)]).expect("answers").remove(0)
        else {
            panic!("not rows")
        };
        assert_eq!(rows.iter().flatten().count() as u64, seq * ROWS, "a batch is there in part");
    }
}

/// Readers never see half a commit, nor one that was acknowledged before as not there.
#[test]
fn readers_see_whole_commits_and_the_latest() {
    let store = make();
    let shard = model::ShardId(3);
    let (a, b) = (one_off(shard, 1), one_off(shard, 2));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    let key = |id| (shard, Read::Rows(vec![Key::Run(id)]));
                    let pages = store.read(&[key(a), key(b)]).expect("answers");
                    let there = |page: &Page| matches!(page, Page::Rows(rows) if rows[0].is_some());
                    assert_eq!(there(&pages[0]), there(&pages[1]), "half a commit");
                }
            });
        }
        let mut desk = Desk::open(&store, 3);
        for _ in 0..60 {
            let rows = [a, b].map(|id| run(id, RunState::Scheduled, desk.now()));
            desk.commit(rows.iter().map(insert_run).collect());
            assert!(desk.row(Key::Run(a)).is_some() && desk.due_all().len() == 2);
            desk.commit(vec![remove(Key::Run(a), 1), remove(Key::Run(b), 1)]);
            assert!(desk.row(Key::Run(a)).is_none() && desk.due_all().is_empty());
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

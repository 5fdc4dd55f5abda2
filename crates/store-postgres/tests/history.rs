//! History by day: tables that are made ahead and dropped whole, lists over them, and the way there
//! from the one table of version 1.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Held, server};
use model::row::{Change, HistoryRow, Key, Row};
use model::{Cause, Namespace, RunId, RunState, Span, Status, Time};
use store::Outcome;
use store::conformance::desk::{Desk, insert};
use store::conformance::sample::{history, job_id};
use store::search::{FindRuns, Prune, Search};
use store_postgres::PostgresStore;

const DAY: i64 = 86_400;
const OURS: Namespace = Namespace(7);

fn open(address: &str) -> PostgresStore {
    PostgresStore::open(address).expect("it opens")
}

/// The end of the n-th one-off, at this time.
fn end(desk: &Desk<'_>, n: u64, at: Time, status: Status) -> HistoryRow {
    let mut row = history(RunId::new(job_id(desk.shard, n), Cause::OneOff), 1, at, status);
    (row.finished, row.after) = (at, RunState::Succeeded);
    row
}

fn add(row: &HistoryRow) -> Change {
    insert(Key::History(row.run, row.token), Row::History(Box::new(row.clone())))
}

fn one(sql: &str, name: &str) -> String {
    server().ask(name, sql)
}

fn tables(name: &str) -> String {
    one("SELECT count(*) FROM duly.history_tables", name)
}

/// All finished runs, in pages of two, with something done after each page.
fn list(store: &PostgresStore, mut between: impl FnMut()) -> Vec<RunId> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..100 {
        let find = FindRuns { namespace: OURS, limit: 2, after, ..FindRuns::default() };
        let page = store.find_runs(&find).expect("it answers");
        found.extend(page.items.iter().map(|run| run.id()));
        after = page.next;
        if after.is_none() {
            return found;
        }
        between();
    }
    panic!("the list does not end");
}

fn prune(store: &PostgresStore, before: Time) -> usize {
    let mut removed = 0;
    for _ in 0..100 {
        let prune = Prune { before, failures_before: before, after: 0, limit: 500 };
        let pruned = store.prune(&prune).expect("it answers");
        removed += pruned.removed;
        if pruned.next.is_none() {
            return removed;
        }
    }
    panic!("pruning does not end");
}

#[test]
fn days_are_made_ahead_and_dropped_whole() {
    let name = server().filled();
    let store = open(&server().address(&name));
    assert_eq!(tables(&name), "6", "today and two days to come, with their failures");
    store.move_clock(Span::from_secs(2 * DAY)).expect("moved");
    store.prepare().expect("it answers");
    assert_eq!(tables(&name), "10");
    let mut desk = Desk::open(&store, 3);
    let today = desk.now();
    let back = |days: i64| today.minus(Span::from_secs(days * DAY));
    // Days that nobody made are made by the commit that needs them.
    let rows: Vec<HistoryRow> =
        (0..9).map(|n| end(&desk, n, back(9 - n as i64), Status::Succeeded)).collect();
    desk.commit(rows.iter().map(add).collect());
    let ids: Vec<RunId> = rows.iter().rev().map(|row| row.run).collect();
    assert_eq!(list(&store, || {}), ids, "the last end first, over all days");
    // While a list is read on, its oldest days go: what is left comes, once and in order.
    let mut rounds = 0;
    let found = list(&store, || {
        rounds += 1;
        if rounds == 2 {
            assert_eq!(prune(&store, back(6)), 3);
        }
    });
    assert_eq!(found, ids[..6]);
    // Of a day that was dropped nothing is left: no table, no function, no sequence.
    let left = "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE '%20______%' AND relkind IN ('r', 'S'))
        - (SELECT count(*) FROM duly.history_tables) - (SELECT count(DISTINCT day) FROM duly.history_tables)";
    assert_eq!(one(left, &name), "0");
    let functions =
        "SELECT (SELECT count(*) FROM pg_proc WHERE proname ~ '^insert_(history|failures)_')
        - (SELECT count(*) FROM duly.history_tables)";
    assert_eq!(one(functions, &name), "0");
    // A day that comes back is made again.
    let late = end(&desk, 50, back(8), Status::Failed);
    desk.commit(vec![add(&late)]);
    assert_eq!(store.attempts(late.run, 9), Ok(vec![late]));
}

#[test]
fn who_reads_a_day_delays_its_end_and_nothing_else() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    let old = desk.now().minus(Span::from_secs(5 * DAY));
    let row = end(&desk, 1, old, Status::Succeeded);
    desk.commit(vec![add(&row)]);
    let table =
        one("SELECT name FROM duly.history_tables WHERE failures = 0 ORDER BY day LIMIT 1", &name);
    let before = old.plus(Span::from_secs(2 * DAY));
    let held = Held::begin(&server().address(&name), &format!("SELECT count(*) FROM duly.{table}"));
    assert_eq!(prune(&store, before), 0, "somebody reads");
    desk.commit(vec![]);
    assert_eq!(store.attempts(row.run, 9).map(|rows| rows.len()), Ok(1));
    held.end();
    assert_eq!(prune(&store, before), 1);
    assert_eq!(store.attempts(row.run, 9), Ok(vec![]));
}

/// What is too much begins with the oldest day; of the present one, which cannot go, the rows.
#[test]
fn too_much_goes_by_day_and_today_by_row() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    let now = desk.now();
    let (old, today) = (now.minus(Span::from_secs(3 * DAY)), now);
    let rows =
        (0..2_000).map(|n| end(&desk, n, if n < 500 { old } else { today }, Status::Succeeded));
    let rows: Vec<Change> = rows.map(|row| add(&row)).collect();
    desk.commit(rows);
    let used = |store: &PostgresStore| store.used_bytes().expect("it answers");
    let full = used(&store);
    let later = now.plus(Span::from_secs(60));
    let slice = Prune { before: later, failures_before: later, after: 0, limit: 300 };
    assert_eq!(store.prune(&slice).map(|pruned| pruned.removed), Ok(500), "a day");
    let less = used(&store);
    assert!(less < full, "{less} of {full}");
    assert_eq!(store.prune(&slice).map(|pruned| pruned.removed), Ok(300), "rows of today");
    let least = used(&store);
    assert!(least < less, "{least} of {less}: what is removed counts before vacuum clears it");
    let find = FindRuns { namespace: OURS, limit: 2_000, ..FindRuns::default() };
    assert_eq!(store.find_runs(&find).map(|found| found.items.len()), Ok(1_200));
}

/// As a node of version 1 writes an end: its function has a parameter for each column.
fn write_as_version_1(name: &str, run: &str) -> Result<(), tokio_postgres::Error> {
    server().try_sql(
        name,
        &format!(
            "SELECT duly.insert_history(1, '{{3}}', ARRAY['\\x{run}'::bytea], '{{5}}', '{{1}}', '{{7}}', '{{0}}',
               '{{0}}', '{{0}}', '{{0}}', '{{1}}', '{{0}}', '{{w}}', '{{200}}', '{{NULL}}', ARRAY[NULL::bytea], '{{6}}',
               '{{NULL}}', '{{NULL}}', '{{1}}', '{{NULL}}', '{{q}}', '{{k}}', '{{5}}', '{{0}}', ARRAY[''], ARRAY[NULL::bytea], '{{300}}')"
        ),
    )
}

fn words(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_string())
}

#[test]
fn versions_1_and_2_run_together_until_version_1_has_gone() {
    let name = server().database();
    server().sql(&name, include_str!("fixtures/schema_1.sql"));
    // A node of version 1 lives, and has written.
    server().sql(&name, "SELECT duly.renew(1, 11, 60000000)");
    let old_run = "0".repeat(47) + "1";
    write_as_version_1(&name, &old_run).expect("version 1 writes");
    let store = open(&server().address(&name));
    let mut desk = Desk::open(&store, 3);
    let row = end(&desk, 1, desk.now(), Status::Succeeded);
    desk.commit(vec![add(&row)]);
    // Each sees what the other writes.
    assert_eq!(one("SELECT count(*) FROM duly.history", &name), "2");
    assert_eq!(list(&store, || {}).len(), 2);
    write_as_version_1(&name, &("0".repeat(47) + "2")).expect("version 1 still writes");
    assert_eq!(list(&store, || {}).len(), 3);
    server().sql(&name, "SELECT duly.renew(1, 11, 60000000)");
    store.prepare().expect("it answers");
    assert_eq!(one("SELECT by_day || ' ' || min_reader FROM duly.meta", &name), "0 1");

    // A second node of version 2, which will not hear that version 1 has gone.
    let sleeper = open(&server().address(&name));
    store.move_clock(Span::from_secs(61)).expect("moved");
    store.prepare().expect("it answers");
    assert_eq!(
        one("SELECT by_day || ' ' || min_reader || min_writer FROM duly.meta", &name),
        "1 22"
    );
    let mut desk = Desk { store: &sleeper, ..desk };
    let next = end(&desk, 2, desk.now(), Status::Succeeded);
    desk.commit(vec![add(&next)]);
    assert_eq!(one("SELECT count(*) FROM duly.history", &name), "3", "by day from now on");
    assert_eq!(list(&store, || {}).len(), 4);
    // One of version 1 that slept is told, and does no harm.
    for sql in ["SELECT duly.renew(1, 11, 60000000)", "SELECT duly.renew(2, 22, 60000000)"] {
        let told = server().try_sql(&name, sql).expect_err("refused");
        let told = words(&told);
        assert!(told.contains("start the newer one"), "{told}");
    }
    let told = write_as_version_1(&name, &("0".repeat(47) + "3")).expect_err("refused");
    let told = words(&told);
    assert!(told.contains("version 2"), "{told}");

    // What version 1 left is removed row by row, and then its table.
    assert_eq!(prune(&store, Time::from_secs(1_000)), 1, "up to the first that is young enough");
    assert_eq!(one("SELECT to_regclass('duly.history') IS NOT NULL", &name), "true");
    store.move_clock(Span::from_secs(3 * DAY)).expect("moved");
    prune(&store, desk.now());
    prune(&store, desk.now());
    assert_eq!(one("SELECT to_regclass('duly.history') IS NULL", &name), "true");
    assert_eq!(list(&store, || {}), []);
    assert_eq!(desk.try_commit(vec![]), Outcome::Durable);
}

#[test]
fn a_version_that_is_not_known_is_refused() {
    let name = server().filled();
    server().sql(&name, "UPDATE duly.meta SET version = 9, min_writer = 9");
    let told = PostgresStore::open(&server().address(&name)).expect_err("refused").to_string();
    assert!(told.contains("version 9") && told.contains("newer duly"), "{told}");
}

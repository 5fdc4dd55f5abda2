//! What is written comes back as it was written.

use super::TestStore;
use super::desk::{Desk, NODE, insert, insert_lease, insert_run, remove, runs, update, update_run};
use super::sample::{self, job_id, one_off, run};
use model::read::{Page, Read};
use model::row::{BacklogId, BacklogKind, BacklogRow, Holder, Key, Made, Only, Row, Scope};
use model::{Cause, Namespace, QueueRow, RunId, RunState, Spec, Status, Time, Token};
use std::sync::Arc;

pub fn every_kind_comes_back_as_written(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let (now, job, id) = (desk.now(), job_id(desk.shard, 1), one_off(desk.shard, 2));
    let backfill = sample::backlog(job, 3, now);
    let kind = BacklogKind::CatchUp { from: Time::from_secs(5) };
    let catch_up =
        BacklogRow { id: BacklogId { job, kind }, only: Only::All, ..sample::backlog(job, 0, now) };
    let mut key_row = sample::key_row(job);
    key_row.answer = Made::Backlog(catch_up.id);
    let mut in_group = sample::key("k");
    in_group.group = Some("".into());
    let mut lease = sample::lease(id, 9, now);
    lease.holder = Holder::Node(NODE);
    let verdict = sample::history(id, 0, now, Status::Missed);
    let mut bare = sample::history(id, 5, now, Status::Lost);
    (bare.flow, bare.started, bare.worker, bare.code) = (None, None, None, None);
    (bare.error, bare.output, bare.next) = (None, None, None);
    (bare.until, bare.count) = (Some(now), 1 << 40);
    let mut note = sample::history(id, 6, now, Status::Delayed);
    (note.token, note.attempt) = (Token::DELAYED, 0);
    let mut plain = sample::job(job_id(desk.shard, 4), None);
    (plain.next, plain.active, plain.waiting, plain.pause) = (None, None, None, None);
    plain.live.clear();
    let rows = [
        (Key::Run(id), Row::Run(run(id, RunState::Retrying, now))),
        (Key::Lease(id), Row::Lease(lease)),
        (Key::Job(job), Row::Job(sample::job(job, Some(now)))),
        (Key::Job(plain.id), Row::Job(plain)),
        (Key::Spec(job, 3), Row::Spec(sample::spec(b"three"))),
        (Key::Spec(job, u32::MAX), Row::Spec(sample::spec(b"last"))),
        (Key::Backlog(backfill.id), Row::Backlog(backfill)),
        (Key::Backlog(catch_up.id), Row::Backlog(catch_up)),
        (Key::Idempotency(sample::key("k")), Row::Idempotency(sample::key_row(job))),
        (Key::Idempotency(in_group), Row::Idempotency(key_row)),
        (Key::Checkpoint(id), Row::Checkpoint(sample::checkpoint(4, b"\0x"))),
        (Key::Hold(Scope::All), Row::Hold(sample::hold("all"))),
        (Key::Queue(Namespace(7), "q".into()), Row::Queue(sample::queue(1))),
        (
            Key::Queue(Namespace(u32::MAX), "".into()),
            Row::Queue(QueueRow { rev: u32::MAX, ..QueueRow::default() }),
        ),
        (Key::History(id, Token::NONE), Row::History(Box::new(verdict))),
        (Key::History(id, bare.token), Row::History(Box::new(bare))),
        (Key::History(id, note.token), Row::History(Box::new(note))),
    ];
    desk.commit(rows.iter().map(|(key, row)| insert(key.clone(), row.clone())).collect());
    for (key, row) in &rows {
        assert_eq!(desk.row(key.clone()).as_ref(), Some(row));
    }
    desk.commit(rows.iter().map(|(key, row)| remove(key.clone(), row.rev())).collect());
    for (key, _) in rows {
        assert_eq!(desk.row(key), None);
    }
}

pub fn runs_come_back_without_their_body(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let mut ready = run(one_off(desk.shard, 1), RunState::Ready, now);
    let mut waiting = run(one_off(desk.shard, 2), RunState::Scheduled, now);
    ready.body = Some(sample::spec(b"a"));
    waiting.body = Some(sample::spec(b"b"));
    let lease = sample::lease(ready.id, 1, now);
    desk.commit(vec![insert_run(&ready), insert_run(&waiting), insert_lease(&lease)]);
    (ready.body, waiting.body) = (None, None);
    assert_eq!(desk.row(Key::Run(ready.id)), Some(Row::Run(ready.clone())));
    assert_eq!(desk.due_all(), [Row::Run(waiting)]);
    assert_eq!(desk.flow(&ready.flow, None, 9), [ready.clone()]);
    assert_eq!(desk.leases(None, 9), [(lease, ready.clone())]);
    let of = desk.read(Read::RunsOf { job: ready.id.job, after: None, limit: 9 });
    assert_eq!(runs(of), [ready]);
}

fn spec_of(store: &dyn TestStore, run: RunId, version: u32) -> Option<Arc<Spec>> {
    store.specs(&[(run, version)]).expect("the store answers").remove(0)
}

pub fn body_survives_patches(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let mut row = run(one_off(desk.shard, 1), RunState::Scheduled, desk.now());
    row.body = Some(sample::spec(b"body"));
    desk.commit(vec![insert_run(&row)]);
    row.body = None;
    for state in [RunState::Ready, RunState::Retrying, RunState::Ready, RunState::Dead] {
        row.state = state;
        row.rev += 1;
        desk.commit(vec![update_run(&row, row.rev - 1)]);
        assert_eq!(spec_of(store, row.id, 3), Some(sample::spec(b"body")));
    }
    // Twice in one commit, too.
    let (mut one, mut two) = (row.clone(), row.clone());
    (one.rev, two.rev) = (row.rev + 1, row.rev + 2);
    desk.commit(vec![update_run(&one, row.rev), update_run(&two, one.rev)]);
    assert_eq!(spec_of(store, row.id, 3), Some(sample::spec(b"body")));
    // A run that is made anew has only what it was made with.
    row.rev = 1;
    desk.commit(vec![remove(Key::Run(row.id), two.rev), insert_run(&row)]);
    assert_eq!(spec_of(store, row.id, 3), None);
}

pub fn a_new_body_replaces(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let mut row = run(one_off(desk.shard, 1), RunState::Scheduled, desk.now());
    row.body = Some(sample::spec(b"old"));
    desk.commit(vec![insert_run(&row)]);
    row.rev = 2;
    row.body = Some(sample::spec(b"new"));
    desk.commit(vec![update_run(&row, 1)]);
    assert_eq!(spec_of(store, row.id, 3), Some(sample::spec(b"new")));
}

pub fn spec_is_body_or_version(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    let plain = RunId::new(job, Cause::Occurrence(desk.now()));
    let own = RunId::new(job, Cause::Trigger(1 << 49));
    let mut trigger = run(own, RunState::Ready, desk.now());
    trigger.body = Some(sample::spec(b"own"));
    desk.commit(vec![
        insert(Key::Spec(job, 3), Row::Spec(sample::spec(b"three"))),
        insert(Key::Spec(job, 4), Row::Spec(sample::spec(b"four"))),
        insert_run(&run(plain, RunState::Ready, desk.now())),
        insert_run(&trigger),
    ]);
    let wanted = [(plain, 3), (own, 3), (plain, 4), (plain, 5), (one_off(desk.shard, 9), 3)];
    let specs = store.specs(&wanted).expect("the store answers");
    let payload = |spec: Option<Arc<Spec>>| spec.map(|spec| spec.payload.to_vec());
    let payloads: Vec<_> = specs.into_iter().map(payload).collect();
    let expected =
        [Some(b"three".to_vec()), Some(b"own".to_vec()), Some(b"four".to_vec()), None, None];
    assert_eq!(payloads, expected);
    assert_eq!(store.specs(&[]), Ok(Vec::new()));
}

/// The core reads a spec like any other row: one run's, beside other reads, from the same state.
pub fn a_spec_is_read_beside_other_rows(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let job = job_id(desk.shard, 1);
    let plain = RunId::new(job, Cause::Occurrence(desk.now()));
    let own = RunId::new(job, Cause::Trigger(1 << 49));
    let mut trigger = run(own, RunState::Dead, desk.now());
    trigger.body = Some(sample::spec(b"own"));
    desk.commit(vec![
        insert(Key::Spec(job, 3), Row::Spec(sample::spec(b"three"))),
        insert_run(&run(plain, RunState::Dead, desk.now())),
        insert_run(&trigger),
    ]);
    let spec = |run, version| (desk.shard, Read::Spec { run, version });
    let reads = [
        spec(plain, 3),
        spec(own, 3),
        spec(plain, 4),
        spec(one_off(desk.shard, 9), 3),
        (desk.shard, Read::Rows(vec![Key::Run(own)])),
    ];
    let pages = store.read(&reads).expect("the store answers");
    assert_eq!(pages[0], Page::Spec(Some(sample::spec(b"three"))), "its job's");
    assert_eq!(pages[1], Page::Spec(Some(sample::spec(b"own"))), "its own before its job's");
    assert_eq!(pages[2], Page::Spec(None), "a version that is not there");
    assert_eq!(pages[3], Page::Spec(None), "a run that is not there");
    assert!(matches!(&pages[4], Page::Rows(rows) if rows[0].is_some()));
    // One that is asked for alone is answered the same.
    assert_eq!(desk.read(Read::Spec { run: own, version: 3 }), pages[1]);
}

pub fn payload_bytes_are_opaque(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let all: Vec<u8> = (0..=255).collect();
    let big: Vec<u8> = (0..256 * 1024).map(|n| (n % 251) as u8).collect();
    let samples: [&[u8]; 5] = [b"", b"\0", b"a\0b\0", &all, &big];
    for (n, bytes) in samples.into_iter().enumerate() {
        let mut row = run(one_off(desk.shard, n as u64), RunState::Ready, desk.now());
        row.body = Some(sample::spec(bytes));
        let mut past = sample::history(row.id, 1, desk.now(), Status::Succeeded);
        past.output = Some(bytes.into());
        let checkpoint = Row::Checkpoint(sample::checkpoint(1, bytes));
        let history = Key::History(row.id, past.token);
        let past = Row::History(Box::new(past));
        desk.commit(vec![
            insert_run(&row),
            insert(Key::Checkpoint(row.id), checkpoint.clone()),
            insert(history.clone(), past.clone()),
        ]);
        assert_eq!(spec_of(store, row.id, 3), row.body);
        assert_eq!(desk.row(Key::Checkpoint(row.id)), Some(checkpoint));
        assert_eq!(desk.row(history), Some(past));
    }
}

pub fn odd_text_survives(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    // No NUL: text is checked for it at the edge.
    let odd = [
        "",
        " ",
        "'; --",
        "%_\\",
        "ß ﬁ İ ı",
        "e\u{301} é",
        "\u{10ffff}\u{feff}",
        "👩‍🚀\r\n\t",
        "A",
        "a",
    ];
    for (n, text) in odd.into_iter().enumerate() {
        let mut row = run(one_off(desk.shard, n as u64), RunState::Ready, desk.now());
        row.flow.queue = text.into();
        row.flow.group = Some(text.into());
        let scope = Scope::Queue(Namespace(7), text.into());
        desk.commit(vec![
            insert_run(&row),
            insert(Key::Hold(scope.clone()), Row::Hold(sample::hold(text))),
            insert(
                Key::Idempotency(sample::key(text)),
                Row::Idempotency(sample::key_row(row.id.job)),
            ),
        ]);
        assert_eq!(desk.flow(&row.flow, None, 9), [row.clone()], "{text:?}");
        assert_eq!(desk.row(Key::Hold(scope)), Some(Row::Hold(sample::hold(text))));
    }
    // Order is that of the bytes, whatever the database's collation.
    let mut sorted = odd.to_vec();
    sorted.sort_unstable();
    let queues: Vec<String> =
        desk.flows(None, 99).iter().map(|flow| flow.queue.to_string()).collect();
    assert_eq!(queues, sorted);
}

pub fn extreme_times_survive(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    for (n, at) in [Time::MIN, Time::from_micros(1), Time::MAX].into_iter().enumerate() {
        let row = run(one_off(desk.shard, n as u64), RunState::Scheduled, at);
        desk.commit(vec![insert_run(&row)]);
        let next = Time::from_micros(at.micros() + 1);
        assert_eq!(desk.due(at, next, 9), [Row::Run(row)]);
    }
}

pub fn leases_come_with_their_runs(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let mut row = run(one_off(desk.shard, 1), RunState::Ready, now);
    let mut lease = sample::lease(row.id, 1, now);
    // Born leased: made and claimed in one commit.
    desk.commit(vec![insert_run(&row), insert_lease(&lease)]);
    assert_eq!(desk.leases(None, 9), [(lease.clone(), row.clone())]);
    row.rev = 2;
    lease.rev = 2;
    lease.cancel = false;
    desk.commit(vec![
        update_run(&row, 1),
        update(Key::Lease(row.id), 1, Row::Lease(lease.clone())),
    ]);
    assert_eq!(desk.leases(None, 9), [(lease, row.clone())]);
    desk.commit(vec![remove(Key::Lease(row.id), 2)]);
    assert_eq!(desk.leases(None, 9), []);
    assert_eq!(desk.row(Key::Run(row.id)), Some(Row::Run(row)));
}

pub fn leases_are_paged(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let ids: Vec<RunId> = (0..15).map(|n| one_off(desk.shard, n)).collect();
    for id in ids.iter().rev() {
        let lease = sample::lease(*id, 1, now);
        desk.commit(vec![insert_run(&run(*id, RunState::Ready, now)), insert_lease(&lease)]);
    }
    for limit in [1, 2, 7, 15, 99] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = desk.leases(after, limit);
            seen.extend(page.iter().map(|(lease, run)| {
                assert_eq!(lease.run, run.id);
                run.id
            }));
            after = seen.last().copied();
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(seen, ids, "in pages of {limit}");
    }
}

pub fn runs_of_a_job_do_not_leak(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let now = desk.now();
    let causes = [
        Cause::OneOff,
        Cause::Occurrence(now),
        Cause::Trigger(5),
        Cause::Backfill { operation: 2, second: 1_700_000_000 },
        Cause::Rerun(u32::MAX),
    ];
    // Jobs whose ids are neighbours.
    let (hi, lo) = job_id(desk.shard, 1).bits();
    let jobs = [lo - 1, lo, lo + 1].map(|lo| model::JobId::from_bits(hi, lo));
    for job in jobs {
        let rows = causes.map(|cause| run(RunId::new(job, cause), RunState::Dead, now));
        desk.commit(rows.iter().map(insert_run).collect());
    }
    for job in jobs {
        for limit in [1, 2, 4, 5, 6] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = runs(desk.read(Read::RunsOf { job, after, limit }));
                seen.extend(page.iter().map(|run| run.id));
                after = seen.last().copied();
                if page.len() < limit {
                    break;
                }
            }
            assert_eq!(seen, causes.map(|cause| RunId::new(job, cause)), "in pages of {limit}");
        }
    }
}

pub fn holds_are_listed(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let scopes = [
        Scope::All,
        Scope::Namespace(Namespace(1)),
        Scope::Namespace(Namespace(u32::MAX)),
        Scope::Queue(Namespace(1), "".into()),
        Scope::Queue(Namespace(1), "q".into()),
    ];
    for scope in scopes.iter().rev() {
        desk.commit(vec![insert(Key::Hold(scope.clone()), Row::Hold(sample::hold("x")))]);
    }
    let forever = model::row::HoldRow { reason: "".into(), until: None };
    let key = Key::Hold(Scope::All);
    desk.commit(vec![update(key, 1, Row::Hold(forever.clone()))]);
    let Page::Holds(mut holds) = desk.read(Read::Holds) else { panic!("not holds") };
    holds.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(holds[0].1, forever);
    assert_eq!(holds.into_iter().map(|(scope, _)| scope).collect::<Vec<_>>(), scopes);
}

pub fn limits_of_queues_are_listed(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let key = |namespace: u32, queue: &str| Key::Queue(Namespace(namespace), queue.into());
    for (namespace, queue) in [(u32::MAX, "a"), (1, "q"), (1, "")] {
        desk.commit(vec![insert(key(namespace, queue), Row::Queue(sample::queue(1)))]);
    }
    let lower = QueueRow { rev: 2, max_running: Some(1), ..QueueRow::default() };
    desk.commit(vec![update(key(1, "q"), 1, Row::Queue(lower.clone()))]);
    let Page::Queues(mut queues) = desk.read(Read::Queues) else { panic!("not queues") };
    queues.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ((Namespace(1), "".into()), sample::queue(1)),
        ((Namespace(1), "q".into()), lower),
        ((Namespace(u32::MAX), "a".into()), sample::queue(1)),
    ];
    assert_eq!(queues, expected);
    desk.commit(vec![remove(key(1, "q"), 2)]);
    let Page::Queues(queues) = desk.read(Read::Queues) else { panic!("not queues") };
    assert_eq!(queues.len(), 2);
}

pub fn shards_do_not_see_each_other(store: &dyn TestStore) {
    let (mut here, there) = (Desk::open(store, 3), Desk::open(store, 4));
    let now = here.now();
    let ready = run(one_off(here.shard, 1), RunState::Ready, now);
    let waiting = run(one_off(here.shard, 2), RunState::Scheduled, now);
    let hold = insert(Key::Hold(Scope::All), Row::Hold(sample::hold("x")));
    let lease = insert_lease(&sample::lease(ready.id, 1, now));
    let limits = insert(Key::Queue(Namespace(7), "q".into()), Row::Queue(sample::queue(1)));
    here.commit(vec![insert_run(&ready), insert_run(&waiting), lease, hold, limits]);
    assert_eq!(there.row(Key::Hold(Scope::All)), None);
    assert_eq!(there.due_all(), []);
    assert_eq!(there.flows(None, 9), []);
    assert_eq!(there.flow(&ready.flow, None, 9), []);
    assert_eq!(there.leases(None, 9), []);
    assert_eq!(there.read(Read::Holds), Page::Holds(Vec::new()));
    assert_eq!(there.read(Read::Queues), Page::Queues(Vec::new()));
}

pub fn absent_rows_keep_their_place(store: &dyn TestStore) {
    let mut desk = Desk::open(store, 3);
    let row = run(one_off(desk.shard, 1), RunState::Ready, desk.now());
    desk.commit(vec![insert_run(&row)]);
    let (here, gone) = (Key::Run(row.id), Key::Run(one_off(desk.shard, 2)));
    let keys = vec![gone.clone(), here.clone(), Key::Lease(row.id), here, gone];
    let found = Some(Row::Run(row));
    let expected = Page::Rows(vec![None, found.clone(), None, found, None]);
    assert_eq!(desk.read(Read::Rows(keys)), expected);
}

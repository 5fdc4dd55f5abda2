//! Rows to test with. Every field has a value of its own, so that two swapped columns show.

use model::id::{ShardId, Slot};
use model::row::{
    BacklogId, BacklogKind, BacklogRow, CheckpointRow, HistoryRow, HoldRow, Holder, IdempotencyKey,
    IdempotencyRow, JobRow, JobState, LeaseRow, Made, Only, Pause, RunRow,
};
use model::{
    Author, CatchUp, Cause, Dialect, Dst, Epoch, FlowKey, Gap, JobId, Lane, Namespace, Origin,
    Overlap, Policy, QueueRow, Rate, Repeat, RunId, RunState, ScheduleSpec, Span, Spec, Status,
    Target, Time, Token, When,
};
use std::sync::Arc;

/// Job number `n` of a shard; larger numbers are larger ids.
pub fn job_id(shard: ShardId, n: u64) -> JobId {
    let slot = Slot::from_bits(shard.0 * 16 + 5);
    JobId::mint(Time::from_millis(1_700_000_000_000 + n as i64), slot, model::hash::mix(n + 1))
}

pub fn one_off(shard: ShardId, n: u64) -> RunId {
    RunId::new(job_id(shard, n), Cause::OneOff)
}

pub fn flow(queue: &str, priority: u8, lane: Lane, group: Option<&str>) -> FlowKey {
    FlowKey {
        namespace: Namespace(7),
        queue: queue.into(),
        kind: "worker:mail".into(),
        priority,
        lane,
        group: group.map(Into::into),
    }
}

pub fn run(id: RunId, state: RunState, due: Time) -> RunRow {
    RunRow {
        id,
        rev: 1,
        state,
        due,
        nominal: due.minus(Span::from_secs(11)),
        flow: flow("default", 5, Lane::Fresh, None),
        version: 3,
        attempts: 6,
        retries: 2,
        lost: 4,
        replays: 1,
        policy: Policy {
            max_retries: 9,
            initial: Span::from_secs(8),
            factor: 3,
            cap: Span::from_secs(700),
            max_lost: 6,
            timeout: Span::from_secs(55),
        },
        checkpoint: 12,
        fresh: true,
        start_by: Some(Time::from_secs(1_900_000_000)),
        finish_by: None,
        body: None,
    }
}

pub fn spec(payload: &[u8]) -> Arc<Spec> {
    let mut schedule = ScheduleSpec::new(When::Cron {
        expression: "*/5 3 * * mon-fri".into(),
        dialect: Dialect::Quartz,
    });
    schedule.timezone = Some("Europe/Berlin".into());
    schedule.dst = Dst { gap: Gap::Skip, repeat: Repeat::Both };
    schedule.start_at = Some(Time::from_secs(1_700_000_001));
    schedule.end_at = Some(Time::from_secs(1_900_000_002));
    schedule.max_runs = Some(77);
    schedule.jitter = Some(Span::from_secs(13));
    Arc::new(Spec {
        namespace: Namespace(7),
        name: Some("nightly".into()),
        owner: Some("ops".into()),
        tags: vec![("team".into(), "blue".into()), ("empty".into(), "".into())],
        schedule,
        target: Target::Http {
            url: "https://example.org/hook?x=1".into(),
            method: "PUT".into(),
            headers: vec![("x-a".into(), "b".into())],
        },
        payload: payload.into(),
        content_type: "application/octet-stream".into(),
        queue: "default".into(),
        group: Some("g".into()),
        priority: 8,
        policy: Policy::default(),
        overlap: Overlap::CancelRunning,
        catch_up: CatchUp::All { window: Span::from_secs(99), max: 12, per_second: 3 },
        permanent: Some(Arc::from([400, 422])),
        within: model::Within { start: Some(Span::from_secs(5)), finish: None },
        request_id: Some("req-1".into()),
        api_key: None,
        origin: Origin {
            since: Some(Time::from_micros(1_800_000_000_000_001)),
            by: Author::Key { id: "0123456789ab".into(), name: Some("deploy".into()) },
        },
    })
}

pub fn lease(run: RunId, counter: u32, started: Time) -> LeaseRow {
    LeaseRow {
        run,
        rev: 1,
        attempt: 7,
        token: Token::new(Epoch(1), counter),
        holder: Holder::Worker("worker-3".into()),
        length: Span::from_secs(31),
        started,
        deadline: started.plus(Span::from_secs(55)),
        // Above i64::MAX: a database has to keep all 64 bits.
        request: u64::MAX - 5,
        cancel: true,
    }
}

pub fn job(id: JobId, due: Option<Time>) -> JobRow {
    let at = |secs: i64| Time::from_secs(1_700_000_000 + secs);
    JobRow {
        id,
        rev: 1,
        namespace: Namespace(7),
        state: JobState::Paused,
        version: 3,
        created: at(1),
        versioned: at(2),
        mark: at(3),
        next: Some(at(4)),
        due,
        fired: 1 << 40,
        live: vec![(2, 1), (3, 5)],
        active: Some(RunId::new(id, Cause::Occurrence(at(5)))),
        waiting: Some(RunId::new(id, Cause::Occurrence(at(6)))),
        pause: Some(Pause { since: at(7), until: Some(at(8)), reason: "why not".into() }),
        reruns: 4,
        backfills: 2,
        sweep: true,
        delete: true,
    }
}

pub fn backlog(job: JobId, operation: u16, due: Time) -> BacklogRow {
    BacklogRow {
        id: BacklogId { job, kind: BacklogKind::Backfill { operation } },
        rev: 1,
        cursor: due.minus(Span::from_secs(500)),
        until: due.minus(Span::from_secs(400)),
        per_second: 9,
        due,
        only: Only::Failed,
        version: 3,
        versioned: due.minus(Span::from_secs(600)),
        done: 17,
        total: 1 << 33,
    }
}

pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey {
        namespace: Namespace(7),
        queue: "default".into(),
        group: None,
        key: text.into(),
    }
}

pub fn key_row(job: JobId) -> IdempotencyRow {
    // The body's hash uses all 64 bits.
    IdempotencyRow {
        at: Time::from_secs(1_700_000_009),
        body: u64::MAX - 1,
        answer: Made::Job(job),
    }
}

pub fn checkpoint(rev: u32, bytes: &[u8]) -> CheckpointRow {
    CheckpointRow { rev, bytes: bytes.into() }
}

pub fn queue(rev: u32) -> QueueRow {
    QueueRow {
        rev,
        max_running: Some(7),
        rate: Some(Rate { starts: 50, per: Span::from_secs(1), burst: u32::MAX }),
        group_max_running: Some(1),
        group_rate: None,
        weights: [("cust-42".into(), 3), ("a group\nwith lines".into(), 100)].into(),
        start_within: Some(Span::from_secs(30)),
    }
}

pub fn hold(reason: &str) -> HoldRow {
    HoldRow { reason: reason.into(), until: Some(Time::from_secs(1_900_000_000)) }
}

/// An attempt of `run` for its nominal instant.
pub fn history(run: RunId, counter: u32, nominal: Time, status: Status) -> HistoryRow {
    let secs = |secs| nominal.plus(Span::from_secs(secs));
    HistoryRow {
        run,
        token: if counter == 0 { Token::NONE } else { Token::new(Epoch(1), counter) },
        attempt: 2,
        flow: Some(flow("default", 4, Lane::Retry, Some("g"))),
        namespace: Namespace(7),
        nominal,
        due: secs(1),
        started: Some(secs(2)),
        finished: secs(3 + i64::from(counter)),
        version: 3,
        status,
        worker: Some("worker-3".into()),
        code: Some(503),
        error: Some("no".into()),
        output: Some(vec![0, 255, 1].into()),
        after: RunState::Retrying,
        next: Some(secs(9)),
        until: None,
        count: 1,
    }
}

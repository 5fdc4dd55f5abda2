use super::*;
use model::row::{BacklogId, BacklogKind, Holder, Made, Only, Scope};
use model::{
    Bytes, Cause, JobId, Namespace, NodeId, QueueRow, Rate, RunId, RunState, ScheduleSpec, Spec,
    Target, Text, Time, When,
};
use shard::command::{
    Beat, BeatAnswer, Claim, Command, End, KeyOf, Leased, NewJob, Settle, SettleAnswer, Submitted,
};
use std::sync::Arc;

fn job() -> JobId {
    JobId::from_bits(0x0190_0000_0000_7abc, 0x8000_0000_0000_0001)
}

fn run() -> RunId {
    RunId::new(job(), Cause::Occurrence(Time::from_secs(1_700_000_000)))
}

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        namespace: Namespace(3),
        name: Some(Text::from("nightly")),
        owner: None,
        tags: vec![(Text::from("team"), Text::from("a"))],
        schedule: ScheduleSpec::new(When::Now),
        target: Target::Worker { kind: Text::from("bill") },
        payload: Bytes::from(&b"{\"a\":1}"[..]),
        content_type: Text::from("application/json"),
        queue: Text::from("q"),
        group: None,
        priority: 5,
        policy: Default::default(),
        overlap: Default::default(),
        catch_up: Default::default(),
        permanent: None,
        within: model::Within::default(),
        request_id: None,
        api_key: None,
        origin: model::Origin::default(),
    })
}

fn commands() -> Vec<Command> {
    let key = Some(KeyOf { key: Text::from("k"), body: u64::MAX });
    let until = Some(Time::from_micros(-5));
    let payload = Some(Bytes::from(&b""[..]));
    let settle = |end| Settle { run: run(), token: Token(1 << 40), end };
    vec![
        Command::Submit(vec![
            NewJob { id: job(), spec: spec(), key: key.clone(), paused: true },
            NewJob { id: job(), spec: spec(), key: None, paused: false },
        ]),
        Command::Claim(claim(None)),
        Command::Claim(Claim { reserve: true, ..claim(None) }),
        Command::Claim(claim(Some(vec![]))),
        Command::Claim(Claim {
            holder: Holder::Node(NodeId { node: 7, boot: u64::MAX }),
            ..claim(Some(vec![Text::from("worker:a"), Text::from("http")]))
        }),
        Command::Heartbeat(vec![
            Beat { run: run(), token: Token(9), checkpoint: Some(Bytes::from(&[0, 1, 2][..])) },
            Beat { run: run(), token: Token(9), checkpoint: None },
        ]),
        Command::Settle(vec![
            settle(End::Succeeded { output: None }),
            settle(End::Succeeded { output: payload.clone() }),
            settle(End::Failed {
                error: Text::from("no"),
                code: Some(503),
                retryable: true,
                retry_after: Some(Span::from_secs(7)),
            }),
            settle(End::Failed {
                error: Text::from(""),
                code: None,
                retryable: false,
                retry_after: None,
            }),
            settle(End::TimedOut),
            settle(End::Snoozed { until: Time::from_secs(9) }),
            settle(End::Released),
            settle(End::Unheard),
        ]),
        Command::CancelRun(run()),
        Command::CancelJob(job()),
        Command::DeleteJob(job()),
        Command::Pause { job: job(), reason: Text::from("why"), until },
        Command::Pause { job: job(), reason: Text::from(""), until: None },
        Command::Resume(job()),
        Command::Trigger { job: job(), id: 77, payload: payload.clone(), key: key.clone() },
        Command::Trigger { job: job(), id: 0, payload: None, key: None },
        Command::Update { job: job(), spec: spec(), if_version: Some(4) },
        Command::Update { job: job(), spec: spec(), if_version: None },
        Command::Replay { run: run(), payload },
        Command::Discard(run()),
        Command::Rerun { run: run() },
        Command::Backfill {
            job: job(),
            from: Time::from_secs(1),
            to: Time::from_secs(2),
            only: Only::Failed,
            per_second: 10,
            key,
        },
        Command::CancelBackfill(BacklogId {
            job: job(),
            kind: BacklogKind::Backfill { operation: 3 },
        }),
        Command::Hold { scope: Scope::All, reason: Text::from("r"), until },
        Command::Hold {
            scope: Scope::Queue(Namespace(2), Text::from("q")),
            reason: Text::from("r"),
            until: None,
        },
        Command::Release(Scope::Namespace(Namespace(9))),
        Command::SetQueue {
            namespace: Namespace(9),
            queue: Text::from("q"),
            limits: QueueRow {
                rev: 0,
                max_running: Some(7),
                rate: None,
                group_max_running: None,
                group_rate: Some(Rate { starts: 3, per: Span::from_secs(60), burst: 9 }),
                weights: [(Text::from("a"), 3), (Text::from(""), 1)].into(),
                start_within: Some(Span::from_secs(30)),
            },
        },
        Command::SetQueue {
            namespace: Namespace(0),
            queue: Text::from(""),
            limits: QueueRow::default(),
        },
    ]
}

fn claim(kinds: Option<Vec<Text>>) -> Claim {
    Claim {
        holder: Holder::Worker(Text::from("w")),
        namespace: Namespace(1),
        queues: vec![Text::from("a"), Text::from("b")],
        kinds,
        max: 50,
        lease: Span::from_secs(30),
        request: u64::MAX >> 1,
        wait_until: Time::from_secs(1_700_000_000),
        reserve: false,
    }
}

fn answers() -> Vec<Answer> {
    let made = Made::Backlog(BacklogId {
        job: job(),
        kind: BacklogKind::CatchUp { from: Time::from_secs(3) },
    });
    let mut all = vec![
        Answer::Submitted(vec![
            Ok(Submitted { made: Made::Job(job()), next: None, replayed: true }),
            Ok(Submitted { made: Made::Run(run()), next: Some(Time::MAX), replayed: false }),
            Err(Refused::KeyReused),
        ]),
        Answer::Claimed(vec![]),
        Answer::Claimed(vec![Leased {
            reserved: false,
            run: run(),
            attempt: 3,
            token: Token((1 << 53) - 1),
            nominal: Time::MIN,
            due: Time::from_secs(5),
            version: 2,
            lease: Span::from_secs(30),
            deadline: Time::from_secs(35),
            checkpoint: true,
        }]),
        Answer::Beats(vec![
            (run(), BeatAnswer::Ok { until: Time::from_secs(1) }),
            (run(), BeatAnswer::Cancel),
            (run(), BeatAnswer::Stale),
        ]),
        Answer::Settled(vec![
            (run(), SettleAnswer::Ok { state: RunState::Retrying, next: Some(Time::from_secs(4)) }),
            (run(), SettleAnswer::Ok { state: RunState::Succeeded, next: None }),
            (run(), SettleAnswer::Stale),
        ]),
        Answer::Run(run(), RunState::Expired),
        Answer::Job(job(), u32::MAX),
        Answer::Made(made),
        Answer::Stopping(run()),
        Answer::Done,
    ];
    let refused = [
        Refused::NotFound,
        Refused::KeyReused,
        Refused::Taken,
        Refused::Conflict,
        Refused::VersionMismatch { found: 7 },
        Refused::Invalid("queue"),
        Refused::Busy,
        Refused::Full,
        Refused::NotOwner,
        Refused::TooLate,
        Refused::Unknown,
        Refused::Poison,
        Refused::Shed,
    ];
    all.extend(refused.map(Answer::Refused));
    all
}

fn letters() -> Vec<Letter> {
    let mut all: Vec<Letter> = commands()
        .into_iter()
        .map(|command| {
            let (id, shard, wait) = (CommandId(u64::MAX), ShardId(255), Span::from_secs(10));
            Letter::Core(Message::Forward { id, shard, command, wait, try_no: 2 })
        })
        .collect();
    let answer = |answer| Letter::Core(Message::Answer { id: CommandId(1), answer, try_no: 1 });
    all.extend(answers().into_iter().map(answer));
    all.push(Letter::Core(Message::Gone { id: CommandId(5) }));
    all.push(Letter::Core(Message::Ask { shard: ShardId(0) }));
    all.push(Letter::Core(Message::Gave { shard: ShardId(9), epoch: None }));
    all.push(Letter::Core(Message::Gave { shard: ShardId(255), epoch: Some(Epoch::MAX) }));
    all.push(Letter::Stop(run(), Token(3)));
    all.extend(CHANGES.map(|(_, what)| Letter::Changed(what)));
    all.push(Letter::Watch(run()));
    all.push(Letter::Ended(run()));
    all
}

fn bytes_of(letters: &[Letter]) -> Vec<u8> {
    let mut batch = Batch::default();
    letters.iter().for_each(|letter| batch.add(letter).expect("it has a place"));
    batch.into_bytes()
}

#[test]
fn what_is_sent_is_what_is_heard() {
    let all = letters();
    let read = read(&bytes_of(&all)).expect("it is read");
    let expected: Vec<Read> = all.into_iter().map(Read::Letter).collect();
    assert_eq!(read, expected);
}

#[test]
fn what_breaks_off_is_not_heard_and_nothing_panics() {
    let bytes = bytes_of(&letters());
    for end in 0..bytes.len() {
        // A whole letter less is whole bytes; anything else is refused.
        let _ = read(&bytes[..end]);
    }
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut broken = bytes.clone();
            broken[at] ^= flip;
            let _ = read(&broken);
        }
    }
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[2]), None, "another version");
}

/// What a later version may add, in every place where it may.
#[test]
fn fields_and_letters_of_a_later_version_are_passed_over() {
    let gone = Letter::Core(Message::Gone { id: CommandId(5) });
    let mut bytes = vec![VERSION];
    // A letter that is not known, then one with a field that is not known.
    bytes.extend([200, 3, 9, 1, 7]);
    bytes.extend([GONE, 6, 1, 1, 5, 99, 1, 42]);
    assert_eq!(read(&bytes), Some(vec![Read::Letter(gone)]));
}

#[test]
fn a_command_of_a_later_version_is_refused_to_whoever_waits() {
    let mut out = Writer::default();
    out.number_field(1, 8);
    out.number_field(2, 1);
    out.signed_field(3, 5);
    out.number_field(4, 1);
    out.bytes(5, &[99]);
    let mut bytes = Writer(vec![VERSION]);
    bytes.bytes(FORWARD, &out.0);
    let heard = read(&bytes.0).expect("it is read");
    let [Read::Refuse(Letter::Core(Message::Answer { id, answer, try_no }))] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert_eq!((*id, *try_no), (CommandId(8), 1));
    assert_eq!(*answer, Answer::Refused(Refused::Invalid(OLDER)));
}

#[test]
fn the_encoding_is_what_it_has_always_been() {
    // Nodes of two releases talk to each other: what one writes the other reads.
    let stop = bytes_of(&[Letter::Stop(RunId::first_of(job()), Token(300))]);
    assert_eq!(stop[..4], [1, 6, 30, 1]);
    assert_eq!(stop[stop.len() - 4..], [2, 2, 172, 2]);
    let ask = bytes_of(&[Letter::Core(Message::Ask { shard: ShardId(255) })]);
    assert_eq!(ask, [1, 4, 4, 1, 2, 255, 1]);
}

/// Letters as released versions wrote them, one line each: from the end of the version on that added
/// them nothing about these bytes may change, in either direction. A letter that gets a field stays in
/// `letters` as it was, and is there once more with the field; `DULY_BLESS=1` adds the new ones.
#[test]
fn letters_of_versions_before_are_read_and_written_as_they_were() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/codec/kept.txt");
    let mut kept = std::fs::read_to_string(file).expect("the kept letters");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let known = letters();
    for letter in &known {
        let line = hex(&bytes_of(std::slice::from_ref(letter)));
        if !kept.lines().any(|other| other == line) {
            assert!(std::env::var_os("DULY_BLESS").is_some(), "not kept: {letter:?}");
            kept.push_str(&line);
            kept.push('\n');
            std::fs::write(file, &kept).expect("it is kept");
        }
    }
    for line in kept.lines() {
        let bytes = (0..line.len() / 2).map(|at| u8::from_str_radix(&line[at * 2..at * 2 + 2], 16));
        let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().expect("two digits a byte");
        let heard = read(&bytes).expect("it is read");
        let [Read::Letter(letter)] = &heard[..] else { panic!("{line}: {heard:?}") };
        assert!(known.contains(letter), "it was another letter: {letter:?}");
        assert_eq!(hex(&bytes_of(std::slice::from_ref(letter))), line, "{letter:?}");
    }
}

//! Commands as bytes: a number for what is asked, then its fields.

use super::bytes::{Fields, Reader, Writer};
use super::parts as p;
use model::row::Only;
use model::{Namespace, QueueRow, Rate, Text, Time, Token};
use shard::command::{Beat, Claim, Command, End, NewJob, Settle};
use store::codec::{Code, NotKnown, ids};

// Never reuse a number, of a command or of a field.
const SUBMIT: u64 = 1;
const CLAIM: u64 = 2;
const HEARTBEAT: u64 = 3;
const SETTLE: u64 = 4;
const CANCEL_RUN: u64 = 5;
const CANCEL_JOB: u64 = 6;
const DELETE_JOB: u64 = 7;
const PAUSE: u64 = 8;
const RESUME: u64 = 9;
const TRIGGER: u64 = 10;
const UPDATE: u64 = 11;
const REPLAY: u64 = 12;
const DISCARD: u64 = 13;
const RERUN: u64 = 14;
const BACKFILL: u64 = 15;
const CANCEL_BACKFILL: u64 = 16;
const HOLD: u64 = 17;
const RELEASE: u64 = 18;
const SET_QUEUE: u64 = 19;

pub fn write(out: &mut Writer, command: &Command) -> Result<(), NotKnown> {
    match command {
        Command::Submit(jobs) => {
            out.number(SUBMIT);
            for job in jobs {
                out.field(1, |out| write_job(out, job))?;
            }
        }
        Command::Claim(claim) => {
            out.number(CLAIM);
            write_claim(out, claim);
        }
        Command::Heartbeat(beats) => {
            out.number(HEARTBEAT);
            for beat in beats {
                out.field(1, |out| {
                    out.bytes(1, &ids::run_bytes(beat.run));
                    out.number_field(2, beat.token.0);
                    p::write_opaque(out, 3, beat.checkpoint.as_ref());
                    Ok::<(), NotKnown>(())
                })?;
            }
        }
        Command::Settle(settles) => {
            out.number(SETTLE);
            for settle in settles {
                out.field(1, |out| {
                    out.bytes(1, &ids::run_bytes(settle.run));
                    out.number_field(2, settle.token.0);
                    out.field(3, |out| {
                        write_end(out, &settle.end);
                        Ok::<(), NotKnown>(())
                    })
                })?;
            }
        }
        Command::CancelRun(run) => of_run(out, CANCEL_RUN, *run),
        Command::CancelJob(job) => of_job(out, CANCEL_JOB, *job),
        Command::DeleteJob(job) => of_job(out, DELETE_JOB, *job),
        Command::Pause { job, reason, until } => {
            of_job(out, PAUSE, *job);
            out.text(2, reason);
            p::write_time(out, 3, *until);
        }
        Command::Resume(job) => of_job(out, RESUME, *job),
        Command::Trigger { job, id, payload, key } => {
            of_job(out, TRIGGER, *job);
            out.number_field(2, *id);
            p::write_opaque(out, 3, payload.as_ref());
            p::write_key(out, 4, 5, key.as_ref());
        }
        Command::Update { job, spec, if_version } => {
            of_job(out, UPDATE, *job);
            p::write_spec(out, 2, 3, spec)?;
            if let Some(version) = if_version {
                out.number_field(4, (*version).into());
            }
        }
        Command::Replay { run, payload } => {
            of_run(out, REPLAY, *run);
            p::write_opaque(out, 2, payload.as_ref());
        }
        Command::Discard(run) => of_run(out, DISCARD, *run),
        Command::Rerun { run } => of_run(out, RERUN, *run),
        Command::Backfill { job, from, to, only, per_second, key } => {
            of_job(out, BACKFILL, *job);
            p::write_time(out, 2, Some(*from));
            p::write_time(out, 3, Some(*to));
            out.signed_field(4, only.code());
            out.number_field(5, (*per_second).into());
            p::write_key(out, 6, 7, key.as_ref());
        }
        Command::CancelBackfill(id) => {
            out.number(CANCEL_BACKFILL);
            out.bytes(1, &ids::backlog_bytes(*id));
        }
        Command::Hold { scope, reason, until } => {
            of_scope(out, HOLD, scope)?;
            out.text(2, reason);
            p::write_time(out, 3, *until);
        }
        Command::Release(scope) => of_scope(out, RELEASE, scope)?,
        Command::SetQueue { namespace, queue, limits } => {
            out.number(SET_QUEUE);
            write_queue(out, *namespace, queue, limits);
        }
    }
    Ok(())
}

fn of_run(out: &mut Writer, number: u64, run: model::RunId) {
    out.number(number);
    out.bytes(1, &ids::run_bytes(run));
}

fn of_job(out: &mut Writer, number: u64, job: model::JobId) {
    out.number(number);
    out.bytes(1, &ids::job_bytes(job));
}

fn of_scope(out: &mut Writer, number: u64, scope: &model::row::Scope) -> Result<(), NotKnown> {
    out.number(number);
    out.field(1, |out| {
        p::write_scope(out, scope);
        Ok(())
    })
}

fn write_job(out: &mut Writer, job: &NewJob) -> Result<(), NotKnown> {
    out.bytes(1, &ids::job_bytes(job.id));
    p::write_spec(out, 2, 3, &job.spec)?;
    p::write_key(out, 4, 5, job.key.as_ref());
    out.number_field(6, job.paused.into());
    Ok(())
}

fn write_claim(out: &mut Writer, claim: &Claim) {
    let mut holder = Writer::default();
    p::write_holder(&mut holder, &claim.holder);
    out.bytes(1, &holder.0);
    out.number_field(2, claim.namespace.0.into());
    claim.queues.iter().for_each(|queue| out.text(3, queue));
    if let Some(kinds) = &claim.kinds {
        // That there is a list, also when it is empty.
        out.number_field(4, 1);
        kinds.iter().for_each(|kind| out.text(5, kind));
    }
    out.number_field(6, claim.max as u64);
    out.signed_field(7, claim.lease.micros());
    out.number_field(8, claim.request);
    out.signed_field(9, claim.wait_until.micros());
    if claim.reserve {
        // Nodes of the version before write nothing here.
        out.number_field(10, 1);
    }
}

fn write_end(out: &mut Writer, end: &End) {
    let (number, until) = match end {
        End::Succeeded { .. } => (1, None),
        End::Failed { .. } => (2, None),
        End::TimedOut => (3, None),
        End::Snoozed { until } => (4, Some(*until)),
        End::Released => (5, None),
        End::Unheard => (6, None),
    };
    out.number_field(1, number);
    p::write_time(out, 7, until);
    match end {
        End::Succeeded { output } => p::write_opaque(out, 2, output.as_ref()),
        End::Failed { error, code, retryable, retry_after } => {
            out.text(3, error);
            if let Some(code) = code {
                out.number_field(4, (*code).into());
            }
            out.number_field(5, (*retryable).into());
            if let Some(after) = retry_after {
                out.signed_field(6, after.micros());
            }
        }
        _ => {}
    }
}

fn write_queue(out: &mut Writer, namespace: Namespace, queue: &Text, limits: &QueueRow) {
    let QueueRow {
        rev: _,
        max_running,
        rate,
        group_max_running,
        group_rate,
        weights,
        start_within,
    } = limits;
    out.number_field(1, namespace.0.into());
    out.text(2, queue);
    let mut of = |tag: u8, max: Option<u32>, rate: Option<Rate>| {
        if let Some(max) = max {
            out.number_field(tag, max.into());
        }
        if let Some(rate) = rate {
            out.number_field(tag + 1, rate.starts.into());
            out.signed_field(tag + 2, rate.per.micros());
            out.number_field(tag + 3, rate.burst.into());
        }
    };
    of(3, *max_running, *rate);
    of(7, *group_max_running, *group_rate);
    for (group, weight) in weights {
        out.text(11, group);
        out.number_field(12, (*weight).into());
    }
    if let Some(within) = start_within {
        out.signed_field(13, within.micros());
    }
}

fn read_queue(fields: &Fields<'_>) -> Option<Command> {
    let rate = |tag: u8| match fields.one(tag) {
        None => Some(None),
        Some(starts) => Some(Some(Rate {
            starts: p::narrow(starts)?,
            per: p::span(fields.one(tag + 1)?)?,
            burst: fields.narrow(tag + 2)?,
        })),
    };
    let weights = fields.all(11).zip(fields.all(12));
    let limits = QueueRow {
        rev: 0,
        max_running: fields.maybe(3, p::narrow)?,
        rate: rate(4)?,
        group_max_running: fields.maybe(7, p::narrow)?,
        group_rate: rate(8)?,
        weights: weights
            .map(|(group, weight)| Some((p::text(group)?, p::narrow(weight)?)))
            .collect::<Option<_>>()?,
        start_within: fields.maybe(13, p::span)?,
    };
    let queue = p::text(fields.one(2)?)?;
    Some(Command::SetQueue { namespace: Namespace(fields.narrow(1)?), queue, limits })
}

/// None where it is not known here.
pub fn read(bytes: &[u8]) -> Option<Command> {
    let mut reader = Reader(bytes);
    let number = reader.number()?;
    let fields = Fields::read(reader.0)?;
    let run = || p::run(fields.one(1)?);
    let job = || p::job(fields.one(1)?);
    Some(match number {
        SUBMIT => Command::Submit(fields.all(1).map(read_job).collect::<Option<_>>()?),
        CLAIM => Command::Claim(read_claim(&fields)?),
        HEARTBEAT => Command::Heartbeat(fields.all(1).map(read_beat).collect::<Option<_>>()?),
        SETTLE => Command::Settle(fields.all(1).map(read_settle).collect::<Option<_>>()?),
        CANCEL_RUN => Command::CancelRun(run()?),
        CANCEL_JOB => Command::CancelJob(job()?),
        DELETE_JOB => Command::DeleteJob(job()?),
        PAUSE => Command::Pause {
            job: job()?,
            reason: p::text(fields.one(2)?)?,
            until: fields.maybe(3, p::time)?,
        },
        RESUME => Command::Resume(job()?),
        TRIGGER => Command::Trigger {
            job: job()?,
            id: fields.number(2)?,
            payload: fields.maybe(3, p::opaque)?,
            key: p::key(&fields, 4, 5)?,
        },
        UPDATE => Command::Update {
            job: job()?,
            spec: p::spec(&fields, 2, 3)?,
            if_version: fields.maybe(4, p::narrow)?,
        },
        REPLAY => Command::Replay { run: run()?, payload: fields.maybe(2, p::opaque)? },
        DISCARD => Command::Discard(run()?),
        RERUN => Command::Rerun { run: run()? },
        BACKFILL => Command::Backfill {
            job: job()?,
            from: p::time(fields.one(2)?)?,
            to: p::time(fields.one(3)?)?,
            only: Only::from_code(fields.signed(4)?)?,
            per_second: fields.narrow(5)?,
            key: p::key(&fields, 6, 7)?,
        },
        CANCEL_BACKFILL => Command::CancelBackfill(ids::backlog_id(fields.one(1)?)?),
        HOLD => Command::Hold {
            scope: p::scope(fields.one(1)?)?,
            reason: p::text(fields.one(2)?)?,
            until: fields.maybe(3, p::time)?,
        },
        RELEASE => Command::Release(p::scope(fields.one(1)?)?),
        SET_QUEUE => read_queue(&fields)?,
        _ => return None,
    })
}

fn read_job(bytes: &[u8]) -> Option<NewJob> {
    let fields = Fields::read(bytes)?;
    Some(NewJob {
        id: p::job(fields.one(1)?)?,
        spec: p::spec(&fields, 2, 3)?,
        key: p::key(&fields, 4, 5)?,
        paused: fields.is_set(6),
    })
}

fn read_claim(fields: &Fields<'_>) -> Option<Claim> {
    let texts = |tag| fields.all(tag).map(p::text).collect::<Option<Vec<_>>>();
    Some(Claim {
        holder: p::holder(fields.one(1)?)?,
        namespace: Namespace(fields.narrow(2)?),
        queues: texts(3)?,
        kinds: if fields.is_set(4) { Some(texts(5)?) } else { None },
        max: fields.narrow(6)?,
        lease: p::span(fields.one(7)?)?,
        request: fields.number(8)?,
        wait_until: Time::from_micros(fields.signed(9)?),
        reserve: fields.is_set(10),
    })
}

fn read_beat(bytes: &[u8]) -> Option<Beat> {
    let fields = Fields::read(bytes)?;
    Some(Beat {
        run: p::run(fields.one(1)?)?,
        token: Token(fields.number(2)?),
        checkpoint: fields.maybe(3, p::opaque)?,
    })
}

fn read_settle(bytes: &[u8]) -> Option<Settle> {
    let fields = Fields::read(bytes)?;
    Some(Settle {
        run: p::run(fields.one(1)?)?,
        token: Token(fields.number(2)?),
        end: read_end(&Fields::read(fields.one(3)?)?)?,
    })
}

fn read_end(fields: &Fields<'_>) -> Option<End> {
    Some(match fields.number(1)? {
        1 => End::Succeeded { output: fields.maybe(2, p::opaque)? },
        2 => End::Failed {
            error: p::text(fields.one(3)?)?,
            code: fields.maybe(4, p::narrow)?,
            retryable: fields.is_set(5),
            retry_after: fields.maybe(6, p::span)?,
        },
        3 => End::TimedOut,
        4 => End::Snoozed { until: p::time(fields.one(7)?)? },
        5 => End::Released,
        6 => End::Unheard,
        _ => return None,
    })
}

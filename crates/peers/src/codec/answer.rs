//! Answers as bytes: a number for what was done, then its fields.

use super::bytes::{Fields, Reader, Writer};
use super::parts as p;
use model::{RunId, RunState, Time, Token};
use shard::command::{Answer, BeatAnswer, Leased, Refused, SettleAnswer, Submitted};
use store::codec::{Code, ids};

// Never reuse a number, of an answer or of a field.
const SUBMITTED: u64 = 1;
const CLAIMED: u64 = 2;
const BEATS: u64 = 3;
const SETTLED: u64 = 4;
const RUN: u64 = 5;
const JOB: u64 = 6;
const MADE: u64 = 7;
const STOPPING: u64 = 8;
const DONE: u64 = 9;
const REFUSED: u64 = 10;

pub fn write(out: &mut Writer, answer: &Answer) {
    match answer {
        Answer::Submitted(jobs) => {
            out.number(SUBMITTED);
            jobs.iter().for_each(|job| nested(out, 1, |out| write_submitted(out, job)));
        }
        Answer::Claimed(leases) => {
            out.number(CLAIMED);
            leases.iter().for_each(|leased| nested(out, 1, |out| write_leased(out, leased)));
        }
        Answer::Beats(beats) => {
            out.number(BEATS);
            for (run, beat) in beats {
                nested(out, 1, |out| {
                    out.bytes(1, &ids::run_bytes(*run));
                    let (number, until) = match beat {
                        BeatAnswer::Ok { until } => (1, Some(*until)),
                        BeatAnswer::Cancel => (2, None),
                        BeatAnswer::Stale => (3, None),
                    };
                    out.number_field(2, number);
                    p::write_time(out, 3, until);
                });
            }
        }
        Answer::Settled(settled) => {
            out.number(SETTLED);
            for (run, settle) in settled {
                nested(out, 1, |out| {
                    out.bytes(1, &ids::run_bytes(*run));
                    if let SettleAnswer::Ok { state, next } = settle {
                        out.signed_field(2, state.code());
                        p::write_time(out, 3, *next);
                    }
                });
            }
        }
        Answer::Run(run, state) => {
            out.number(RUN);
            out.bytes(1, &ids::run_bytes(*run));
            out.signed_field(2, state.code());
        }
        Answer::Job(job, version) => {
            out.number(JOB);
            out.bytes(1, &ids::job_bytes(*job));
            out.number_field(2, (*version).into());
        }
        Answer::Made(made) => {
            out.number(MADE);
            nested(out, 1, |out| p::write_made(out, *made));
        }
        Answer::Stopping(run) => {
            out.number(STOPPING);
            out.bytes(1, &ids::run_bytes(*run));
        }
        Answer::Done => out.number(DONE),
        Answer::Refused(refused) => {
            out.number(REFUSED);
            nested(out, 1, |out| p::write_refused(out, *refused));
        }
    }
}

fn nested(out: &mut Writer, tag: u8, write: impl FnOnce(&mut Writer)) {
    let mut inner = Writer::default();
    write(&mut inner);
    out.bytes(tag, &inner.0);
}

fn write_submitted(out: &mut Writer, job: &Result<Submitted, Refused>) {
    match job {
        Ok(submitted) => {
            nested(out, 1, |out| p::write_made(out, submitted.made));
            p::write_time(out, 2, submitted.next);
            out.number_field(3, submitted.replayed.into());
        }
        Err(refused) => nested(out, 4, |out| p::write_refused(out, *refused)),
    }
}

fn write_leased(out: &mut Writer, leased: &Leased) {
    out.bytes(1, &ids::run_bytes(leased.run));
    out.number_field(2, leased.attempt.into());
    out.number_field(3, leased.token.0);
    out.signed_field(4, leased.nominal.micros());
    out.signed_field(5, leased.due.micros());
    out.number_field(6, leased.version.into());
    out.signed_field(7, leased.lease.micros());
    out.signed_field(8, leased.deadline.micros());
    out.number_field(9, leased.checkpoint.into());
}

/// None where it is not known here.
pub fn read(bytes: &[u8]) -> Option<Answer> {
    let mut reader = Reader(bytes);
    let number = reader.number()?;
    let fields = Fields::read(reader.0)?;
    let run = || p::run(fields.one(1)?);
    Some(match number {
        SUBMITTED => Answer::Submitted(fields.all(1).map(read_submitted).collect::<Option<_>>()?),
        CLAIMED => Answer::Claimed(fields.all(1).map(read_leased).collect::<Option<_>>()?),
        BEATS => Answer::Beats(fields.all(1).map(read_beat).collect::<Option<_>>()?),
        SETTLED => Answer::Settled(fields.all(1).map(read_settled).collect::<Option<_>>()?),
        RUN => Answer::Run(run()?, RunState::from_code(fields.signed(2)?)?),
        JOB => Answer::Job(p::job(fields.one(1)?)?, fields.narrow(2)?),
        MADE => Answer::Made(p::made(fields.one(1)?)?),
        STOPPING => Answer::Stopping(run()?),
        DONE => Answer::Done,
        REFUSED => Answer::Refused(p::refused(fields.one(1)?)?),
        _ => return None,
    })
}

fn read_submitted(bytes: &[u8]) -> Option<Result<Submitted, Refused>> {
    let fields = Fields::read(bytes)?;
    if let Some(refused) = fields.one(4) {
        return p::refused(refused).map(Err);
    }
    Some(Ok(Submitted {
        made: p::made(fields.one(1)?)?,
        next: fields.maybe(2, p::time)?,
        replayed: fields.is_set(3),
    }))
}

fn read_leased(bytes: &[u8]) -> Option<Leased> {
    let fields = Fields::read(bytes)?;
    let time = |tag| fields.signed(tag).map(Time::from_micros);
    Some(Leased {
        // Whoever owns its shard kept the answer until then.
        reserved: false,
        run: p::run(fields.one(1)?)?,
        attempt: fields.narrow(2)?,
        token: Token(fields.number(3)?),
        nominal: time(4)?,
        due: time(5)?,
        version: fields.narrow(6)?,
        lease: p::span(fields.one(7)?)?,
        deadline: time(8)?,
        checkpoint: fields.is_set(9),
    })
}

fn read_beat(bytes: &[u8]) -> Option<(RunId, BeatAnswer)> {
    let fields = Fields::read(bytes)?;
    let answer = match fields.number(2)? {
        1 => BeatAnswer::Ok { until: p::time(fields.one(3)?)? },
        2 => BeatAnswer::Cancel,
        3 => BeatAnswer::Stale,
        _ => return None,
    };
    Some((p::run(fields.one(1)?)?, answer))
}

fn read_settled(bytes: &[u8]) -> Option<(RunId, SettleAnswer)> {
    let fields = Fields::read(bytes)?;
    let answer = match fields.one(2) {
        None => SettleAnswer::Stale,
        Some(_) => SettleAnswer::Ok {
            state: RunState::from_code(fields.signed(2)?)?,
            next: fields.maybe(3, p::time)?,
        },
    };
    Some((p::run(fields.one(1)?)?, answer))
}

//! What can happen to a job or a run, one file per verb.

mod backfill;
mod backlog;
mod cancel;
mod catch_up;
mod claim;
mod delete;
mod end;
mod expire;
mod fire;
mod heartbeat;
mod hold;
mod make;
mod occurrence;
mod overlap;
mod pause;
mod put_off;
mod queue;
mod replay;
mod rerun;
mod rescue;
mod reserve;
mod retry;
mod settle;
mod submit;
mod sweep;
mod trigger;
mod update;
mod versions;

pub(crate) use reserve::Reserved;
pub(crate) use sweep::Sweep;

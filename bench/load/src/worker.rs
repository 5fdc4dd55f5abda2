//! Pull workers: each claims a batch, counts it and settles it, over one connection.

use crate::connection::Server;
use crate::limits::{CLAIM, CLAIM_WAIT};
use crate::seen::{Seen, now};
use crate::submit::patiently;
use crate::tenants::is_foreign;
use serde::Deserialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Deserialize)]
struct Claimed<'a> {
    #[serde(borrow)]
    runs: Vec<Leased<'a>>,
}

#[derive(Deserialize)]
struct Leased<'a> {
    run_id: &'a str,
    token: u64,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    number: u64,
}

#[derive(Deserialize)]
struct Settled<'a> {
    #[serde(borrow)]
    results: Vec<SettledOne<'a>>,
}

#[derive(Deserialize)]
struct SettledOne<'a> {
    status: &'a str,
}

/// What a worker must say again after its connection broke: a claim under its own name, and how it ended
/// what it had got.
#[derive(Debug, Default)]
pub struct State {
    asked: u64,
    unsaid: Option<(String, Vec<bool>)>,
}

/// Works until `over`. `settled` counts what the server took as done.
pub fn work(
    server: &Server,
    queue: &str,
    name: &str,
    seen: &Seen,
    settled: &AtomicU64,
    over: &AtomicBool,
    state: &mut State,
) -> Result<(), String> {
    let mut connection = server.connect().map_err(|error| error.to_string())?;
    loop {
        if let Some((body, own)) = &state.unsaid {
            let reply = patiently(&mut connection, "/v1/work/settle", body.as_bytes())?;
            let answer: Settled =
                serde_json::from_slice(&reply).map_err(|error| error.to_string())?;
            let done =
                answer.results.iter().zip(own).filter(|(one, own)| one.status == "ok" && **own);
            settled.fetch_add(done.count() as u64, Ordering::Relaxed);
            state.unsaid = None;
        }
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let asked = state.asked;
        let claim = format!(
            r#"{{"worker":"{name}","queues":["{queue}"],"max":{CLAIM},"wait":"{CLAIM_WAIT}","request_id":"{name}-{asked}"}}"#
        );
        let reply = patiently(&mut connection, "/v1/work/claim", claim.as_bytes())?;
        let at = now();
        let claimed: Claimed = serde_json::from_slice(&reply).map_err(|error| error.to_string())?;
        state.asked += 1;
        if claimed.runs.is_empty() {
            continue;
        }
        let mut body = format!(r#"{{"worker":"{name}","runs":["#);
        let mut own = Vec::with_capacity(claimed.runs.len());
        for (place, run) in claimed.runs.iter().enumerate() {
            own.push(!is_foreign(run.payload.number));
            if !is_foreign(run.payload.number) {
                seen.see(run.payload.number, at);
            }
            let comma = if place > 0 { "," } else { "" };
            let (id, token) = (run.run_id, run.token);
            let _ =
                write!(body, r#"{comma}{{"run_id":"{id}","token":{token},"outcome":"succeeded"}}"#);
        }
        body.push_str("]}");
        state.unsaid = Some((body, own));
    }
}

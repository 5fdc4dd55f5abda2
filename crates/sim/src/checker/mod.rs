//! Stand-in until the checker proper arrives.
use crate::log::Log;
use model::row::{Key, Row};
use shard::Event;
use store::memory::Dump;

#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}
#[derive(Clone, Copy, Debug)]
pub struct CheckSettings {
    pub healed: bool,
    pub poison: bool,
}

pub fn check(log: &Log, dump: &Dump, settings: &CheckSettings) -> Vec<Violation> {
    let mut v = Vec::new();
    if !settings.poison
        && let Some(n) = log.events.get(&Event::Divergence)
    {
        v.push(Violation { invariant: "divergence", detail: format!("{n}") });
    }
    let mut history = std::collections::BTreeSet::new();
    let mut keys = std::collections::BTreeSet::new();
    for s in &dump.shards {
        for h in &s.history {
            history.insert((h.run, h.token));
        }
        for (k, row) in &s.rows {
            keys.insert(k.clone());
            match row {
                Row::Lease(l) => {
                    v.push(Violation { invariant: "lease left", detail: format!("{l:?}") })
                }
                Row::Run(r)
                    if matches!(r.state, model::RunState::Ready | model::RunState::Blocked)
                        || (r.state != model::RunState::Dead
                            && r.due < dump.now.minus(model::Span::from_secs(5))) =>
                {
                    v.push(Violation { invariant: "run left", detail: format!("{r:?}") })
                }
                Row::Backlog(b) => {
                    v.push(Violation { invariant: "backlog left", detail: format!("{b:?}") })
                }
                _ => {}
            }
        }
    }
    if log.tail_lost.is_empty() {
        for s in &log.starts {
            if !history.contains(&(s.run, s.token)) && !keys.contains(&Key::Lease(s.run)) {
                v.push(Violation { invariant: "start in history", detail: format!("{s:?}") });
            }
        }
    }
    for s in &log.starts {
        if s.at < s.due {
            v.push(Violation { invariant: "early", detail: format!("{s:?}") });
        }
    }
    for op in &log.ops {
        if op.heard.is_none() && op.sent > dump.now.minus(model::Span::from_secs(50)) {
            v.push(Violation { invariant: "unheard", detail: format!("{op:?}") });
        }
    }
    v
}

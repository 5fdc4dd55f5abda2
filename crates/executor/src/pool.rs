//! Connections that are kept for the next webhook to the same place. They stay with the peer that
//! was vetted when they were made. Nobody drives them while they lie here: a connection is looked at
//! when it is taken, and thrown away when its time is over.

use crate::connection::Connection;
use crate::limits::{CONNECTION_AGE_MAX, IDLE_MAX, IDLE_PER_HOST_MAX, IDLE_TIME_MAX};
use crate::place::Place;
use model::{Span, Time};
use node::clock::BootClock;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<BTreeMap<Place, Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Time,
}

fn span(of: Duration) -> Span {
    Span::from_micros(i64::try_from(of.as_micros()).unwrap_or(i64::MAX))
}

impl Idle {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.since) > span(IDLE_TIME_MAX)
            || now.since(self.connection.made) > span(CONNECTION_AGE_MAX)
    }
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, BTreeMap<Place, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one used last: it is the least likely to have been closed at the other end.
    pub async fn take(&self, place: &Place) -> Option<Connection> {
        loop {
            let mut idle = self.idle().get_mut(place)?.pop()?;
            if !idle.is_over(BootClock.local()) && idle.connection.is_usable().await {
                return Some(idle.connection);
            }
        }
    }

    pub fn keep(&self, place: &Place, connection: Connection) {
        let now = BootClock.local();
        let kept = Idle { connection, since: now };
        if kept.is_over(now) {
            return;
        }
        let mut idle = self.idle();
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            let oldest = idle.iter().min_by_key(|(_, all)| all.first().map(|one| one.since));
            let oldest = oldest.map(|(place, _)| place.clone());
            if let Some(all) = oldest.and_then(|place| idle.get_mut(&place)) {
                all.remove(0);
            }
            idle.retain(|_, all| !all.is_empty());
        }
        let here = idle.entry(place.clone()).or_default();
        if here.len() >= IDLE_PER_HOST_MAX {
            here.remove(0);
        }
        here.push(kept);
    }

    /// Throws away what has lain too long. Called now and then.
    pub fn sweep(&self) {
        let now = BootClock.local();
        let mut idle = self.idle();
        idle.values_mut().for_each(|all| all.retain(|one| !one.is_over(now)));
        idle.retain(|_, all| !all.is_empty());
    }

    pub fn len(&self) -> usize {
        self.idle().values().map(Vec::len).sum()
    }
}

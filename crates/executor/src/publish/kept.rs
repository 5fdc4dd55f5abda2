//! Connections to brokers, and those that are kept for the next message.

use super::Said;
use super::amqp::Amqp;
use super::redis::Redis;
use crate::limits::{BROKER_IDLE_MAX, BROKER_IDLE_PER_URL_MAX, CONNECTION_AGE_MAX, IDLE_TIME_MAX};
use crate::message::Message;
use crate::stream::{Kind, Stream};
use crate::trouble::Trouble;
use model::{Broker, Span, Text, Time};
use node::clock::BootClock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::broker::BrokerUrl;

/// One connection that is logged in.
#[derive(Debug)]
pub struct Link {
    talk: Talk,
    heard: Arc<AtomicU64>,
    made: Time,
    since: Time,
}

#[derive(Debug)]
enum Talk {
    Redis(Redis),
    Amqp(Amqp),
}

impl Link {
    /// The inner error is the broker's no.
    pub async fn open(
        kind: Kind,
        broker: &Broker,
        url: &BrokerUrl,
    ) -> Result<Result<Link, Said>, Trouble> {
        let (stream, heard) = Stream::new(kind);
        let opened = match broker {
            Broker::Redis { .. } => Redis::open(stream, url).await?.map(Talk::Redis),
            _ => Amqp::open(stream, url).await?.map(Talk::Amqp),
        };
        let now = BootClock.local();
        Ok(opened.map(|talk| Link { talk, heard, made: now, since: now }))
    }

    /// Bytes that came from the broker so far.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// True: the connection can be used again.
    pub async fn publish(
        &mut self,
        broker: &Broker,
        message: &Message<'_>,
    ) -> Result<(Said, bool), Trouble> {
        match (&mut self.talk, broker) {
            (Talk::Redis(redis), Broker::Redis { stream, max_len, .. }) => {
                redis.publish(stream, *max_len, message).await
            }
            (Talk::Amqp(amqp), Broker::RabbitMq { exchange, routing_key, .. }) => {
                amqp.publish(exchange, routing_key, message).await
            }
            _ => Err(Trouble::Refused("another kind of broker answers here".to_string())),
        }
    }

    fn is_over(&self, now: Time) -> bool {
        now.since(self.since) > span(IDLE_TIME_MAX)
            || now.since(self.made) > span(CONNECTION_AGE_MAX)
    }
}

fn span(of: Duration) -> Span {
    Span::from_micros(i64::try_from(of.as_micros()).unwrap_or(i64::MAX))
}

#[derive(Debug, Default)]
pub struct Kept {
    idle: Mutex<BTreeMap<Text, Vec<Link>>>,
}

impl Kept {
    fn idle(&self) -> MutexGuard<'_, BTreeMap<Text, Vec<Link>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one used last: it is the least likely to have been closed at the other end.
    pub fn take(&self, key: &Text) -> Option<Link> {
        let now = BootClock.local();
        let mut idle = self.idle();
        loop {
            let link = idle.get_mut(key)?.pop()?;
            if !link.is_over(now) {
                return Some(link);
            }
        }
    }

    pub fn keep(&self, key: Text, link: Link) {
        let now = BootClock.local();
        let link = Link { since: now, ..link };
        if link.is_over(now) {
            return;
        }
        let mut idle = self.idle();
        idle.retain(|_, all| !all.is_empty());
        if idle.values().map(Vec::len).sum::<usize>() >= BROKER_IDLE_MAX {
            return;
        }
        let here = idle.entry(key).or_default();
        if here.len() < BROKER_IDLE_PER_URL_MAX {
            here.push(link);
        }
    }

    pub fn sweep(&self) {
        let now = BootClock.local();
        let mut idle = self.idle();
        idle.values_mut().for_each(|all| all.retain(|link| !link.is_over(now)));
        idle.retain(|_, all| !all.is_empty());
    }
}

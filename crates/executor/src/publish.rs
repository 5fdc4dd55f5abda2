//! Messages to brokers: one message, one confirmation, and what it means for the run. The broker's
//! address is vetted like a webhook's, on every new connection.
//!
//! ```text
//!   attempt ─► kept connection (pool) or a new one (dial, log in) ─► message ─► confirmation ─► verdict
//!                                                                     redis: the reply to XADD
//!                                                                     rabbitmq: ack of a mandatory publish
//! ```
//!
//! A kept connection may be closed by its broker in the moment it is used. If it ends before a byte
//! of an answer came, the message is sent once more on a new one, inside the same attempt. So a
//! message may be there twice, under one run id: consumers look at `webhook-id`.
//!
//! What it does not do: declare queues, consume, follow a cluster's redirections.

mod amqp;
mod amqp_frame;
mod kept;
mod redis;

use crate::client::Client;
use crate::connection::Until;
use crate::message::Message;
use crate::place::Place;
use crate::trouble::Trouble;
use kept::{Kept, Link};
use model::{Broker, Bytes, Text};
use shard::command::End;
use wire::broker::{AMQP, BrokerUrl, REDIS};

#[derive(Debug, Default)]
pub struct Publisher {
    kept: Kept,
}

/// How a broker took a message.
#[derive(Debug)]
enum Said {
    /// Confirmed; what it called the message.
    Taken(Option<String>),
    /// It said no. `retryable`: another time it may say yes.
    No { code: Option<u16>, why: String, retryable: bool },
}

/// Where the broker is; the URL was checked when the job was made.
pub fn place(broker: &Broker) -> Result<Place, String> {
    let url = url(broker)?;
    Ok(Place { tls: url.tls, host: url.host, port: url.port })
}

fn url(broker: &Broker) -> Result<BrokerUrl, String> {
    match broker {
        Broker::Redis { url, .. } => BrokerUrl::parse(url, REDIS),
        Broker::RabbitMq { url, .. } => BrokerUrl::parse(url, AMQP),
        _ => Err("this version of duly does not know this broker".to_string()),
    }
}

impl Publisher {
    pub async fn send(
        &self,
        client: &Client,
        broker: &Broker,
        place: &Place,
        message: &Message<'_>,
        until: Until,
    ) -> End {
        let sent = self.publish(client, broker, place, message);
        match tokio::time::timeout(until.left(), sent).await {
            Ok(Ok(Said::Taken(name))) => {
                End::Succeeded { output: name.map(|name| Bytes::from(name.into_bytes())) }
            }
            Ok(Ok(Said::No { code, why, retryable })) => failed(code, why, retryable),
            Ok(Err(Trouble::Refused(why))) => failed(None, why, false),
            Ok(Err(Trouble::Failed(why) | Trouble::Silent(why))) => failed(None, why, true),
            Ok(Err(Trouble::Timeout)) | Err(_) => End::TimedOut,
        }
    }

    async fn publish(
        &self,
        client: &Client,
        broker: &Broker,
        place: &Place,
        message: &Message<'_>,
    ) -> Result<Said, Trouble> {
        let key = key(broker);
        if let Some(mut link) = self.kept.take(&key) {
            let silent = link.heard();
            match link.publish(broker, message).await {
                Ok((said, again)) => return Ok(self.done(key, link, said, again)),
                Err(_) if link.heard() == silent => {}
                Err(trouble) => return Err(trouble),
            }
        }
        let url = url(broker).map_err(Trouble::Refused)?;
        let stream = client.dial(place).await?;
        let mut link = match Link::open(stream, broker, &url).await? {
            Ok(link) => link,
            Err(said) => return Ok(said),
        };
        let (said, again) = link.publish(broker, message).await?;
        Ok(self.done(key, link, said, again))
    }

    fn done(&self, key: Text, link: Link, said: Said, again: bool) -> Said {
        if again {
            self.kept.keep(key, link);
        }
        said
    }

    /// Called now and then.
    pub fn sweep(&self) {
        self.kept.sweep();
    }
}

/// Connections are shared by those who log in alike.
fn key(broker: &Broker) -> Text {
    match broker {
        Broker::Redis { url, .. } | Broker::RabbitMq { url, .. } => url.clone(),
        _ => Text::from(""),
    }
}

fn failed(code: Option<u16>, error: String, retryable: bool) -> End {
    End::Failed { error: Text::from(error), code, retryable, retry_after: None }
}

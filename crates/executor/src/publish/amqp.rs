//! RabbitMQ: logs in, and publishes with confirmation. A message is persistent and mandatory: one that
//! no queue takes comes back, and the attempt fails. Speaks AMQP 0-9-1, of which this needs a dozen
//! methods on one channel; why not a library: docs/adr/0014-brokers.md.

use super::Said;
use super::amqp_frame::{self as wire, BODY, FRAME_OVERHEAD, HEADER, In, METHOD, Out};
use crate::limits::{AMQP_FRAME_MAX, AMQP_FRAMES_MAX};
use crate::message::Message;
use crate::stream::Stream;
use crate::trouble::Trouble;
use ::wire::broker::BrokerUrl;
use tokio::io::{AsyncWriteExt, BufReader};

const PREFACE: &[u8] = b"AMQP\0\0\x09\x01";

// Methods: class and number.
const START: (u16, u16) = (10, 10);
const START_OK: (u16, u16) = (10, 11);
const TUNE: (u16, u16) = (10, 30);
const TUNE_OK: (u16, u16) = (10, 31);
const OPEN: (u16, u16) = (10, 40);
const OPEN_OK: (u16, u16) = (10, 41);
const CLOSE: (u16, u16) = (10, 50);
const CHANNEL_OPEN: (u16, u16) = (20, 10);
const CHANNEL_OPEN_OK: (u16, u16) = (20, 11);
const CHANNEL_CLOSE: (u16, u16) = (20, 40);
const PUBLISH: (u16, u16) = (60, 40);
const RETURN: (u16, u16) = (60, 50);
const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);
const CONFIRM: (u16, u16) = (85, 10);
const CONFIRM_OK: (u16, u16) = (85, 11);

/// Of `basic.publish`: a message that cannot be routed comes back.
const MANDATORY: u8 = 1;
/// Properties: content type, headers, delivery mode, message id, timestamp, app id.
const PROPERTIES: u16 = 0x8000 | 0x2000 | 0x1000 | 0x0080 | 0x0040 | 0x0008;
/// Of `delivery-mode`: it survives a restart of the broker, if its queue does.
const PERSISTENT: u8 = 2;

#[derive(Debug)]
pub struct Amqp {
    stream: BufReader<Stream>,
    /// The largest frame that both sides take.
    frame_max: usize,
}

/// What a broker said: a method with its arguments, or its no.
type Heard = Result<Vec<u8>, Said>;

impl Amqp {
    /// The inner error is the broker's no.
    pub async fn open(stream: Stream, url: &BrokerUrl) -> Result<Result<Amqp, Said>, Trouble> {
        let mut amqp = Amqp { stream: BufReader::new(stream), frame_max: AMQP_FRAME_MAX };
        amqp.write(PREFACE).await?;
        if let Err(said) = amqp.expect(START).await? {
            return Ok(Err(said));
        }
        let user = url.user.as_deref().unwrap_or("guest");
        let password = url.password.as_deref().unwrap_or("guest");
        let login = Out::method(START_OK.0, START_OK.1)
            .abilities(&["publisher_confirms", "basic.nack", "authentication_failure_close"])
            .short_text("PLAIN")
            .long_text(format!("\0{user}\0{password}").as_bytes())
            .short_text("en_US");
        amqp.say(0, login).await?;
        let tune = match amqp.expect(TUNE).await? {
            Ok(tune) => tune,
            Err(said) => return Ok(Err(said)),
        };
        amqp.tune(&tune).await?;
        // Without a path it is the usual one; `/%2Fname` and `/name` are as RabbitMQ reads them.
        let vhost = url.path.as_deref().unwrap_or("/");
        let open = Out::method(OPEN.0, OPEN.1).short_text(vhost).short_text("").octet(0);
        amqp.say(0, open).await?;
        for (channel, ask, answer) in [
            (0, None, OPEN_OK),
            (1, Some(Out::method(CHANNEL_OPEN.0, CHANNEL_OPEN.1).short_text("")), CHANNEL_OPEN_OK),
            (1, Some(Out::method(CONFIRM.0, CONFIRM.1).octet(0)), CONFIRM_OK),
        ] {
            if let Some(ask) = ask {
                amqp.say(channel, ask).await?;
            }
            if let Err(said) = amqp.expect(answer).await? {
                return Ok(Err(said));
            }
        }
        Ok(Ok(amqp))
    }

    /// No heartbeats: a connection is used at once, or closed soon.
    async fn tune(&mut self, tune: &[u8]) -> Result<(), Trouble> {
        let mut given = In(tune);
        let (_channels, frame_max) = (given.short()?, given.long()? as usize);
        if frame_max != 0 {
            self.frame_max = frame_max.clamp(4_096, AMQP_FRAME_MAX);
        }
        let ok = Out::method(TUNE_OK.0, TUNE_OK.1).short(1).long(self.frame_max as u32).short(0);
        self.say(0, ok).await
    }

    pub async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &str,
        message: &Message<'_>,
    ) -> Result<(Said, bool), Trouble> {
        let method = Out::method(PUBLISH.0, PUBLISH.1)
            .short(0)
            .short_text(exchange)
            .short_text(routing_key)
            .octet(MANDATORY);
        let fields = message.fields();
        let header = Out::default()
            .short(PUBLISH.0)
            .short(0)
            .long_long(message.payload.len() as u64)
            .short(PROPERTIES)
            .short_text(message.content_type)
            .table(fields.iter().map(|(name, value)| (*name, value.as_str())))
            .octet(PERSISTENT)
            .short_text(&message.run)
            .long_long(message.now.secs().max(0).unsigned_abs())
            .short_text("duly");
        let mut bytes = Vec::with_capacity(message.payload.len() + 1_024);
        wire::frame(METHOD, 1, &method.0, &mut bytes);
        wire::frame(HEADER, 1, &header.0, &mut bytes);
        for part in message.payload.chunks(self.frame_max - FRAME_OVERHEAD) {
            wire::frame(BODY, 1, part, &mut bytes);
        }
        self.write(&bytes).await?;
        self.confirmation().await
    }

    /// A message that comes back does so before it is confirmed.
    async fn confirmation(&mut self) -> Result<(Said, bool), Trouble> {
        let mut returned = None;
        for _ in 0..AMQP_FRAMES_MAX {
            let frame = wire::read(&mut self.stream).await?;
            if frame.kind != METHOD {
                continue; // The content of what came back, or a heartbeat.
            }
            let mut given = In(&frame.payload);
            match (given.short()?, given.short()?) {
                ACK => return Ok((returned.unwrap_or(Said::Taken(None)), true)),
                NACK => return Ok((no(None, "RabbitMQ could not take the message", true), true)),
                RETURN => {
                    let (code, text) = (given.short()?, given.short_text()?);
                    let why = format!("RabbitMQ sent it back: {text} (no queue takes it)");
                    returned = Some(no(Some(code), &why, true));
                }
                CLOSE | CHANNEL_CLOSE => return Ok((closed(given)?, false)),
                _ => {}
            }
        }
        Err(wire::strange())
    }

    /// Waits for a method; its arguments.
    async fn expect(&mut self, wanted: (u16, u16)) -> Result<Heard, Trouble> {
        for _ in 0..AMQP_FRAMES_MAX {
            let frame = wire::read(&mut self.stream).await?;
            if frame.kind != METHOD {
                continue;
            }
            let mut given = In(&frame.payload);
            match (given.short()?, given.short()?) {
                heard if heard == wanted => return Ok(Ok(given.0.to_vec())),
                CLOSE | CHANNEL_CLOSE => return Ok(Err(closed(given)?)),
                _ => return Err(wire::strange()),
            }
        }
        Err(wire::strange())
    }

    async fn say(&mut self, channel: u16, method: Out) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        wire::frame(METHOD, channel, &method.0, &mut bytes);
        self.write(&bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let stream = self.stream.get_mut();
        let sent = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        sent.await.map_err(|error| Trouble::connection(&error))
    }
}

/// The broker closes the channel or the connection and says why. As with a webhook's status: who may
/// not, or what is not there, may be tomorrow; what makes no sense never will.
fn closed(mut given: In<'_>) -> Result<Said, Trouble> {
    let (code, text) = (given.short()?, given.short_text()?);
    let never = matches!(code, 311 | 402 | 406 | 501..=503 | 505 | 530 | 540);
    Ok(no(Some(code), &format!("RabbitMQ said no: {text}"), !never))
}

fn no(code: Option<u16>, why: &str, retryable: bool) -> Said {
    Said::No { code, why: why.to_string(), retryable }
}

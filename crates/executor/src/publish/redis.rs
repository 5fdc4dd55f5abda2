//! Redis: logs in, and adds entries to streams. Speaks RESP2, of which this needs four replies; why
//! not a library: docs/adr/0014-brokers.md.

use super::Said;
use crate::limits::{BROKER_TEXT_MAX, ERROR_CHARS};
use crate::message::Message;
use crate::stream::Stream;
use crate::trouble::Trouble;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use wire::broker::BrokerUrl;

#[derive(Debug)]
pub struct Redis {
    stream: BufReader<Stream>,
}

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    Error(String),
}

impl Redis {
    /// The inner error is the broker's no.
    pub async fn open(stream: Stream, url: &BrokerUrl) -> Result<Result<Redis, Said>, Trouble> {
        let mut redis = Redis { stream: BufReader::new(stream) };
        if let Some(password) = &url.password {
            let mut login: Vec<&[u8]> = vec![b"AUTH"];
            login.extend(url.user.as_ref().map(String::as_bytes));
            login.push(password.as_bytes());
            if let Reply::Error(why) = redis.ask(&login).await? {
                return Ok(Err(no(&why)));
            }
        }
        if let Some(database) = url.path.as_ref().filter(|path| !path.is_empty()) {
            let select: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
            if let Reply::Error(why) = redis.ask(&select).await? {
                return Ok(Err(no(&why)));
            }
        }
        Ok(Ok(redis))
    }

    /// The reply to XADD is the confirmation, and the entry's id its name.
    pub async fn publish(
        &mut self,
        stream: &str,
        max_len: Option<u64>,
        message: &Message<'_>,
    ) -> Result<(Said, bool), Trouble> {
        let most = max_len.map(|most| most.to_string());
        let fields = message.fields();
        let mut words: Vec<&[u8]> = vec![b"XADD", stream.as_bytes()];
        if let Some(most) = &most {
            // About so many: exactly so many would cost the broker a walk.
            words.extend([&b"MAXLEN"[..], b"~", most.as_bytes()]);
        }
        words.push(b"*");
        for (name, value) in &fields {
            words.extend([name.as_bytes(), value.as_bytes()]);
        }
        words.extend([&b"content-type"[..], message.content_type.as_bytes()]);
        words.extend([&b"body"[..], message.payload]);
        match self.ask(&words).await? {
            Reply::Text(id) => Ok((Said::Taken(Some(id)), true)),
            Reply::Error(why) => Ok((no(&why), true)),
        }
    }

    async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Trouble> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let sent = async {
            self.stream.get_mut().write_all(&bytes).await?;
            self.stream.get_mut().flush().await
        };
        sent.await.map_err(|error| Trouble::connection(&error))?;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Reply, Trouble> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
        match kind {
            "+" | ":" => Ok(Reply::Text(rest.to_string())),
            "-" => Ok(Reply::Error(rest.to_string())),
            "$" => {
                let length = rest.parse::<usize>().ok().filter(|n| *n <= BROKER_TEXT_MAX);
                let mut bytes = vec![0; length.ok_or_else(strange)? + 2];
                let read = self.stream.read_exact(&mut bytes).await;
                read.map_err(|error| Trouble::connection(&error))?;
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).map(Reply::Text).map_err(|_| strange())
            }
            _ => Err(strange()),
        }
    }

    async fn line(&mut self) -> Result<String, Trouble> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.stream).take(BROKER_TEXT_MAX as u64);
        let read = limited.read_until(b'\n', &mut bytes).await;
        read.map_err(|error| Trouble::connection(&error))?;
        if bytes.is_empty() {
            return Err(Trouble::Failed("the broker closed the connection".to_string()));
        }
        let text = bytes.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
        text.map(str::to_string).ok_or_else(strange)
    }
}

fn strange() -> Trouble {
    Trouble::Failed("what answers there does not speak like Redis".to_string())
}

/// As with a webhook's status: who may not, or not now, may tomorrow; what makes no sense never will.
fn no(why: &str) -> Said {
    let why: String = why.chars().take(ERROR_CHARS).collect();
    let word = why.split(' ').next().unwrap_or_default();
    let retryable = !matches!(word, "WRONGTYPE" | "ERR");
    Said::No { code: None, why: format!("Redis said no: {why}"), retryable }
}

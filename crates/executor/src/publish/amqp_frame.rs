//! AMQP 0-9-1 on the wire: frames, and the few values that publishing needs. No I/O here but reading
//! one frame.

use crate::limits::AMQP_FRAME_MAX;
use crate::stream::Stream;
use crate::trouble::Trouble;
use tokio::io::{AsyncReadExt, BufReader};

pub const METHOD: u8 = 1;
pub const HEADER: u8 = 2;
pub const BODY: u8 = 3;
const END: u8 = 0xce;
/// Type, channel, size, and the end.
pub const FRAME_OVERHEAD: usize = 8;

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// A frame around what was written.
pub fn frame(kind: u8, channel: u16, payload: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END);
}

pub async fn read(stream: &mut BufReader<Stream>) -> Result<Frame, Trouble> {
    let broken = |error: std::io::Error| Trouble::connection(&error);
    let mut head = [0; 7];
    stream.read_exact(&mut head).await.map_err(broken)?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if size > AMQP_FRAME_MAX {
        return Err(strange());
    }
    let mut payload = vec![0; size + 1];
    stream.read_exact(&mut payload).await.map_err(broken)?;
    match payload.pop() {
        Some(END) => Ok(Frame { kind: head[0], payload }),
        _ => Err(strange()),
    }
}

pub fn strange() -> Trouble {
    Trouble::Failed("what answers there does not speak AMQP 0-9-1".to_string())
}

/// A method's arguments, written one after the other.
#[derive(Debug, Default)]
pub struct Out(pub Vec<u8>);

impl Out {
    pub fn method(class: u16, method: u16) -> Out {
        Out::default().short(class).short(method)
    }

    pub fn octet(mut self, value: u8) -> Out {
        self.0.push(value);
        self
    }

    pub fn short(mut self, value: u16) -> Out {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn long(mut self, value: u32) -> Out {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn long_long(mut self, value: u64) -> Out {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// At most 255 bytes; longer ones are cut, and were refused when the job was made.
    pub fn short_text(mut self, text: &str) -> Out {
        let bytes = &text.as_bytes()[..text.len().min(255)];
        self.0.push(bytes.len() as u8);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn long_text(mut self, bytes: &[u8]) -> Out {
        self.0.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Names with text.
    pub fn table<'a>(self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Out {
        let inside = pairs.fold(Out::default(), |out, (name, value)| {
            out.short_text(name).octet(b'S').long_text(value.as_bytes())
        });
        self.long_text(&inside.0)
    }

    /// Names with "yes".
    pub fn abilities(self, names: &[&str]) -> Out {
        let inside = names
            .iter()
            .fold(Out::default(), |out, name| out.short_text(name).octet(b't').octet(1));
        let named = Out::default().short_text("capabilities").octet(b'F').long_text(&inside.0);
        self.long_text(&named.0)
    }
}

/// A method's arguments, read one after the other.
#[derive(Debug)]
pub struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Trouble> {
        let (first, rest) = self.0.split_at_checked(count).ok_or_else(strange)?;
        self.0 = rest;
        Ok(first)
    }

    pub fn short(&mut self) -> Result<u16, Trouble> {
        self.take(2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }

    pub fn long(&mut self) -> Result<u32, Trouble> {
        self.take(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    pub fn short_text(&mut self) -> Result<String, Trouble> {
        let length = usize::from(self.take(1)?[0]);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}

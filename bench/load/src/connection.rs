//! One kept-alive HTTP/1.1 connection, one request at a time. Its own few lines and not a library:
//! the generator shares two cores with the server it measures, and must cost little.

use crate::limits::{BODY_MAX, HEAD_MAX, PATIENCE};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::retry_on_intr;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Server {
    /// "127.0.0.1:7070"
    pub address: String,
    /// Header lines that every request bears, each with its line end.
    pub headers: String,
}

#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    headers: String,
}

/// To wait for an answer of any of several. Nothing may be left of the one before: an answer has been heard to its end.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Server {
    pub fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream: BufReader::with_capacity(64 * 1024, stream),
            host: self.address.clone(),
            headers: self.headers.clone(),
        })
    }
}

impl Connection {
    pub fn get(&mut self, path: &str) -> Result<Reply> {
        self.ask("GET", path, "", b"")
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> Result<Reply> {
        self.ask("POST", path, "", body)
    }

    /// With header lines of its own, each with its line end.
    pub fn post_with(&mut self, path: &str, headers: &str, body: &[u8]) -> Result<Reply> {
        self.ask("POST", path, headers, body)
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Reply> {
        self.send(method, path, headers, body)?;
        self.hear()
    }

    /// Asks and does not wait: the answer is heard later, before anything else is asked.
    pub fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<()> {
        let mut request = Vec::with_capacity(body.len() + 256);
        write!(
            request,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{}{headers}Content-Length: {}\r\n\r\n",
            self.host,
            self.headers,
            body.len()
        )?;
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)
    }

    /// What was sent is answered.
    pub fn hear(&mut self) -> Result<Reply> {
        let (head, body) = message(&mut self.stream)?.ok_or_else(|| broken("no answer"))?;
        let status = head.get(9..12).and_then(|code| code.parse().ok());
        Ok(Reply { status: status.ok_or_else(|| broken("no status"))?, body })
    }
}

/// Waits, at most so long, until something has come on any of these, or one of them has ended; says on which, the first
/// one first.
pub fn ready(all: &mut [PollFd], patience: Option<Duration>) -> Result<Vec<usize>> {
    let wait = patience.and_then(|patience| Timespec::try_from(patience).ok());
    // A signal to this process is no answer: whoever stops and continues a measurement does not end it.
    retry_on_intr(|| poll(all, wait.as_ref()))?;
    Ok((0..all.len()).filter(|at| !all[*at].revents().is_empty()).collect())
}

/// The head and the body of a message that says how long it is; `None` at the end of the stream.
pub fn message(reader: &mut BufReader<TcpStream>) -> Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if head.len() > HEAD_MAX {
            return Err(broken("an endless head"));
        }
        if reader.read_line(&mut head)? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(broken("half a head")) };
        }
    }
    let length = match header(&head, "content-length") {
        Some(length) => length.parse().map_err(|_| broken("a length that is no number"))?,
        None => 0,
    };
    if length > BODY_MAX {
        return Err(broken("a body that is too large"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((head, body)))
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn broken(what: &str) -> Error {
    Error::other(what.to_string())
}

//! One request on one connection, and its answer. Nothing is repeated here: whoever asks decides
//! what an answer that never came means.

use crate::limits::REQUEST_PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The API key that everybody here uses, where nodes ask for one.
static BEARER: Mutex<Option<String>> = Mutex::new(None);

pub fn set_bearer(key: Option<String>) {
    *BEARER.lock().unwrap_or_else(PoisonError::into_inner) = key;
}

fn bearer() -> Option<String> {
    BEARER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
    pub replayed: bool,
}

pub fn ask(
    server: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    key: Option<&str>,
) -> Result<Reply> {
    send(REQUEST_PATIENCE, server, (method, path, "application/json"), body, key)
}

/// The same, by somebody who does not wait so long.
pub fn ask_within(
    patience: Duration,
    server: SocketAddr,
    (method, path): (&str, &str),
    body: &str,
    key: Option<&str>,
) -> Result<Reply> {
    send(patience, server, (method, path, "application/json"), body, key)
}

/// Many things, each a line.
pub fn post_lines(server: SocketAddr, path: &str, lines: &str, key: Option<&str>) -> Result<Reply> {
    send(REQUEST_PATIENCE, server, ("POST", path, "application/x-ndjson"), lines, key)
}

fn send(
    patience: Duration,
    server: SocketAddr,
    (method, path, kind): (&str, &str, &str),
    body: &str,
    key: Option<&str>,
) -> Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let bearer = bearer().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: {kind}\r\n{key}{bearer}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let (head, body) = message(&mut BufReader::new(stream))?;
    let status = head.get(9..12).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Reply { status, body, replayed: header(&head, "idempotency-replayed") == Some("true") })
}

/// The head and the body of a request or an answer that says how long it is.
pub fn message(reader: &mut BufReader<TcpStream>) -> Result<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(broken());
        }
    }
    let length = header(&head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn broken() -> Error {
    Error::other("it broke off")
}

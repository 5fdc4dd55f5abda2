//! The webhooks' receiver. It outlives the server, answers as the dice say, and writes down what it
//! got and what it answered.

use crate::book::{Book, Execution, Got, Said, now};
use crate::http::{header, message};
use crate::limits::{CONNECTIONS_MAX, KNOWN_MAX, REQUEST_PATIENCE};
use model::{RunId, Text, Time, Token};
use serde_json::Value;
use shard::command::End;
use sim::rng::Rng;
use std::io::{BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// From this number of a hundred on the dice say that there is no answer.
const HANGS_UP: u64 = 97;

/// Listens until the world is over. `calm`: every call succeeds at once.
pub fn start(book: Arc<Book>, seed: u64, calm: bool, at: IpAddr) -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((at, 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        let open = Arc::new(AtomicUsize::new(0));
        let mut rng = Rng::new(seed);
        for stream in listener.incoming().map_while(Result::ok) {
            if book.is_over() {
                return;
            }
            if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                continue; // More than any server has under way: somebody else's.
            }
            let (book, open, rng) = (book.clone(), open.clone(), rng.fork(1));
            open.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                serve(&book, stream, rng, calm);
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(address)
}

fn serve(book: &Book, stream: TcpStream, mut rng: Rng, calm: bool) {
    let _ = stream.set_read_timeout(Some(REQUEST_PATIENCE));
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    let mut first = true;
    // A request that breaks off has not begun an attempt: its receiver did nothing.
    while let Ok((head, body)) = message(&mut reader) {
        let at = now();
        let Some(got) = got(&head, &body, at) else { return };
        let (run, token) = (got.run, got.token);
        book.pages().got.push(got);
        let work = Work::begin(book, (run, token), at, &body);
        if !calm && rng.per_mille(150) {
            std::thread::sleep(Duration::from_millis(rng.below(250)));
        }
        // On a connection that was used before, duly takes a hang-up for one that came before the
        // request and sends it once more under the same token. That is open; so only new ones hang up.
        let most = if first { 100 } else { HANGS_UP };
        let dice = if calm { 0 } else { rng.below(most) };
        first = false;
        work.end(book);
        let Some(line) = answer(book, run, token, dice) else { return };
        // Connections are kept most times, as by a real server, and closed by some.
        let closes = !calm && rng.below(4) == 0;
        let kept = if closes { "close" } else { "keep-alive" };
        let answer =
            format!("HTTP/1.1 {line}\r\nContent-Length: 2\r\nConnection: {kept}\r\n\r\n{{}}");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || closes {
            return;
        }
    }
}

/// What a webhook asks for whose payload says how long it takes. The work is done to its end even if
/// the caller is gone meanwhile: the worst receiver that a limit has to live with.
struct Work(Option<(usize, Duration)>);

impl Work {
    fn begin(book: &Book, (run, token): (RunId, Token), begin: Time, body: &[u8]) -> Work {
        let payload: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let Some(millis) = payload["ms"].as_u64() else { return Work(None) };
        book.begun(run, &payload);
        let mut pages = book.pages();
        pages.executions.push(Execution { run, token, begin, end: None });
        Work(Some((pages.executions.len() - 1, Duration::from_millis(millis))))
    }

    fn end(self, book: &Book) {
        let Some((place, takes)) = self.0 else { return };
        std::thread::sleep(takes);
        if let Some(execution) = book.pages().executions.get_mut(place) {
            execution.end = Some(now());
        }
    }
}

/// Writes down what is answered; none: it hangs up without an answer.
fn answer(book: &Book, run: RunId, token: Token, dice: u64) -> Option<&'static str> {
    let failed = |code: u16, retryable| End::Failed {
        error: Text::from("the receiver said so"),
        code: Some(code),
        retryable,
        retry_after: None,
    };
    let (line, end) = match dice {
        0..75 => (Some("200 OK"), End::Succeeded { output: None }),
        75..92 => (Some("500 Internal Server Error"), failed(500, true)),
        92..HANGS_UP => (Some("422 Unprocessable Content"), failed(422, false)),
        _ => (None, failed(0, true)),
    };
    let mut pages = book.pages();
    if matches!(end, End::Failed { retryable: false, .. }) && pages.dead.len() < KNOWN_MAX {
        pages.dead.push(run);
    }
    // Before the answer is written: from then on it may be in the store.
    pages.said.push(Said { sent: now(), run, token, end, heard: None });
    line
}

fn got(head: &str, body: &[u8], at: Time) -> Option<Got> {
    let nominal = wire::timestamp::parse(header(head, "x-scheduled-for")?).ok()?;
    Some(Got {
        at,
        run: RunId::parse(header(head, "x-run-id")?)?,
        token: Token(header(head, "x-fencing-token")?.parse().ok()?),
        attempt: header(head, "x-attempt")?.parse().ok()?,
        nominal: Some(Time::from_micros(nominal)),
        due: None,
        worker: None,
        number: number(&serde_json::from_slice(body).unwrap_or(Value::Null)),
    })
}

/// The number that every payload of ours carries.
pub fn number(payload: &Value) -> Option<u64> {
    payload["n"].as_u64()
}

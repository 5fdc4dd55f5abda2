//! Misbehaviour without TLS.

use super::Wanted::{Begun, Failed, NoAnswer, Status, TimedOut};
use super::{Behaviour, Wanted, forever, hear, hold, say};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const DRIP: Duration = Duration::from_millis(20);
const NO_PAUSE: Duration = Duration::ZERO;

const fn of(name: &'static str, wanted: Wanted, act: fn(TcpStream)) -> Behaviour {
    Behaviour { name, tls: false, wanted, act }
}

/// Hears the request, then says the text and closes.
macro_rules! says {
    ($text:expr) => {
        |mut stream| {
            if hear(&mut stream).is_some() {
                say(&mut stream, $text);
                let _ = stream.shutdown(Shutdown::Write);
                hold(&mut stream);
            }
        }
    };
}

/// Hears the request, says a beginning, then the same for ever.
macro_rules! floods {
    ($first:expr, $again:expr, $pause:expr) => {
        |mut stream| {
            if hear(&mut stream).is_some() {
                say(&mut stream, $first);
                forever(&mut stream, $again, $pause);
            }
        }
    };
}

pub const BEHAVIOURS: &[Behaviour] = &[
    of("a good receiver", Status(200), says!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")),
    of("never answers", TimedOut, |mut stream| hold(&mut stream)),
    of("never reads", TimedOut, |stream| {
        std::thread::sleep(Duration::from_secs(4));
        drop(stream);
    }),
    of("head byte by byte", TimedOut, floods!("HTTP/1.1 200 OK\r\nX-Slow: ", b"a", DRIP)),
    of("headers one by one", TimedOut, floods!("HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", DRIP * 5)),
    of(
        "body byte by byte",
        Begun(200),
        floods!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"a", DRIP),
    ),
    of("endless body", Status(200), floods!("HTTP/1.1 200 OK\r\n\r\n", &[b'a'; 8_192], NO_PAUSE)),
    of(
        "endless chunks",
        Status(200),
        floods!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", NO_PAUSE),
    ),
    of(
        "endless headers",
        Failed("head"),
        floods!("HTTP/1.1 200 OK\r\n", b"X-A: bbbbbbbbb\r\n", NO_PAUSE),
    ),
    of(
        "one huge header",
        Failed("head"),
        floods!("HTTP/1.1 200 OK\r\nX-A: ", &[b'a'; 4_096], NO_PAUSE),
    ),
    of("endless status line", Failed("head"), floods!("HTTP/1.1 200 ", &[b'a'; 4_096], NO_PAUSE)),
    of("a thousand headers", Failed("head"), |mut stream| {
        if hear(&mut stream).is_some() {
            let many: String = (0..1_000).map(|n| format!("X{n}: 1\r\n")).collect();
            say(&mut stream, &format!("HTTP/1.1 200 OK\r\n{many}\r\n"));
            hold(&mut stream);
        }
    }),
    of("reset before the request", Failed("connection"), drop),
    of("reset in the request", Failed("connection"), |mut stream| {
        // Closing with bytes unread makes the system send a reset.
        let _ = stream.read(&mut [0; 10]);
    }),
    of("closed after the request", Failed("connection"), |mut stream| {
        hear(&mut stream);
    }),
    of("half open", Failed("connection"), |mut stream| {
        if hear(&mut stream).is_some() {
            let _ = stream.shutdown(Shutdown::Write);
            hold(&mut stream);
        }
    }),
    of("half a head", Failed("connection"), says!("HTTP/1.1 200 OK\r\nContent-Le")),
    of("half a status line", Failed("connection"), says!("HTTP/1.1 2")),
    of(
        "more body than it said",
        Status(200),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokokokokokok"),
    ),
    of(
        "less body than it said",
        Status(200),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\nok"),
    ),
    of(
        "two lengths",
        Failed("connection"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    ),
    of(
        "a length that is no number",
        Failed("connection"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nok"),
    ),
    of(
        "a length beyond all numbers",
        Failed("connection"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok"),
    ),
    of(
        "chunks of rubbish",
        Status(200),
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nok\r\n0\r\n\r\n"),
    ),
    of(
        "a chunk beyond all numbers",
        Status(200),
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok"),
    ),
    of(
        "an endless chunk extension",
        Status(200),
        floods!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", &[b'a'; 512], NO_PAUSE),
    ),
    of(
        "endless trailers",
        Status(200),
        floods!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-A: b\r\n",
            NO_PAUSE
        ),
    ),
    of(
        "two answers",
        Status(200),
        says!(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        ),
    ),
    of("a flood of 1xx", NoAnswer, floods!("", b"HTTP/1.1 102 Processing\r\n\r\n", NO_PAUSE)),
    of("100 and nothing more", TimedOut, |mut stream| {
        if hear(&mut stream).is_some() {
            say(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n");
            hold(&mut stream);
        }
    }),
    of(
        "switching protocols",
        Status(101),
        says!("HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    ),
    of("HTTP/0.9", Failed("connection"), says!("<html>hello</html>")),
    of("the preface of HTTP/2", Failed("connection"), says!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
    of("frames of HTTP/2", Failed("connection"), says!("\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0d")),
    of("HTTP/3.0 by name", Failed("connection"), says!("HTTP/3.0 200 OK\r\n\r\n")),
    of("a NUL in a header", Failed("connection"), says!("HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n")),
    of(
        "a header without a colon",
        Failed("connection"),
        says!("HTTP/1.1 200 OK\r\nrubbish\r\n\r\n"),
    ),
    of("a folded header", Failed("connection"), says!("HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\r\n")),
    of("a status that is no number", Failed("connection"), says!("HTTP/1.1 abc OK\r\n\r\n")),
    of("a status of four digits", Failed("connection"), says!("HTTP/1.1 2000 OK\r\n\r\n")),
    of("status 000", Failed("connection"), says!("HTTP/1.1 000 OK\r\n\r\n")),
    of("status 999", Status(999), says!("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")),
    of("rubbish", Failed("connection"), floods!("", &[0xfe, 0x01, 0x80, 0x00], NO_PAUSE)),
    of("an answer before the request", NoAnswer, |mut stream| {
        say(&mut stream, "HTTP/1.1 500 Early\r\nContent-Length: 0\r\n\r\n");
        hold(&mut stream);
    }),
    of("a gzip bomb", Status(200), |mut stream| {
        if hear(&mut stream).is_some() {
            say(&mut stream, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
            // The head of a gzip member and an endless stored block.
            let _ = stream.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
            forever(&mut stream, &[0; 8_192], NO_PAUSE);
        }
    }),
    of(
        "a redirect to itself",
        Status(302),
        says!("HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"),
    ),
    of(
        "a redirect inside",
        Status(307),
        says!(
            "HTTP/1.1 307 Over\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
        ),
    ),
    of(
        "rubbish in Retry-After",
        Status(503),
        says!("HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n"),
    ),
    of(
        "a huge Retry-After",
        Status(503),
        says!("HTTP/1.1 503 No\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n"),
    ),
    of(
        "keeps alive and closes",
        Status(200),
        says!("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
    ),
    of(
        "a body where none may be",
        Status(204),
        says!("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nhello"),
    ),
];

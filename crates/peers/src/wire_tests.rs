//! The three ends of a request, against real sockets.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn line(address: String) -> Line {
    Line {
        secret: Secret::new(b"0123456789abcdef").expect("long enough"),
        from: NodeId { node: 1, boot: 1 },
        to: NodeId { node: 2, boot: 2 },
        address,
        own: Text::from("127.0.0.1:1"),
        tasks: Tasks::new(tokio::runtime::Handle::current()),
    }
}

async fn listener() -> (TcpListener, Line) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, line(address))
}

async fn post(line: &Line, kept: &mut Kept) -> Result<u16, Failed> {
    let response = line.send(kept, "POST", "/x", Bytes::from_static(b"letters")).await?;
    let status = response.status().as_u16();
    body_of(response, 100, ANSWER_TIMEOUT).await.map(|_| status)
}

/// Takes one request to its end and answers it.
async fn answer(stream: &mut TcpStream) {
    let mut heard = Vec::new();
    while !heard.ends_with(b"letters") {
        assert!(stream.read_buf(&mut heard).await.expect("read") > 0, "it broke off");
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("answered");
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_heard() {
    let (listener, line) = listener().await;
    drop(listener);
    let failed = post(&line, &mut Kept::default()).await.expect_err("nobody is there");
    assert!(matches!(failed, Failed::NotHeard(_)), "{failed:?}");
}

#[tokio::test]
async fn what_breaks_off_after_it_was_written_may_have_been_heard() {
    let (listener, line) = listener().await;
    let mut kept = Kept::default();
    let hang_up = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut some = [0; 64];
        assert!(stream.read(&mut some).await.expect("read") > 0);
    };
    let (failed, ()) = tokio::join!(post(&line, &mut kept), hang_up);
    assert!(matches!(failed, Err(Failed::Unknown(_))), "{failed:?}");
}

#[tokio::test]
async fn a_connection_is_kept_and_one_that_was_closed_is_replaced() {
    let (listener, line) = listener().await;
    let mut kept = Kept::default();
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        answer(&mut stream).await;
        answer(&mut stream).await;
        stream
    };
    let ask = async {
        let first = post(&line, &mut kept).await;
        (first, post(&line, &mut kept).await)
    };
    let (answers, stream) = tokio::join!(ask, serve);
    assert_eq!(answers, (Ok(200), Ok(200)), "both on one connection");
    // The other side closes it, and we have seen that before the next request.
    drop(stream);
    if let Some((sender, _)) = &mut kept.0 {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    }
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("another connection");
        answer(&mut stream).await;
    };
    let (answered, ()) = tokio::join!(post(&line, &mut kept), serve);
    assert_eq!(answered, Ok(200));
}

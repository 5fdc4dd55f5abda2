//! The webhooks' receiver: counts every job that arrives and answers 200 at once. One thread has all connections and hears
//! those on which something has come: a thread for each would cost the machine more in turns of its threads than
//! the requests do.

use crate::connection::{message, ready};
use crate::limits::{PATIENCE, RECEIVER_CONNECTIONS_MAX};
use crate::seen::{Seen, now};
use crate::submit::number_in;
use rustix::event::{PollFd, PollFlags};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub struct Receiver {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Receiver {
    pub fn start(seen: Arc<Seen>) -> std::io::Result<Receiver> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        std::thread::spawn(move || listen(&listener, &seen, &ends));
        Ok(Receiver { address, over })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the listener, which looks whether it is over.
        let _ = TcpStream::connect(self.address);
    }
}

fn listen(listener: &TcpListener, seen: &Seen, over: &AtomicBool) {
    let mut open: Vec<BufReader<TcpStream>> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let connections = open.iter().map(|stream| PollFd::new(stream.get_ref(), PollFlags::IN));
        let listens = PollFd::new(listener, PollFlags::IN);
        let mut all: Vec<PollFd> = connections.chain([listens]).collect();
        let Ok(heard) = ready(&mut all, None) else { return };
        // From the last to the first: a connection that ends changes no place that is still to be looked at.
        for at in heard.into_iter().rev() {
            if at == open.len() {
                let Ok((stream, _)) = listener.accept() else { continue };
                let patient = stream.set_read_timeout(Some(PATIENCE));
                if open.len() < RECEIVER_CONNECTIONS_MAX
                    && patient.and(stream.set_nodelay(true)).is_ok()
                {
                    open.push(BufReader::new(stream));
                }
            } else if !matches!(answer(&mut open[at], seen), Ok(true)) {
                // What was not answered comes again.
                open.swap_remove(at);
            }
        }
    }
}

/// Answers what has come on a connection. False at its end.
fn answer(stream: &mut BufReader<TcpStream>, seen: &Seen) -> std::io::Result<bool> {
    loop {
        let Some((_, body)) = message(stream)? else { return Ok(false) };
        match number_in(&body) {
            Some(number) => seen.see(number, now()),
            None => seen.strange(),
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        if stream.buffer().is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Result};

    fn post(number: u64) -> String {
        let body = format!(r#"{{"number":{number},"pad":""}}"#);
        format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn answers(stream: &mut TcpStream, count: usize) -> Result<()> {
        let mut heard = vec![0; count * "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".len()];
        stream.read_exact(&mut heard)?;
        assert!(heard.starts_with(b"HTTP/1.1 200 OK\r\n"));
        Ok(())
    }

    /// One thread hears all: a connection that says nothing, ends, or says two things at once holds up no other.
    #[test]
    fn all_connections_are_heard_whatever_the_others_do() -> Result<()> {
        let seen = Arc::new(Seen::new(10, None).map_err(std::io::Error::other)?);
        let receiver = Receiver::start(Arc::clone(&seen))?;
        let connect = || -> Result<TcpStream> {
            let stream = TcpStream::connect(receiver.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let (silent, mut ends, mut talks) = (connect()?, connect()?, connect()?);
        ends.write_all(post(0).as_bytes())?;
        answers(&mut ends, 1)?;
        drop(ends);
        talks.write_all((post(1) + &post(2)).as_bytes())?;
        answers(&mut talks, 2)?;
        let mut late = connect()?;
        late.write_all(post(3).as_bytes())?;
        answers(&mut late, 1)?;
        talks.write_all(post(3).as_bytes())?;
        answers(&mut talks, 1)?;
        drop(silent);
        assert_eq!((seen.distinct(), seen.tally().repeated), (4, 1));
        Ok(())
    }
}

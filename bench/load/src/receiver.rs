//! The webhooks' receiver: counts every job that arrives and answers 200 at once.

use crate::connection::message;
use crate::limits::RECEIVER_CONNECTIONS_MAX;
use crate::seen::{Seen, now};
use crate::submit::number_in;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
        std::thread::spawn(move || {
            let open = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                if open.fetch_add(1, Ordering::Relaxed) >= RECEIVER_CONNECTIONS_MAX {
                    open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (seen, open) = (Arc::clone(&seen), Arc::clone(&open));
                std::thread::spawn(move || {
                    // A connection that breaks ends its thread; what was not answered comes again.
                    let _ = serve(stream, &seen);
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
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

fn serve(stream: TcpStream, seen: &Seen) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some((_, body)) = message(&mut stream)? {
        match number_in(&body) {
            Some(number) => seen.see(number, now()),
            None => seen.strange(),
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
    Ok(())
}

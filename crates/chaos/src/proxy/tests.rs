//! Each fault, seen on real sockets.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough that what should not come would have come.
const SILENCE: Duration = Duration::from_millis(200);

/// Sends back what it hears, in capitals; and how many bytes it heard.
fn echo() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let count = count.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    count.fetch_add(length as u64, Ordering::SeqCst);
                    bytes[..length].make_ascii_uppercase();
                    if stream.write_all(&bytes[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, heard)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn say(stream: &mut TcpStream, words: &str) {
    stream.write_all(words.as_bytes()).unwrap();
}

fn hear(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn hears_nothing(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

fn is_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

fn start() -> (Proxy, Arc<AtomicU64>) {
    let (to, heard) = echo();
    (Proxy::start(to).unwrap(), heard)
}

#[test]
fn without_a_rule_everything_passes_and_the_end_too() {
    let (proxy, _) = start();
    let mut stream = connect(&proxy);
    say(&mut stream, "hello");
    assert_eq!(hear(&mut stream, 5), "HELLO");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(proxy.seen(), (1, 10, 0));
}

#[test]
fn a_delay_makes_it_late_both_ways_and_jitter_adds_to_it() {
    let (proxy, _) = start();
    let mut stream = connect(&proxy);
    proxy.set(Rules::delay(Duration::from_millis(60), Duration::ZERO));
    let sent = Instant::now();
    say(&mut stream, "a");
    assert_eq!(hear(&mut stream, 1), "A");
    assert!(sent.elapsed() >= Duration::from_millis(120));
    let way = Way { jitter: Duration::from_millis(40), ..Way::default() };
    proxy.set(Rules::both(way));
    let mut pump = super::pump::tests_wait(way);
    let waits: Vec<Duration> = (0..50).map(|_| pump()).collect();
    assert!(waits.iter().all(|wait| *wait < Duration::from_millis(40)));
    assert!(waits.iter().any(|wait| *wait > Duration::from_millis(20)), "{waits:?}");
    say(&mut stream, "b");
    assert_eq!(hear(&mut stream, 1), "B");
}

#[test]
fn a_throttle_takes_its_time() {
    let (proxy, _) = start();
    let mut stream = connect(&proxy);
    let way = Way { bytes_per_second: Some(10_000), ..Way::default() };
    proxy.set(Rules { up: way, ..Rules::default() });
    let sent = Instant::now();
    say(&mut stream, &"x".repeat(2_000));
    assert_eq!(hear(&mut stream, 2_000), "X".repeat(2_000));
    assert!(sent.elapsed() >= Duration::from_millis(200));
}

#[test]
fn what_is_held_comes_when_the_rule_is_lifted() {
    let (proxy, heard) = start();
    let mut stream = connect(&proxy);
    proxy.set(Rules::flow(Flow::Hold));
    say(&mut stream, "later");
    hears_nothing(&mut stream);
    assert_eq!(heard.load(Ordering::SeqCst), 0);
    proxy.heal();
    assert_eq!(hear(&mut stream, 5), "LATER");
}

#[test]
fn one_way_means_that_the_other_way_is_open() {
    let (proxy, heard) = start();
    let mut stream = connect(&proxy);
    let hold = Way { flow: Flow::Hold, ..Way::default() };
    proxy.set(Rules { down: hold, ..Rules::default() });
    say(&mut stream, "done");
    hears_nothing(&mut stream);
    assert_eq!(heard.load(Ordering::SeqCst), 4, "it arrived; only the answer is held");
    proxy.heal();
    assert_eq!(hear(&mut stream, 4), "DONE");
}

#[test]
fn what_is_swallowed_is_lost_and_the_connection_does_not_outlive_it() {
    let (proxy, heard) = start();
    let (mut hit, mut other) = (connect(&proxy), connect(&proxy));
    say(&mut other, "a");
    assert_eq!(hear(&mut other, 1), "A");
    proxy.set(Rules::flow(Flow::Swallow));
    say(&mut hit, "gone");
    hears_nothing(&mut hit);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    proxy.heal();
    is_reset(&mut hit);
    say(&mut other, "b");
    assert_eq!(hear(&mut other, 1), "B", "it lost nothing and goes on");
}

#[test]
fn a_cut_after_k_bytes_of_the_answer_lets_k_bytes_through() {
    let (proxy, heard) = start();
    let mut stream = connect(&proxy);
    say(&mut stream, "before");
    assert_eq!(hear(&mut stream, 6), "BEFORE");
    let cut = Way { flow: Flow::CutAfter(3), ..Way::default() };
    proxy.set(Rules { down: cut, ..Rules::default() });
    say(&mut stream, "commit");
    assert_eq!(hear(&mut stream, 3), "COM");
    is_reset(&mut stream);
    assert_eq!(heard.load(Ordering::SeqCst), 12, "all of the request had arrived");
    assert_eq!(proxy.seen().2, 1);
}

#[test]
fn a_reset_hits_what_is_open_and_new_connections_are_served() {
    let (proxy, _) = start();
    let mut stream = connect(&proxy);
    say(&mut stream, "a");
    assert_eq!(hear(&mut stream, 1), "A");
    proxy.reset();
    is_reset(&mut stream);
    let mut stream = connect(&proxy);
    say(&mut stream, "b");
    assert_eq!(hear(&mut stream, 1), "B");
}

#[test]
fn half_open_accepts_and_nobody_is_there() {
    let (proxy, heard) = start();
    proxy.set(Rules { accept: Accept::HalfOpen, ..Rules::default() });
    let mut stream = connect(&proxy);
    say(&mut stream, "anybody?");
    hears_nothing(&mut stream);
    assert_eq!(heard.load(Ordering::SeqCst), 0);
    proxy.heal();
    is_reset(&mut stream);
}

#[test]
fn a_refusal_is_a_reset_and_so_is_nobody_behind() {
    let (proxy, _) = start();
    proxy.set(Rules { accept: Accept::Refuse, ..Rules::default() });
    is_reset(&mut connect(&proxy));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    is_reset(&mut connect(&Proxy::start(closed).unwrap()));
}

#[test]
fn rules_for_one_process_spare_the_others() {
    let proxy = Proxy::start(echo().0).unwrap();
    let mut early = connect(&proxy);
    say(&mut early, "a");
    assert_eq!(hear(&mut early, 1), "A");
    // Somebody else's connections are meant, and none of these is.
    let other = std::process::Command::new("sleep").arg("60").spawn();
    let mut other = other.unwrap();
    proxy.set_for(other.id(), Rules::flow(Flow::Hold));
    let mut late = connect(&proxy);
    for stream in [&mut early, &mut late] {
        say(stream, "b");
        assert_eq!(hear(stream, 1), "B");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    // Ours are: those that are open, and new ones.
    proxy.set_for(std::process::id(), Rules::flow(Flow::Hold));
    let mut new = connect(&proxy);
    for stream in [&mut early, &mut new] {
        say(stream, "c");
        hears_nothing(stream);
    }
    proxy.heal();
    for stream in [&mut early, &mut new] {
        assert_eq!(hear(stream, 1), "C");
    }
}

#[test]
fn an_aimed_proxy_sends_new_connections_elsewhere() {
    let (first, heard_first) = echo();
    let (second, heard_second) = echo();
    let proxy = Proxy::start(first).unwrap();
    let mut old = connect(&proxy);
    say(&mut old, "a");
    assert_eq!(hear(&mut old, 1), "A");
    proxy.aim(second);
    let mut new = connect(&proxy);
    say(&mut new, "bc");
    assert_eq!(hear(&mut new, 2), "BC");
    let count = |heard: &AtomicU64| heard.load(Ordering::SeqCst);
    assert_eq!((count(&heard_first), count(&heard_second)), (1, 2));
}

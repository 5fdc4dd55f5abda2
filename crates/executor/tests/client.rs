//! The client against receivers that misbehave, and against names that change their minds. Real
//! sockets; only the name server is ours.
#![allow(clippy::expect_used, clippy::panic)]

mod hostile;

use executor::place::Place;
use executor::resolve::{Resolve, Resolving};
use executor::vet::Guard;
use executor::{Client, Heard, Trouble, Until};
use hostile::{Behaviour, Receiver, Wanted, hear, hold, say};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Uri};
use model::{Span, Time};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nothing takes longer unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers in turn, then the last one again. Counts.
#[derive(Debug, Default)]
struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Names> {
        let read = |all: &&[&str]| all.iter().map(|ip| ip.parse().expect("an address")).collect();
        let answers = Mutex::new(answers.iter().map(read).collect());
        Arc::new(Names { answers, asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Names {
    fn resolve(&self, _name: &str) -> Resolving {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().expect("answers");
        let now = match answers.len() {
            0 => Err("no such name".to_string()),
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.pop_front().unwrap_or_default()),
        };
        Box::pin(async move { now })
    }
}

fn own() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
}

fn client(names: Arc<Names>) -> Client {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &hostile::tls::pki().authority).expect("written");
    let guard = Guard::new(own(), Vec::new());
    Client::new(guard, names, Some(&file), None).expect("a client")
}

async fn send(client: &Client, url: &str, timeout: Duration) -> Result<Heard, Trouble> {
    let uri: Uri = url.parse().expect("a URL");
    let place = Place::of(&uri).map_err(Trouble::Refused)?;
    let request = || {
        Request::builder()
            .method("POST")
            .uri(uri.path())
            .header("host", uri.authority().expect("an authority").as_str())
            .body(Full::new(Bytes::from_static(b"{\"hello\":\"world\"}")))
            .map_err(|error| error.to_string())
    };
    let first = request().expect("a request");
    let span = Span::from_micros(timeout.as_micros() as i64);
    client.send(&place, first, request, Until::after(span), Time::from_micros(0)).await
}

fn fits(wanted: Wanted, said: &Result<Heard, Trouble>) -> bool {
    match (wanted, said) {
        (Wanted::Status(code) | Wanted::Begun(code), Ok(heard)) => {
            heard.code == code && heard.body.len() <= 16 * 1024
        }
        (Wanted::Failed(words), Err(Trouble::Failed(why))) => why.contains(words),
        (Wanted::TimedOut, Err(Trouble::Timeout)) => true,
        (Wanted::NoAnswer, Err(Trouble::Timeout | Trouble::Failed(_))) => true,
        (Wanted::NoAnswer, Ok(heard)) => heard.code == 500,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_misbehaviour_ends_as_it_must_and_holds_up_nobody() {
    let behaviours = hostile::all();
    assert!(behaviours.len() >= 60, "{}", behaviours.len());
    let client = Arc::new(client(Names::new(&[])));
    let receivers: Vec<Receiver> = behaviours.iter().map(|one| Receiver::start(*one)).collect();
    let good = Receiver::start(hostile::plain::BEHAVIOURS[0]);
    let mut attempts = Vec::new();
    for receiver in &receivers {
        let (client, url) = (client.clone(), receiver.url());
        let behaviour = receiver.behaviour;
        let timeout = behaviour.wanted.timeout();
        attempts.push((behaviour, tokio::spawn(async move { send(&client, &url, timeout).await })));
    }
    // Meanwhile, over the same client.
    for n in 0..50 {
        let said = send(&client, &good.url(), PATIENCE).await;
        assert!(said.as_ref().is_ok_and(|heard| heard.code == 200), "{n}: {said:?}");
    }
    let mut wrong = Vec::new();
    for (behaviour, attempt) in attempts {
        let said = tokio::time::timeout(PATIENCE, attempt).await;
        let said = said.unwrap_or_else(|_| panic!("{} never ends", behaviour.name));
        let said = said.expect("no panic");
        if !fits(behaviour.wanted, &said) {
            wrong.push(format!("{}: {:?}, not {said:?}", behaviour.name, behaviour.wanted));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for receiver in receivers.iter().filter(|one| one.behaviour.name.contains("redirect")) {
        assert_eq!(receiver.came.load(Ordering::SeqCst), 1, "{}", receiver.behaviour.name);
    }
}

fn receiver(name: &'static str, act: fn(std::net::TcpStream)) -> Receiver {
    Receiver::start(Behaviour { name, tls: false, wanted: Wanted::Status(200), act })
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_and_stays_with_its_vetted_peer() {
    let keeps = receiver("keeps", |mut stream| {
        while hear(&mut stream).is_some() {
            say(&mut stream, OK);
        }
    });
    // The second answer of the name server is an address that is refused.
    let names = Names::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = client(names.clone());
    let url = format!("http://hooks.test:{}/x", keeps.address.port());
    for _ in 0..5 {
        assert_eq!(send(&client, &url, PATIENCE).await.expect("an answer").code, 200);
        assert_eq!(client.idle(), 1);
    }
    assert_eq!(keeps.came.load(Ordering::SeqCst), 1);
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_refused_when_it_does() {
    let closes = receiver("closes", |mut stream| {
        hear(&mut stream);
        say(&mut stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    });
    let names = Names::new(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1", "10.0.0.1"]]);
    let client = client(names.clone());
    let url = format!("http://rebind.test:{}/x", closes.address.port());
    assert_eq!(send(&client, &url, PATIENCE).await.expect("an answer").code, 200);
    // One look, and what was vetted was dialled.
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    for _ in 0..2 {
        let said = send(&client, &url, PATIENCE).await;
        assert!(matches!(&said, Err(Trouble::Refused(_))), "{said:?}");
    }
    assert_eq!(closes.came.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_kept_connection_that_died_costs_nothing() {
    // Answers once per connection, and closes without having said so.
    let fickle = receiver("fickle", |mut stream| {
        hear(&mut stream);
        say(&mut stream, OK);
    });
    let client = client(Names::new(&[]));
    for _ in 0..10 {
        assert_eq!(send(&client, &fickle.url(), PATIENCE).await.expect("an answer").code, 200);
    }
    // Hears the second request whole and closes without a byte: sent again, once.
    let rude = receiver("rude", |mut stream| {
        hear(&mut stream);
        say(&mut stream, OK);
        hear(&mut stream);
    });
    for _ in 0..3 {
        assert_eq!(send(&client, &rude.url(), PATIENCE).await.expect("an answer").code, 200);
    }
    // A byte of an answer came: whatever happened, it is not sent again.
    let torn = receiver("torn", |mut stream| {
        hear(&mut stream);
        say(&mut stream, OK);
        hear(&mut stream);
        say(&mut stream, "H");
    });
    assert_eq!(send(&client, &torn.url(), PATIENCE).await.expect("an answer").code, 200);
    let said = send(&client, &torn.url(), PATIENCE).await;
    assert!(matches!(&said, Err(Trouble::Failed(_))), "{said:?}");
    assert_eq!(torn.came.load(Ordering::SeqCst), 1);
    // Silence is no death: the request is not sent again.
    let silent = receiver("silent", |mut stream| {
        hear(&mut stream);
        say(&mut stream, OK);
        hold(&mut stream);
    });
    assert_eq!(send(&client, &silent.url(), PATIENCE).await.expect("an answer").code, 200);
    let said = send(&client, &silent.url(), Duration::from_millis(300)).await;
    assert_eq!(said, Err(Trouble::Timeout));
    assert_eq!(silent.came.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_too_many_is_never_taken_for_the_next_one() {
    // Each connection: an answer, and a second one that nobody asked for.
    let eager = receiver("eager", |mut stream| {
        hear(&mut stream);
        say(&mut stream, &format!("{OK}HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"));
        hold(&mut stream);
    });
    // The same, but the second one comes later, when the connection lies idle.
    let late = receiver("late", |mut stream| {
        hear(&mut stream);
        say(&mut stream, OK);
        std::thread::sleep(Duration::from_millis(100));
        say(&mut stream, "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n");
        hold(&mut stream);
    });
    let client = client(Names::new(&[]));
    for receiver in [&eager, &late] {
        for n in 0..4 {
            let said = send(&client, &receiver.url(), PATIENCE).await.expect("an answer");
            assert_eq!(said.code, 200, "{} {n}", receiver.behaviour.name);
            // Long enough for what was not asked for to be there.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert_eq!(receiver.came.load(Ordering::SeqCst), 4, "{}", receiver.behaviour.name);
    }
}

#[tokio::test]
async fn the_answer_may_have_a_time_to_begin() {
    let slow = receiver("slow", |mut stream| hold(&mut stream));
    let guard = Guard::new(own(), Vec::new());
    let limit = Some(Duration::from_millis(200));
    let client = Client::new(guard, Names::new(&[]), None, limit).expect("a client");
    let said = send(&client, &slow.url(), PATIENCE).await;
    assert!(matches!(&said, Err(Trouble::Silent(why)) if why.contains("200ms")), "{said:?}");
}

#[tokio::test]
async fn duly_does_not_call_itself_by_any_address_of_the_machine() {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // Which address this machine has towards the world; asking sends nothing.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let outer = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let outer = outer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip());
    let everything = vec!["0.0.0.0/0".parse().expect("a net"), "::/0".parse().expect("a net")];
    let guard = Guard::new(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), everything);
    let client = Client::new(guard, Names::new(&[]), None, None).expect("a client");
    for ip in ["127.0.0.1", "127.9.9.9", &outer.to_string()] {
        let said = send(&client, &format!("http://{ip}:{port}/v1/jobs"), PATIENCE).await;
        let itself = |why: &String| why.contains("does not call itself");
        assert!(matches!(&said, Err(Trouble::Refused(why)) if itself(why)), "{ip}: {said:?}");
    }
}

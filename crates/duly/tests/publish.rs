//! Messages to real brokers, Redis and RabbitMQ, sent by the real binary.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{PATIENCE, Server, ask};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn data() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// So many ports in a row that nobody listens on.
fn ports(count: u16) -> u16 {
    for _ in 0..100 {
        let first =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if first < u16::MAX - count && (first..first + count).all(free) {
            return first;
        }
    }
    panic!("no {count} ports in a row");
}

struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start(port: u16, folder: &Path) -> Redis {
        let log = std::fs::File::create(folder.join("redis.log")).expect("a log");
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--requirepass", "hush", "--stream-node-max-entries", "1"])
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::from(log))
            .spawn()
            .expect("redis-server runs (scripts/setup-tools.sh installs it)");
        let redis = Redis { child, port };
        let until = Instant::now() + PATIENCE;
        while redis.cli(&["PING"]) != "PONG\n" {
            assert!(Instant::now() < until, "Redis does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        redis
    }

    fn cli(&self, args: &[&str]) -> String {
        let ran = Command::new("redis-cli")
            .args(["-p", &self.port.to_string(), "--no-auth-warning", "-a", "hush"])
            .args(args)
            .output()
            .expect("redis-cli runs (scripts/setup-tools.sh installs it)");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn url(&self) -> String {
        format!("redis://:hush@127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn to_redis(url: &str, stream: &str) -> Value {
    json!({"target": {"publish": {"redis": {"url": url, "stream": stream}}},
           "payload": {"n": 1}, "retry": {"max_retries": 0}})
}

#[test]
fn an_entry_of_a_redis_stream_is_confirmed_and_says_what_a_webhook_says() {
    let (data, folder) = (data(), data());
    let redis = Redis::start(ports(1), folder.path());
    let server = Server::start(data.path());
    let made = server.submit(&to_redis(&redis.url(), "orders"));
    let run = server.run_is(&made["run_id"], "succeeded");
    let text = redis.cli(&["XRANGE", "orders", "-", "+"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), run["output"].as_str(), "the entry's id is the output: {run}");
    let lines: Vec<&str> = lines.collect();
    let field = |name: &str| {
        let at = lines.iter().position(|line| *line == name);
        lines[at.unwrap_or_else(|| panic!("no {name} in {text}")) + 1].to_string()
    };
    let run_id = made["run_id"].as_str().expect("a run");
    assert_eq!(field("webhook-id"), run_id);
    assert_eq!(field("x-job-id"), made["id"].as_str().expect("an id"));
    assert_eq!((field("x-attempt").as_str(), field("body").as_str()), ("1", r#"{"n":1}"#));
    assert_eq!(field("content-type"), "application/json");
    assert_eq!(field("x-scheduled-for"), run["scheduled_for"].as_str().expect("a time"));
    let token = field("x-fencing-token").parse().expect("a number");
    assert_eq!(field("traceparent"), wire::trace::parent(run_id, token));
    // A kept connection that the broker closed costs no attempt.
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let again = server.submit(&to_redis(&redis.url(), "orders"));
    let run = server.run_is(&again["run_id"], "succeeded");
    assert_eq!(run["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(redis.cli(&["XLEN", "orders"]), "2\n");
    // Another database, and a stream that is kept short.
    for _ in 0..5 {
        let mut job = to_redis(&format!("{}/3", redis.url()), "short");
        job["target"]["publish"]["redis"]["max_len"] = json!(2);
        server.run_is(&server.submit(&job)["run_id"], "succeeded");
    }
    assert_eq!(redis.cli(&["-n", "3", "XLEN", "short"]), "2\n");
    server.stop();
}

#[test]
fn what_redis_refuses_and_what_is_not_there_is_told_without_the_password() {
    let (data, folder) = (data(), data());
    let port = ports(1);
    let server = Server::start(data.path());
    // Nobody there yet: tried again, and delivered once somebody is.
    let mut job = to_redis(&format!("redis://:hush@127.0.0.1:{port}"), "late");
    job["retry"] = json!({"max_retries": 100, "initial": "200ms", "factor": 1});
    let late = server.submit(&job);
    server.run_is(&late["run_id"], "retrying");
    let redis = Redis::start(port, folder.path());
    server.run_is(&late["run_id"], "succeeded");
    assert_eq!(redis.cli(&["XLEN", "late"]), "1\n");
    let wrong = format!("redis://:wr0ngword@127.0.0.1:{port}");
    let dead = server.run_is(&server.submit(&to_redis(&wrong, "s"))["run_id"], "dead");
    let error = dead["error"].as_str().expect("an error");
    assert!(error.contains("WRONGPASS") && !error.contains("wr0ngword"), "{error}");
    // What will never work is not tried again, although it might be.
    redis.cli(&["SET", "plain", "x"]);
    let mut job = to_redis(&redis.url(), "plain");
    job["retry"] = json!({"max_retries": 5, "initial": "1h"});
    let dead = server.run_is(&server.submit(&job)["run_id"], "dead");
    assert!(dead["error"].as_str().is_some_and(|e| e.contains("WRONGTYPE")), "{dead}");
    // Something else answers there.
    let own = format!("redis://127.0.0.1:{}", server.address.port());
    let dead = server.run_is(&server.submit(&to_redis(&own, "s"))["run_id"], "dead");
    assert!(dead["error"].as_str().is_some_and(|e| e.contains("itself")), "{dead}");
    let hooks = crate::support::Hooks::start(&[]);
    let other = format!("redis://:x@{}", hooks.address);
    let mut job = to_redis(&other, "s");
    job["timeout"] = json!("1s");
    server.run_is(&server.submit(&job)["run_id"], "dead");
    // Addresses that webhooks may not reach are out of reach, too.
    let dead = server.run_is(&server.submit(&to_redis("redis://10.1.2.3", "s"))["run_id"], "dead");
    let error = dead["error"].as_str().expect("an error");
    assert!(error.contains("is refused") && error.contains("--allow-egress"), "{error}");
    for (redis, pointer) in [
        (json!({"url": "http://h.example", "stream": "s"}), "url"),
        (json!({"url": "redis://127.1", "stream": "s"}), "url"),
        (json!({"url": "redis://:***@h.example", "stream": "s"}), "url"),
        (json!({"url": "redis://h.example/x", "stream": "s"}), "url"),
        (json!({"url": "redis://h.example"}), "stream"),
        (json!({"url": "redis://h.example", "stream": "s", "max_len": 0}), "max_len"),
        (json!({"url": "redis://h.example", "stream": "s", "key": 1}), "key"),
    ] {
        let job = json!({"target": {"publish": {"redis": redis}}});
        let reply = server.post("/v1/jobs", &job);
        assert_eq!(reply.status, 422, "{job}");
        let wanted = format!("/target/publish/redis/{pointer}");
        assert_eq!(reply.json()["errors"][0]["pointer"], wanted.as_str(), "{}", reply.text);
    }
    server.stop();
}

#[test]
fn a_password_is_never_shown_and_survives_a_patch() {
    let (data, folder) = (data(), data());
    let redis = Redis::start(ports(1), folder.path());
    let server = Server::start(data.path());
    let mut job = to_redis(&redis.url(), "kept");
    job["name"] = json!("publisher");
    job["schedule"] = json!({"every": "1h"});
    server.submit(&job);
    let shown = server.ask("GET", "/v1/jobs/publisher", "");
    assert!(!shown.text.contains("hush"), "{}", shown.text);
    let url = shown.json()["target"]["publish"]["redis"]["url"].clone();
    assert_eq!(url, format!("redis://:***@127.0.0.1:{}", redis.port).as_str());
    assert!(!server.ask("GET", "/v1/jobs", "").text.contains("hush"));
    let found = server.get("/v1/jobs?q=hush");
    assert_eq!(found["items"], json!([]), "nobody finds a password by asking for it");
    let patch = |body: Value| {
        let headers = [("If-Match", "*")];
        ask(server.address, "PATCH", "/v1/jobs/publisher", &body.to_string(), &headers)
            .expect("heard")
    };
    let patched = patch(json!({"priority": 9}));
    assert_eq!(patched.status, 200, "{}", patched.text);
    assert!(!patched.text.contains("hush"));
    let patched = patch(json!({"target": {"publish": {"redis": {"max_len": 10}}}}));
    assert_eq!(patched.status, 200, "{}", patched.text);
    let fired = server.ask("POST", "/v1/jobs/publisher/trigger", "{}").json();
    server.run_is(&fired["run_id"], "succeeded");
    assert_eq!(redis.cli(&["XLEN", "kept"]), "1\n");
    // What was read cannot be written back as it is.
    let refused = patch(json!({"target": {"publish": {"redis": {"url": url}}}}));
    assert_eq!(refused.status, 422, "{}", refused.text);
    server.stop();
}

/// Says these bytes to whoever comes, again and again if `floods`, and holds the connection.
fn says(bytes: &'static [u8], floods: bool) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.set_write_timeout(Some(PATIENCE));
            let _ = stream.set_read_timeout(Some(PATIENCE));
            std::thread::spawn(move || {
                while stream.write_all(bytes).is_ok() && floods {}
                let mut rest = [0; 1_024];
                while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[test]
fn brokers_that_misbehave_cost_their_own_attempt() {
    let data = data();
    let server = Server::start(data.path());
    let mut runs = Vec::new();
    for (bytes, floods) in [
        (&b""[..], false),
        (b"\r\n", false),
        (b"+", true),
        (b"$-1\r\n", false),
        (b"$99999999999999999999\r\n", false),
        (b"$4000\r\nabc", false),
        (b"*1\r\n$1\r\na\r\n", false),
        (b"\xff\xfe\r\n", true),
        (b"AMQP\0\0\x09\x01", false),
        (b"\x01\0\0\xff\xff\xff\xff", false),
        (b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\0", false),
        (b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce", true),
        (b"\x01\0\0\0\0\0\x01\0\xce", true),
        (b"\x08\0\0\0\0\0\0\xce", true),
    ] {
        let address = says(bytes, floods);
        let redis = to_redis(&format!("redis://:p@{address}"), "s");
        let rabbit = to_rabbit(&format!("amqp://u:p@{address}"), "q");
        for mut job in [redis, rabbit] {
            job["timeout"] = json!("1s");
            runs.push((bytes, server.submit(&job)["run_id"].clone()));
        }
    }
    for (bytes, run) in &runs {
        let dead = server.run_is(run, "dead");
        let status = dead["attempts"][0]["status"].as_str().expect("a status");
        assert!(["failed", "timed_out"].contains(&status), "{bytes:?}: {dead}");
    }
    server.stop();
}

struct Rabbit {
    folder: tempfile::TempDir,
    port: u16,
}

impl Rabbit {
    fn script(folder: &Path, args: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/rabbitmq.sh");
        let (verb, rest) = args.split_first().expect("a verb");
        let ran = Command::new(script)
            .arg(verb)
            .arg(folder)
            .args(rest)
            // The broker goes on; nobody waits for what it says.
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .status();
        assert!(ran.expect("the script runs").success(), "rabbitmq.sh {args:?}");
    }

    fn start() -> Rabbit {
        let (folder, port) = (data(), ports(4));
        Rabbit::script(folder.path(), &["start", &port.to_string()]);
        Rabbit { folder, port }
    }

    fn api(&self, method: &str, path: &str, body: &Value) -> Value {
        let login = format!("Basic {}", STANDARD.encode("duly:hush"));
        let to = ([127, 0, 0, 1], self.port + 1).into();
        let headers = [("Authorization", login.as_str())];
        let reply = ask(to, method, path, &body.to_string(), &headers).expect("an answer");
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.text);
        serde_json::from_str(&reply.text).unwrap_or(Value::Null)
    }

    fn queue(&self, name: &str) {
        self.api("PUT", &format!("/api/queues/%2F/{name}"), &json!({"durable": true}));
    }

    /// What lies in the queue, taken out.
    fn messages(&self, queue: &str) -> Vec<Value> {
        let get = json!({"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"});
        let all = self.api("POST", &format!("/api/queues/%2F/{queue}/get"), &get);
        all.as_array().cloned().unwrap_or_default()
    }

    fn url(&self) -> String {
        format!("amqp://duly:hush@127.0.0.1:{}", self.port)
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        Rabbit::script(self.folder.path(), &["stop"]);
    }
}

fn to_rabbit(url: &str, routing_key: &str) -> Value {
    json!({"target": {"publish": {"rabbitmq": {"url": url, "routing_key": routing_key}}},
           "payload": {"n": 1}, "retry": {"max_retries": 0}})
}

#[test]
fn a_message_to_rabbitmq_is_confirmed_and_one_that_nobody_takes_is_not() {
    let rabbit = Rabbit::start();
    let data = data();
    let server = Server::start(data.path());
    rabbit.queue("orders");
    let made = server.submit(&to_rabbit(&rabbit.url(), "orders"));
    server.run_is(&made["run_id"], "succeeded");
    let messages = rabbit.messages("orders");
    assert_eq!(messages.len(), 1);
    let (message, run_id) = (&messages[0], made["run_id"].as_str().expect("a run"));
    assert_eq!(message["payload"], r#"{"n":1}"#);
    let properties = &message["properties"];
    assert_eq!(
        (&properties["message_id"], &properties["delivery_mode"]),
        (&json!(run_id), &json!(2))
    );
    assert_eq!(properties["content_type"], "application/json");
    let headers = &properties["headers"];
    assert_eq!((&headers["webhook-id"], &headers["x-attempt"]), (&json!(run_id), &json!("1")));
    assert_eq!(headers["x-job-id"], made["id"]);
    let token = headers["x-fencing-token"].as_str().expect("one").parse().expect("a number");
    assert_eq!(headers["traceparent"], wire::trace::parent(run_id, token).as_str());
    // More than one frame, and the connection that was kept.
    let long = "x".repeat(200_000);
    let mut job = to_rabbit(&rabbit.url(), "orders");
    job["payload"] = json!(long);
    server.run_is(&server.submit(&job)["run_id"], "succeeded");
    assert_eq!(rabbit.messages("orders")[0]["payload"], format!("\"{long}\"").as_str());
    let mut empty = to_rabbit(&rabbit.url(), "orders");
    empty.as_object_mut().expect("an object").remove("payload");
    server.run_is(&server.submit(&empty)["run_id"], "succeeded");
    assert_eq!(rabbit.messages("orders")[0]["payload"], "");
    // No queue takes it: it comes back, is tried again, and arrives once there is one.
    let mut job = to_rabbit(&rabbit.url(), "later");
    job["retry"] = json!({"max_retries": 100, "initial": "200ms", "factor": 1});
    let later = server.submit(&job);
    let waits = server.run_is(&later["run_id"], "retrying");
    let first = &waits["attempts"][0];
    assert_eq!(first["code"], 312, "{first}");
    assert!(first["error"].as_str().is_some_and(|e| e.contains("NO_ROUTE")), "{first}");
    rabbit.queue("later");
    server.run_is(&later["run_id"], "succeeded");
    assert_eq!(rabbit.messages("later").len(), 1);
    // An exchange, one that is not there, and a login that is wrong.
    rabbit.api("PUT", "/api/exchanges/%2F/bills", &json!({"type": "topic"}));
    let bind = json!({"routing_key": "bill.*"});
    rabbit.api("POST", "/api/bindings/%2F/e/bills/q/orders", &bind);
    let mut job = to_rabbit(&rabbit.url(), "bill.new");
    job["target"]["publish"]["rabbitmq"]["exchange"] = json!("bills");
    server.run_is(&server.submit(&job)["run_id"], "succeeded");
    assert_eq!(rabbit.messages("orders")[0]["exchange"], "bills");
    job["target"]["publish"]["rabbitmq"]["exchange"] = json!("nothing");
    let dead = server.run_is(&server.submit(&job)["run_id"], "dead");
    assert_eq!(dead["attempts"][0]["code"], 404, "{dead}");
    let wrong = rabbit.url().replace("hush", "wr0ngword");
    let dead = server.run_is(&server.submit(&to_rabbit(&wrong, "orders"))["run_id"], "dead");
    assert_eq!(dead["attempts"][0]["code"], 403, "{dead}");
    assert!(!dead.to_string().contains("wr0ngword"), "{dead}");
    let elsewhere = format!("{}/nowhere", rabbit.url());
    let dead = server.run_is(&server.submit(&to_rabbit(&elsewhere, "orders"))["run_id"], "dead");
    assert!(dead["error"].as_str().is_some_and(|e| e.contains("RabbitMQ said no")), "{dead}");
    server.stop();
}

//! One PostgreSQL per test program, in a folder of its own, and a database per test. A server that
//! a test program left behind when it ended is stopped by a shell that waits for its end.
#![allow(dead_code, missing_debug_implementations, clippy::expect_used, clippy::panic)] // tests
#![allow(clippy::zombie_processes)] // the shell ends after us

use model::cluster::Renew;
use model::{NodeId, Span};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use store::Store;
use store_postgres::PostgresStore;
use tempfile::TempDir;
use tokio_postgres::NoTls;

pub struct Server {
    pub folder: PathBuf,
    pub port: u16,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres.sh")
}

pub fn postgres_sh(args: &[&str]) -> String {
    let output = Command::new(script()).args(args).output().expect("scripts/postgres.sh runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Numbers from a seed.
pub fn random_below(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Server {
    pub fn start() -> Server {
        Server::make("start", None)
    }

    /// An asynchronous replica of this one.
    pub fn replica(&self) -> Server {
        Server::make("replica", Some(self.path()))
    }

    fn make(verb: &str, from: Option<&str>) -> Server {
        let folder = TempDir::with_prefix("duly-postgres-").expect("a folder").keep();
        let port = free_port();
        let path = folder.to_str().expect("a plain path").to_string();
        let mut args = vec![verb.to_string(), path.clone(), port.to_string()];
        args.extend(from.map(str::to_string));
        postgres_sh(&args.iter().map(String::as_str).collect::<Vec<_>>());
        // The read end of our pipe closes when this process ends, however it ends.
        let waits = "cat >/dev/null; \"$0\" stop \"$1\"; rm -rf \"$1\"";
        let mut guard = Command::new("setsid")
            .args(["sh", "-c", waits])
            .arg(script())
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        // Kept open until the process ends; closed in children, as all our files are.
        std::mem::forget(guard.stdin.take());
        Server { folder, port }
    }

    pub fn path(&self) -> &str {
        self.folder.to_str().expect("a plain path")
    }

    pub fn address(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements as the superuser.
    pub fn sql(&self, database: &str, sql: &str) {
        self.try_sql(database, sql).expect("the statements run");
    }

    pub fn try_sql(&self, database: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, driver) = tokio_postgres::connect(&self.address(database), NoTls).await?;
            let driver = tokio::spawn(driver);
            let done = client.batch_execute(sql).await;
            drop(client);
            let _ = driver.await;
            done
        })
    }

    /// The one value that a statement answers with, as text.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.address(database), NoTls).await;
            let (client, driver) = connected.expect("a connection");
            let driver = tokio::spawn(driver);
            let sql = format!("SELECT ({sql})::text");
            let row = client.query_one(&sql, &[]).await.expect("an answer");
            drop(client);
            let _ = driver.await;
            row.get::<_, Option<String>>(0).unwrap_or_default()
        })
    }

    /// How the server ran this, as it tells it.
    pub fn plan(&self, database: &str, sql: &str) -> String {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.address(database), NoTls).await;
            let (client, driver) = connected.expect("a connection");
            let driver = tokio::spawn(driver);
            client.batch_execute("SET enable_seqscan = off").await.expect("it is set");
            let sql = format!("EXPLAIN (ANALYZE, COSTS OFF) {sql}");
            let rows = client.query(&sql, &[]).await.expect("an answer");
            drop(client);
            let _ = driver.await;
            let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            lines.join("\n")
        })
    }

    /// An empty database.
    pub fn database(&self) -> String {
        self.copy_of("template1")
    }

    fn copy_of(&self, template: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        name
    }

    /// A database with the schema of a fresh store in it: the tables are made once and copied.
    /// Commits are not waited for on the disk, which the conformance suite says nothing about.
    pub fn filled(&self) -> String {
        static TEMPLATE: OnceLock<String> = OnceLock::new();
        let template = TEMPLATE.get_or_init(|| {
            let name = self.database();
            drop(PostgresStore::open(&self.address(&name)).expect("it opens"));
            name
        });
        let name = self.copy_of(template);
        self.sql("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = off"));
        name
    }
}

pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A store in a database of its own.
pub fn make() -> PostgresStore {
    let name = server().filled();
    PostgresStore::open(&server().address(&name)).expect("it opens")
}

pub fn open(address: &str) -> PostgresStore {
    PostgresStore::open(address).expect("it opens")
}

/// The number of a shard's last commit.
pub fn seq_of(store: &PostgresStore, shard: u16) -> u64 {
    let renew = Renew { node: NodeId { node: 9, boot: 9 }, ttl: Span::ZERO };
    store.renew(renew).expect("answers").shards[usize::from(shard)].seq
}

/// A transaction of somebody else, open until it is ended, in a thread of its own.
pub struct Held {
    end: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Held {
    /// Returns when the statements have run.
    pub fn begin(address: &str, sql: &str) -> Held {
        let (end, ended) = std::sync::mpsc::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (address, sql) = (address.to_string(), format!("BEGIN; {sql}"));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let connected = runtime.block_on(tokio_postgres::connect(&address, NoTls));
            let (client, driver) = connected.expect("a connection");
            runtime.spawn(driver);
            runtime.block_on(client.batch_execute(&sql)).expect("the statements run");
            ready.send(()).expect("somebody waits");
            let _ = ended.recv();
            runtime.block_on(client.batch_execute("ROLLBACK")).expect("it ends");
        });
        is_ready.recv().expect("the statements ran");
        Held { end, thread }
    }

    pub fn end(self) {
        let _ = self.end.send(());
        self.thread.join().expect("no panic");
    }
}

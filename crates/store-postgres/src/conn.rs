//! One connection, driven by the call that uses it: nothing runs between calls, so this crate has
//! no task and no thread of its own. Statements are unnamed and typed, one round trip each, and
//! nothing of the session is used: a pooler in transaction mode may change it after each.

use crate::address::{Address, words};
use crate::error::{Fault, Res};
use crate::limits::{CONNECT_WAIT, HEAD_WORDS};
use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

type Driver = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Times out at `wait` per statement.
pub(crate) struct Conn {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    /// None when the connection has ended. It is dropped then, and with it what waits for answers is told.
    driver: Option<Driver>,
    /// Transactions that were asked for, and is one open?
    pub done: u64,
    inside: bool,
    pub wait: Duration,
}

impl Drop for Conn {
    /// A runtime that is dropped inside another one would wait, which is not allowed there.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A caller may stand in a runtime of its own.
fn block<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let inside = Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if inside {
        tokio::task::block_in_place(|| runtime.block_on(work))
    } else {
        runtime.block_on(work)
    }
}

/// A statement's first words, for a log line.
struct Head<'a>(&'a str);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.0.split_whitespace();
        for (n, word) in words.by_ref().take(HEAD_WORDS).enumerate() {
            write!(f, "{}{word}", if n == 0 { "" } else { " " })?;
        }
        f.write_str(if words.next().is_some() { " …" } else { "" })
    }
}

/// Only while a connection is dropped.
fn closed() -> Fault {
    Fault::Silent("its connection is closed".into())
}

impl Conn {
    pub fn open(address: &Address, wait: Duration) -> Res<Conn> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Fault::Away(error.to_string()))?;
        let opened =
            block(&runtime, async { tokio::time::timeout(CONNECT_WAIT, address.connect()).await });
        let away = match opened {
            Ok(Ok((client, driver))) => {
                let (client, driver) = (Arc::new(client), Some(driver.into()));
                let (runtime, done, inside) = (Some(runtime), 0, false);
                return Ok(Conn { runtime, client, driver, done, inside, wait });
            }
            Ok(Err(error)) => words(&error),
            Err(_) => "not in time".into(),
        };
        // As in `drop`.
        runtime.shutdown_background();
        Err(Fault::Away(away))
    }

    /// Has the server hung up since the last call? What it said meanwhile is read.
    pub fn is_alive(&mut self) -> bool {
        let Some(runtime) = &self.runtime else { return false };
        let driver = &mut self.driver;
        block(runtime, async {
            // The first look sends the runtime to the socket, the second reads.
            for _ in 0..2 {
                let Some(alive) = driver else { return };
                let ended = tokio::select! {
                    biased;
                    _ = alive.as_mut() => true,
                    () = tokio::task::yield_now() => false,
                };
                if ended {
                    *driver = None;
                }
            }
        });
        self.driver.is_some()
    }

    fn drive<T>(
        runtime: &Runtime,
        driver: &mut Option<Driver>,
        wait: Duration,
        (what, work): (&dyn Display, impl Future<Output = Result<T, tokio_postgres::Error>>),
    ) -> Res<T> {
        let told = |answer: Result<Result<T, _>, _>| match answer {
            Ok(answer) => answer.map_err(Fault::Sql),
            Err(_) => Err(Fault::Silent(format!("{what}, for {wait:?}"))),
        };
        block(runtime, async {
            let work = tokio::time::timeout(wait, work);
            tokio::pin!(work);
            if let Some(alive) = driver {
                tokio::select! {
                    biased;
                    _ = alive.as_mut() => {}
                    answer = &mut work => return told(answer),
                }
            }
            // The connection has ended: the answer says so, or has arrived before.
            *driver = None;
            told(work.await)
        })
    }

    /// For who asks ahead: statements that it is given go out when somebody waits for an answer.
    pub fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Waits for the answer to what was asked of `client`.
    pub fn answer<T>(
        &mut self,
        what: &dyn Display,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Res<T> {
        let Some(runtime) = &self.runtime else { return Err(closed()) };
        Conn::drive(runtime, &mut self.driver, self.wait, (what, work))
    }

    /// A statement with parameters.
    pub fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Res<Vec<Row>> {
        let Some(runtime) = &self.runtime else { return Err(closed()) };
        self.done += u64::from(!self.inside);
        let params: Vec<(&(dyn ToSql + Sync), Type)> = params.to_vec();
        let work = self.client.query_typed(sql, &params);
        Conn::drive(runtime, &mut self.driver, self.wait, (&Head(sql), work))
    }

    /// Statements without parameters and without answers.
    pub fn run(&mut self, sql: &str) -> Res<()> {
        let Some(runtime) = &self.runtime else { return Err(closed()) };
        self.done += u64::from(!self.inside);
        let work = self.client.batch_execute(sql);
        Conn::drive(runtime, &mut self.driver, self.wait, (&Head(sql), work))
    }

    /// All of it or nothing. A connection whose work failed is not used again until the
    /// transaction has ended.
    pub fn transaction<T>(
        &mut self,
        begin: &str,
        work: impl FnOnce(&mut Conn) -> Res<T>,
    ) -> Res<T> {
        self.run(begin)?;
        self.inside = true;
        let end = match work(self) {
            Ok(value) => self.run("COMMIT").map(|()| value),
            Err(fault) if fault.keeps_connection() => self.run("ROLLBACK").and(Err(fault)),
            Err(fault) => Err(fault),
        };
        self.inside = false;
        end
    }
}

/// A transaction that writes, while its client lives: one that froze, or that nobody hears any more,
/// would hold the rows of its shards against whoever takes over, until the server notices, which may
/// take hours. LOCAL, so that nothing is left in a session that a pooler hands to others. The time
/// is shorter than a node's lease (3 s): when its shards may be taken, they can be.
pub(crate) const WRITE: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 2000";
/// One consistent picture for several statements.
pub(crate) const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

//! The backends, named here and nowhere else.

use crate::failure::Failure;
use crate::memory_store::ClockedMemory;
use node::clock::EmbeddedClock;
use node::crash;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use store::outbox::Outbox;
use store::{Backend, Store, StoreError};
use store_postgres::PostgresStore;
use store_postgres::outbox::{Grants, PostgresOutbox, Schema, install};
use store_sqlite::{OpenError, SqliteStore};

pub const DEFAULT: &str = "sqlite";

/// How often the write-ahead log is moved into the database and the store's health is looked at.
const CARE_EVERY: Duration = Duration::from_secs(1);
/// How often old idempotency keys are looked for; they are kept for a day and more.
const ROTATE_ROUNDS: u32 = 600;

const RESTORED: &str = "ALERT: this is a restored copy: it keeps what is sent and dispatches nothing \
                        until it is started with --takeover";
const SHORT: &str = "ALERT: the disk is full: no jobs are made (507), running work may end; \
                     make room in the data folder";
const ROOM_AGAIN: &str = "there is room again: jobs are made";

#[derive(Clone)]
pub enum Kind {
    /// One file in the data folder.
    Sqlite,
    /// Nothing survives the process.
    Memory,
    /// The address of a PostgreSQL database, perhaps with a password in it.
    Postgres(String),
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Sqlite => "sqlite",
            Kind::Memory => "memory",
            Kind::Postgres(_) => "postgres",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "sqlite" => Ok(Kind::Sqlite),
            "memory" => Ok(Kind::Memory),
            _ if text.starts_with("postgres://") || text.starts_with("postgresql://") => {
                Ok(Kind::Postgres(text.to_string()))
            }
            // Without the text: a mistyped address may have a password in it.
            _ => Err("a store is sqlite, memory or postgres://user@host/database".to_string()),
        }
    }
}

impl Kind {
    /// Does this process have the store for itself?
    pub fn is_exclusive(&self) -> bool {
        !matches!(self, Kind::Postgres(_))
    }
}

/// What a store needs while it is served from.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Bytes kept free for what ends work.
    pub reserve: u64,
    /// A restored copy may dispatch.
    pub takeover: bool,
}

/// A store, and what it promises, in words.
pub struct Opened {
    pub store: Arc<dyn Backend>,
    pub words: String,
    /// A restored copy that nobody has allowed to dispatch: the original may live.
    pub held: bool,
}

/// `served`: for a server; a command that looks or changes a thing needs no care.
pub fn open(kind: &Kind, data: &Path, served: Option<Served>) -> Result<Opened, Failure> {
    let silent = |error| Failure::failed(format!("the store does not answer: {error:?}"));
    match kind {
        Kind::Memory => {
            let words = "memory: NOTHING IS KEPT over a restart".to_string();
            let store = Arc::new(ClockedMemory::new(EmbeddedClock::start()));
            Ok(Opened { store, words, held: false })
        }
        Kind::Sqlite => {
            let clock = EmbeddedClock::start();
            let opened = SqliteStore::open(data, move || clock.now());
            let store = Arc::new(opened.map_err(|error| refused(data, &error))?);
            let mut held = false;
            if let Some(served) = served {
                held = wake(&store, served.takeover).map_err(silent)?;
                store.keep_room(served.reserve);
                care_for(store.clone());
            }
            Ok(Opened { store, words: "sqlite: durable before it answers".to_string(), held })
        }
        Kind::Postgres(address) => {
            node::clock::follow_test_clock();
            let opened = PostgresStore::open(address);
            let store = Arc::new(opened.map_err(|error| no_database(&error))?);
            let mut held = false;
            if let Some(served) = served {
                if served.takeover {
                    store.release_restored().map_err(silent)?;
                } else if store.is_restored().map_err(silent)? {
                    tracing::error!("{RESTORED}");
                    held = true;
                }
                look_after(store.clone());
            }
            let words = store.durability().to_string();
            Ok(Opened { store, words, held })
        }
    }
}

/// A database keeps itself in order, but for old idempotency keys and the days of history; and what
/// was found about its server is said aloud.
fn look_after(store: Arc<PostgresStore>) {
    let mut round: u32 = 0;
    node::tasks::every("store-care", CARE_EVERY, move || {
        for alert in store.alerts() {
            tracing::error!("{alert}");
        }
        for fault in store.faults() {
            tracing::warn!("the store: {fault}");
        }
        // What fails here is tried again: there are days of time for either.
        if round.is_multiple_of(ROTATE_ROUNDS) {
            let _ = store.prepare();
            let _ = store.rotate();
        }
        round = round.wrapping_add(1);
    });
}

fn no_database(error: &store_postgres::OpenError) -> Failure {
    let help = "duly serve --store postgres://user@host/database".to_string();
    Failure { help, ..Failure::failed(format!("the database cannot be used: {error}")) }
}

/// A user's database that jobs are taken from. It may be away: nothing is asked of it yet.
pub fn outbox(
    database: &str,
    schema: Schema,
) -> Result<Arc<dyn Outbox>, store_postgres::OpenError> {
    Ok(Arc::new(PostgresOutbox::new(database, schema)?))
}

pub fn install_outbox(
    database: &str,
    schema: &Schema,
    grants: &Grants,
) -> Result<(), store_postgres::OpenError> {
    install(database, schema, grants)
}

/// A restored copy is held until somebody says that the original is over.
fn wake(store: &SqliteStore, takeover: bool) -> Result<bool, StoreError> {
    if takeover {
        store.release_restored()?;
    } else if store.is_restored()? {
        tracing::error!("{RESTORED}");
        return Ok(true);
    }
    Ok(false)
}

/// A store that is broken must not be used by this process any more: only one that reads the file
/// anew can know what it holds.
fn care_for(store: Arc<SqliteStore>) {
    let mut round: u32 = 0;
    let mut was_short = false;
    node::tasks::every("store-care", CARE_EVERY, move || {
        if let Some(why) = store.broken() {
            node::tasks::end(&format!("the store is broken: {why}"));
        }
        let short = store.is_short_of_room();
        if short != was_short {
            match short {
                true => tracing::error!("{SHORT}"),
                false => tracing::warn!("{ROOM_AGAIN}"),
            }
            was_short = short;
        }
        // What fails here shows in the next look, or is tried again in a second.
        crash::during("checkpoint-during");
        let _ = store.checkpoint();
        crash::point("checkpoint-after");
        // Also in the first round: a process that never lives for ten minutes must do it, too.
        if round.is_multiple_of(ROTATE_ROUNDS) {
            crash::during("rotate-during");
            let _ = store.rotate();
        }
        round = round.wrapping_add(1);
    });
}

fn refused(data: &Path, error: &OpenError) -> Failure {
    let help = match error {
        OpenError::InUse => "duly serve --data ANOTHER-FOLDER".to_string(),
        _ => "duly serve --help".to_string(),
    };
    let message = format!("the data folder {} cannot be used: {error}", data.display());
    Failure { help, ..Failure::failed(message) }
}

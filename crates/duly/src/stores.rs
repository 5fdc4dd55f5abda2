//! The backends, named here and nowhere else.

use crate::failure::Failure;
use crate::memory_store::ClockedMemory;
use clap::ValueEnum;
use node::clock::EmbeddedClock;
use node::crash;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Backend, Store, StoreError};
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// One file in the data folder
    Sqlite,
    /// Nothing survives the process
    Memory,
}

impl Kind {
    pub fn describe(self) -> &'static str {
        match self {
            Kind::Sqlite => "sqlite: durable before it answers",
            Kind::Memory => "memory: NOTHING IS KEPT over a restart",
        }
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

/// `served`: for a server; a command that looks or changes a thing needs no care.
pub fn open(kind: Kind, data: &Path, served: Option<Served>) -> Result<Arc<dyn Backend>, Failure> {
    let clock = EmbeddedClock::start();
    if matches!(kind, Kind::Memory) {
        return Ok(Arc::new(ClockedMemory::new(clock)));
    }
    let opened = SqliteStore::open(data, move || clock.now());
    let store = Arc::new(opened.map_err(|error| refused(data, &error))?);
    if let Some(served) = served {
        wake(&store, served.takeover)
            .map_err(|error| Failure::failed(format!("the store does not answer: {error:?}")))?;
        store.keep_room(served.reserve);
        care_for(store.clone());
    }
    Ok(store)
}

/// A restored copy is held until somebody says that the original is over.
fn wake(store: &SqliteStore, takeover: bool) -> Result<(), StoreError> {
    if takeover {
        store.release_restored()?;
    } else if store.is_restored()? {
        eprintln!("duly: {RESTORED}");
    }
    Ok(())
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
            eprintln!("duly: {}", if short { SHORT } else { ROOM_AGAIN });
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

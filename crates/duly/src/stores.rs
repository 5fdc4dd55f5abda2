//! The backends, named here and nowhere else.

use crate::failure::Failure;
use crate::memory_store::ClockedMemory;
use clap::ValueEnum;
use node::clock::EmbeddedClock;
use std::path::Path;
use std::sync::Arc;
use store::Store;

pub const DEFAULT: &str = "memory";

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// Nothing survives the process
    Memory,
}

impl Kind {
    pub fn describe(self) -> &'static str {
        match self {
            Kind::Memory => "memory: NOTHING IS KEPT over a restart",
        }
    }
}

pub fn open(kind: Kind, _data: &Path) -> Result<Arc<dyn Store>, Failure> {
    match kind {
        Kind::Memory => Ok(Arc::new(ClockedMemory::new(EmbeddedClock::start()))),
    }
}

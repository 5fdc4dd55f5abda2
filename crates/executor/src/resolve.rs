//! Names to addresses. A trait, so that a test can be the name server that changes its mind.

use crate::limits::{RESOLVES_MAX, WAITING_MAX};
use node::Tasks;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

pub type Addresses = Result<Vec<IpAddr>, String>;
pub type Resolving = Pin<Box<dyn Future<Output = Addresses> + Send>>;

pub trait Resolve: Debug + Send + Sync {
    fn resolve(&self, name: &str) -> Resolving;
}

type Open = Arc<Mutex<BTreeMap<String, watch::Receiver<Option<Addresses>>>>>;

/// The system's resolver. It cannot be interrupted, so whoever stops waiting leaves a thread behind
/// until it answers: their number is bounded, and a name that is slow has one, however many ask.
#[derive(Debug)]
pub struct System {
    tasks: Tasks,
    room: Arc<Semaphore>,
    open: Open,
}

impl System {
    pub fn new(tasks: Tasks) -> System {
        System { tasks, room: Arc::new(Semaphore::new(RESOLVES_MAX)), open: Open::default() }
    }

    fn begin(&self, name: &str) -> Option<watch::Receiver<Option<Addresses>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = open.get(name) {
            return Some(answer.clone());
        }
        if open.len() >= WAITING_MAX {
            return None;
        }
        let (tell, told) = watch::channel(None);
        open.insert(name.to_string(), told.clone());
        let (room, all, name) = (self.room.clone(), self.open.clone(), name.to_string());
        self.tasks.start(async move {
            let _permit = room.acquire().await;
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map(|all| all.map(|one| one.ip()).collect());
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            let _ = tell.send(Some(found.map_err(|error| error.to_string())));
        });
        Some(told)
    }
}

impl Resolve for System {
    fn resolve(&self, name: &str) -> Resolving {
        let answer = self.begin(name);
        Box::pin(async move {
            let Some(mut answer) = answer else {
                return Err("too many names are being resolved".to_string());
            };
            let answer = answer.wait_for(Option::is_some).await;
            answer.ok().and_then(|one| one.clone()).unwrap_or_else(|| Err("no answer".to_string()))
        })
    }
}

//! A connection that is asked ahead: the next commit is encoded and sent while the server works at the
//! last one. It runs them one after the other, each a transaction of its own.
//!
//! - Only single statements go over it. Whatever needs several (the slower way of a commit, a day of
//!   history that is missing) takes another connection: in between the others would be part of it.
//! - A statement that fails leaves those behind it alone; if they build on it, their fence refuses
//!   them.
//! - Who waits for an answer drives the connection; what was begun meanwhile goes out with it. So who
//!   takes another connection meanwhile hears the answers first: a commit that lies half in our
//!   buffers would hold its rows at the server until somebody sends the rest.
//!
//! **Failure**: of a connection that broke, everything begun is answered so; the next one that is
//! begun makes a new one.

use crate::commit::{Ask, Size};
use crate::conn::Conn;
use crate::error::{Fault, Res};
use crate::pool::Dialer;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use tokio_postgres::{Client, Row};

type Rows = Result<Vec<Row>, tokio_postgres::Error>;

pub(crate) struct Line {
    dialer: Dialer,
    wire: Mutex<Option<Arc<Wire>>>,
    /// In order; as many as a node has commits under way.
    begun: Mutex<VecDeque<Begun>>,
    /// Statements so far.
    done: AtomicU64,
}

struct Wire {
    client: Arc<Client>,
    conn: Mutex<Conn>,
    /// An answer did not come in time: the others would not, either.
    silent: AtomicBool,
}

enum Begun {
    /// Nothing was sent: it takes another way.
    Aside,
    /// Nothing could be sent.
    Failed(Fault),
    Asked(Arc<Wire>, Size, Pin<Box<dyn Future<Output = Rows> + Send>>),
    /// Answered before its turn, or the connection had broken.
    Told(Arc<Wire>, Res<Vec<Row>>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    fn is_alive(&self) -> bool {
        if self.silent.load(Ordering::Relaxed) {
            return false;
        }
        match self.conn.try_lock() {
            Ok(mut conn) => conn.is_alive(),
            Err(TryLockError::Poisoned(_)) => false,
            // Somebody waits for an answer, and notices.
            Err(TryLockError::WouldBlock) => !self.client.is_closed(),
        }
    }
}

/// The same with its answer, if it was sent.
fn heard(begun: Begun) -> Begun {
    let Begun::Asked(wire, size, rows) = begun else { return begun };
    let answer = match wire.silent.load(Ordering::Relaxed) {
        true => Err(Fault::Silent(format!("{size}, behind another"))),
        false => lock(&wire.conn).answer(&size, rows),
    };
    wire.silent.fetch_or(matches!(answer, Err(Fault::Silent(_))), Ordering::Relaxed);
    Begun::Told(wire, answer)
}

impl Line {
    pub fn new(dialer: Dialer) -> Line {
        let (wire, begun) = (Mutex::new(None), Mutex::new(VecDeque::new()));
        Line { dialer, wire, begun, done: AtomicU64::new(0) }
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Sends this, or notes that it takes another way. Its turn to be ended comes in any case.
    pub fn begin(&self, ask: Option<Ask>) {
        let begun = match ask.map(|ask| (ask, self.wire())) {
            None => Begun::Aside,
            Some((_, Err(fault))) => Begun::Failed(fault),
            Some((ask, Ok(wire))) => {
                self.done.fetch_add(1, Ordering::Relaxed);
                let size = ask.size();
                let mut rows = Box::pin(ask.of(wire.client.clone()));
                // The first look hands it to the connection.
                match rows.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(rows) => Begun::Told(wire, rows.map_err(Fault::Sql)),
                    Poll::Pending => Begun::Asked(wire, size, rows),
                }
            }
        };
        lock(&self.begun).push_back(begun);
    }

    /// The answer to the oldest that was begun; none if it was not sent.
    pub fn end(&self) -> Option<Res<Vec<Row>>> {
        let oldest = lock(&self.begun).pop_front()?;
        let (wire, answer) = match heard(oldest) {
            Begun::Failed(fault) => return Some(Err(fault)),
            Begun::Told(wire, answer) => (wire, answer),
            Begun::Aside | Begun::Asked(..) => return None,
        };
        // Another server is looked at before anybody goes on there, by a new connection.
        if let Err(fault) = &answer
            && (!fault.keeps_connection() || fault.is_other_server())
        {
            let mut current = lock(&self.wire);
            current.take_if(|current| Arc::ptr_eq(current, &wire));
        }
        Some(answer)
    }

    /// Waits for the answers to all that were begun, and keeps them for their turn. For whoever
    /// ends them: nobody else takes from the line.
    pub fn hear(&self) {
        let begun = std::mem::take(&mut *lock(&self.begun));
        let heard: VecDeque<Begun> = begun.into_iter().map(heard).collect();
        let mut begun = lock(&self.begun);
        // What was begun meanwhile is behind these.
        let later = std::mem::replace(&mut *begun, heard);
        begun.extend(later);
    }

    fn wire(&self) -> Res<Arc<Wire>> {
        let mut current = lock(&self.wire);
        if let Some(wire) = current.as_ref().filter(|wire| wire.is_alive()) {
            return Ok(wire.clone());
        }
        *current = None;
        let conn = self.dialer.connect()?;
        let (client, silent) = (conn.client(), AtomicBool::new(false));
        let wire = Arc::new(Wire { client, conn: Mutex::new(conn), silent });
        *current = Some(wire.clone());
        Ok(wire)
    }
}

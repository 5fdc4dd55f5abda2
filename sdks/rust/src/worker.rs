//! The worker: handlers by kind, run under leases, drained on SIGTERM.

mod builder;

pub use builder::{OnLeaseUnknown, WorkerBuilder};

use crate::client::Client;
use crate::context::{Context, Reason};
use crate::end::{End, Said};
use crate::engine::{Engine, Handler, Options, Work};
use crate::error::Error;
use crate::limits::{KINDS_MAX, LAST_WORDS, STOP_GRACE};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Runs that came.
    pub claimed: u64,
    /// Ends that the server has taken.
    pub succeeded: u64,
    /// See `succeeded`.
    pub failed: u64,
    /// See `succeeded`.
    pub snoozed: u64,
    /// Handed back.
    pub released: u64,
    /// Settles that were too late: the run belonged to another by then.
    pub refused: u64,
    /// Runs of which nothing was said: they were lost before they ended.
    pub abandoned: u64,
}

/// Stops a worker and says what it did, from anywhere: also from its own handlers.
#[derive(Clone, Debug)]
pub struct Control {
    name: Arc<str>,
    asked: CancellationToken,
    now: CancellationToken,
    stats: Arc<Mutex<Stats>>,
}

impl Control {
    /// The worker's name, as the server knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drains: takes nothing more, hands back what has not begun, lets handlers finish for `grace`. A second
    /// call tells the handlers to stop at once.
    pub fn stop(&self) {
        if self.asked.is_cancelled() {
            self.now.cancel();
        }
        self.asked.cancel();
    }

    /// Until now.
    pub fn stats(&self) -> Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks one server for runs and calls handlers.
///
/// A handler is given the payload, as any type that can be read from JSON, and a [`Context`]. What it returns
/// is the run's output; its errors are [`End`]s.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), duly_client::Error> {
/// use duly_client::{Client, Context, End, Worker};
/// let mut worker = Worker::builder(&Client::new()?).queues(["bills"]).build()?;
/// worker.handle("bill", async |customer: u64, ctx: Context| Ok::<_, End>(customer + ctx.token()))?;
/// worker.run().await?; // until SIGTERM
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    client: Client,
    options: Options,
    handlers: HashMap<String, Handler>,
    control: Control,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker of the client's server.
    pub fn builder(client: &Client) -> WorkerBuilder {
        WorkerBuilder::new(client)
    }

    /// Its name, as the server knows it.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Stops it and says what it did, while it runs.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The handler of a kind. It is told to stop by [`Context::stop`]; a moment later its future is dropped.
    pub fn handle<P, T, F, R>(&mut self, kind: &str, handler: F) -> Result<(), Error>
    where
        P: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(P, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, End>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let call = move |context: Context| -> Work {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let payload = payload(&context)?;
                let kind = context.kind().to_string();
                let output = handler(payload, context).await?;
                Ok(Said::output(&kind, &output))
            })
        };
        self.add(kind, Handler { call: Arc::new(call), droppable: true })
    }

    /// The handler of a kind, in a thread of the runtime's blocking pool. It looks at [`Context::check`] now and
    /// then: nothing else can stop it.
    pub fn handle_blocking<P, T, F>(&mut self, kind: &str, handler: F) -> Result<(), Error>
    where
        P: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(P, Context) -> Result<T, End> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let call = move |context: Context| -> Work {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let payload = payload(&context)?;
                let kind = context.kind().to_string();
                let body = move || {
                    let output = handler(payload, context)?;
                    Ok(Said::output(&kind, &output))
                };
                match tokio::task::spawn_blocking(body).await {
                    Ok(done) => done,
                    Err(error) => Err(End::retry(format!("the handler panicked: {error}"))),
                }
            })
        };
        self.add(kind, Handler { call: Arc::new(call), droppable: false })
    }

    fn add(&mut self, kind: &str, handler: Handler) -> Result<(), Error> {
        if self.handlers.contains_key(kind) {
            return Err(Error::Invalid(format!("there is a handler of {kind:?} already")));
        }
        if self.handlers.len() >= KINDS_MAX {
            return Err(Error::Invalid(format!("a worker has at most {KINDS_MAX} kinds")));
        }
        self.handlers.insert(kind.to_string(), handler);
        Ok(())
    }

    /// Works until it is told to stop; SIGTERM and SIGINT drain, a second one stops handlers at once.
    pub async fn run(self) -> Result<Stats, Error> {
        let control = self.control();
        let signals = async {
            let mut signals = Signals::new()?;
            loop {
                signals.next().await;
                control.stop();
            }
        };
        tokio::select! {
            // Never ends but by an error.
            error = signals => error,
            stats = self.serve() => stats,
        }
    }

    /// The same without listening for signals: [`Control::stop`] stops it, or the server's word.
    pub async fn serve(self) -> Result<Stats, Error> {
        if self.handlers.is_empty() {
            return Err(Error::Invalid("a worker needs at least one handler".to_string()));
        }
        let control = self.control;
        let transport = self.client.transport().apart();
        let grace = self.options.grace;
        let stats = Arc::clone(&control.stats);
        let engine = Engine::new(transport, self.options, self.handlers, Handle::current(), stats);
        let engine = Closing(Arc::new(engine));
        let mut ended = engine.0.start()?;
        tokio::select! {
            () = control.asked.cancelled() => {}
            () = engine.0.draining.cancelled() => {}
            _ = &mut ended => return Err(failed()),
        }
        engine.0.drain();
        let idle = tokio::select! {
            () = engine.0.idle() => true,
            () = tokio::time::sleep(grace) => false,
            () = control.now.cancelled() => false,
            _ = &mut ended => return Err(failed()),
        };
        if !idle {
            engine.0.tell_all(Reason::Shutdown);
            // Those that did not stop are dropped by then, and handed back; what runs in threads is left.
            let _ = tokio::time::timeout(STOP_GRACE + LAST_WORDS, engine.0.idle()).await;
        }
        engine.0.close();
        // It says goodbye, in bounded time.
        let _ = ended.await;
        Ok(control.stats())
    }
}

fn failed() -> Error {
    Error::Invalid("the worker's thread ended: see the log".to_string())
}

/// Ends the engine when nobody waits for the worker any more.
struct Closing(Arc<Engine>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn payload<P: DeserializeOwned>(context: &Context) -> Result<P, End> {
    let text = context.run().payload.as_ref().map_or("null", |payload| payload.get());
    serde_json::from_str(text).map_err(|error| {
        End::fail(format!(
            "the payload is not what the handler of {} takes: {error}",
            context.kind()
        ))
    })
}

#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Signals, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            let wrong = |error| Error::Invalid(format!("signals cannot be heard: {error}"));
            signal(kind).map_err(wrong)
        };
        Ok(Signals(listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Signals, Error> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

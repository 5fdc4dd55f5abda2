//! Handlers: called in tasks of the caller's runtime, as many at once as there may be.

use super::held::Held;
use super::{Engine, State};
use crate::context::{Context, Reason};
use crate::end::{End, Ending, Said};
use crate::limits::STOP_GRACE;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What a handler does: what is said of its success, or how it ends otherwise.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Said, End>> + Send>>;

/// The handler of a kind.
#[derive(Clone)]
pub(crate) struct Handler {
    pub call: Arc<dyn Fn(Context) -> Work + Send + Sync>,
    /// A future can be dropped where it waits; a thread cannot.
    pub droppable: bool,
}

/// Says the end of a run when its task goes without having said it: the handler panicked, or the runtime
/// is being shut down.
struct Guard {
    engine: Arc<Engine>,
    held: Arc<Held>,
    said: Option<Said>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let said = self.said.take().unwrap_or_else(|| {
            if std::thread::panicking() {
                Said::failed(&format!("the handler of {} panicked", self.held.run.kind), true)
            } else {
                Said::released()
            }
        });
        self.engine.finish(&self.held, said);
    }
}

impl Engine {
    /// Starts what is ready and has room. A run that was told to stop before it began ends here.
    pub(super) fn pump(self: &Arc<Engine>, state: &mut State) {
        while state.running < self.options.concurrency {
            let Some(held) = state.ready.pop_front() else { return };
            if held.is_finished() {
                continue;
            }
            let Some(slot) = state.held.get_mut(&held.serial) else { continue };
            if let Some(reason) = held.told() {
                self.end(state, &held, stopped(reason));
                continue;
            }
            slot.begun = true;
            match self.handlers.get(&held.run.kind) {
                Some(handler) => {
                    state.running += 1;
                    let (engine, handler) = (Arc::clone(self), handler.clone());
                    self.runtime.spawn(engine.work(held, handler));
                }
                None => {
                    let said = Said::failed(&format!("no handler of {:?}", held.run.kind), true);
                    self.end(state, &held, said);
                }
            }
        }
    }

    async fn work(self: Arc<Engine>, held: Arc<Held>, handler: Handler) {
        let context = Context::new(Arc::clone(&self), Arc::clone(&held));
        let mut guard = Guard { engine: Arc::clone(&self), held: Arc::clone(&held), said: None };
        let work = (handler.call)(context);
        let done = if handler.droppable {
            tokio::select! {
                biased;
                done = work => done,
                () = self.overdue(&held) => Err(End::release()),
            }
        } else {
            work.await
        };
        guard.said = Some(match (done, held.told()) {
            (Ok(said), _) => said,
            (Err(_), Some(reason)) => stopped(reason),
            (Err(end), None) => {
                if let Ending::Failed { message, .. } = &end.0 {
                    tracing::warn!("{} of {} failed: {message}", held.run.kind, held.run.run_id);
                }
                Said::of(&end)
            }
        });
    }

    /// Returns when a handler that was told to stop has had its time to do so. One whose lease is lost has
    /// only as much of it as keeps it from running beside its successor.
    async fn overdue(&self, held: &Held) {
        held.stop.cancelled().await;
        let grace = match held.told() {
            Some(Reason::LeaseLost) => STOP_GRACE.min(self.options.lease / 20),
            _ => STOP_GRACE,
        };
        tokio::time::sleep(grace).await;
    }

    fn finish(self: &Arc<Engine>, held: &Arc<Held>, said: Said) {
        let mut state = self.state();
        state.running = state.running.saturating_sub(1);
        self.end(&mut state, held, said);
        self.pump(&mut state);
    }
}

/// What is said of a handler that stopped because it was told to.
fn stopped(reason: Reason) -> Said {
    match reason {
        Reason::Cancelled => Said::failed("stopped: it was cancelled", false),
        Reason::Deadline => Said::failed("stopped: its time was over", true),
        Reason::LeaseLost | Reason::Shutdown => Said::released(),
    }
}

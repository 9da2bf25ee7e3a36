//! A background thread that is started once and ended once.

use std::io;

use crate::engine::sync::Mutex;
use crate::engine::sync::thread;
use crate::engine::sync::thread::JoinHandle;

/// A background thread. Its owner tells it to end by means of its own, then calls `join`.
#[derive(Default)]
pub(crate) struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Worker {
    /// Starts the thread, called `name`, which runs `work`.
    pub(crate) fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        *self.0.lock() = Some(thread);
        Ok(())
    }

    /// Waits for the thread to end, if it was started. Returns at once on the thread itself.
    pub(crate) fn join(&self) {
        let Some(thread) = self.0.lock().take() else { return };
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("a background thread panicked");
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

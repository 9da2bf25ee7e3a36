//! A background thread: its start and its end.

use std::io;

use crate::sync::thread::JoinHandle;
use crate::sync::{Mutex, thread};

/// A background thread. Its owner signals the end in its own way, then calls `join`.
#[derive(Default)]
pub struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Worker {
    /// Starts the thread with this `name`, to run `work`.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        *self.0.lock() = Some(thread);
        Ok(())
    }

    /// Waits for the end of the thread, if it was started. Returns at once on the thread itself.
    pub fn join(&self) {
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

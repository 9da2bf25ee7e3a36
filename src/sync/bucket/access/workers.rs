//! The threads on which requests run.

use std::io;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

/// The threads that carry bytes; requests wait more than they work.
const WORKERS: usize = 2;
/// The threads that wait for a disk, where the bucket is a directory.
const DISK_WORKERS: usize = 8;

/// A runtime that begins with the first request, so that who only opens a bucket, and may fork or
/// confine itself later, has no threads.
#[derive(Default)]
pub(super) struct Workers(Mutex<Option<Runtime>>);

impl Workers {
    pub(super) fn handle(&self) -> io::Result<Handle> {
        let mut held = self.0.lock();
        if let Some(runtime) = held.as_ref() {
            return Ok(runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(DISK_WORKERS)
            .thread_name("bucket")
            .enable_all()
            .build()?;
        Ok(held.insert(runtime).handle().clone())
    }
}

impl Drop for Workers {
    /// Waits for nobody: requests that are under way are of no use any more.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

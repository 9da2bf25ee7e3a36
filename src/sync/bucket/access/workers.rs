
use std::io;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

///+ Threads that transfer bytes; requests wait more than they compute.
const WORKERS: usize = 2;
///+ Threads that wait for a disk, if the bucket is a directory.
const DISK_WORKERS: usize = 8;

///+ A runtime that starts with the first request, so that a process that only opens a bucket can
///+ still fork or confine itself: it has no threads yet.
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
    ///+ Does not wait: the requests in flight have lost their callers.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

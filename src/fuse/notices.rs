//! Notices to the kernel that it forget attributes, because a promise has ended.
//!
//! A thread of its own waits for changes in the store, gathers them for a moment and tells the
//! kernel. It only ever makes the kernel forget the attributes of a node, which takes no lock of a
//! directory. To forget a name would take one, and would detach what is mounted on the name. So a
//! name that leads elsewhere by now is found out when the kernel asks for its attributes (ESTALE),
//! and looked up again.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::Ino;
use ctxfs_engine::sync::{Mutex, thread};
use ctxfs_engine::worker::Worker;

/// The time for which changes are gathered. A writer in the store changes a file many times.
const GATHER: Duration = Duration::from_millis(5);

/// Makes the kernel forget the attributes of a node.
type Tell = dyn Fn(Ino) + Send + Sync;

/// The notices of a mount.
pub(super) struct Notices {
    tell: Arc<Tell>,
    due: Arc<Mutex<HashSet<Ino>>>,
    /// Locked while the kernel is told, so that whoever has it knows that nothing is on its way.
    telling: Arc<Mutex<()>>,
    /// Written to wake the thread.
    wake: Arc<OwnedFd>,
    ended: Arc<Mutex<bool>>,
    thread: Worker,
}

impl Notices {
    pub(super) fn new(tell: Box<Tell>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            tell: tell.into(),
            due: Arc::default(),
            telling: Arc::default(),
            wake: Arc::new(wake),
            ended: Arc::default(),
            thread: Worker::default(),
        })
    }

    /// Starts the thread. When `changes` can be read, it calls `settle`, which adds the notices
    /// that are due. Ends if that returns false.
    pub(super) fn start(
        &self,
        changes: &impl AsFd,
        settle: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<()> {
        let changes = changes.as_fd().try_clone_to_owned()?;
        let (tell, due) = (Arc::clone(&self.tell), Arc::clone(&self.due));
        let telling = Arc::clone(&self.telling);
        let (wake, ended) = (Arc::clone(&self.wake), Arc::clone(&self.ended));
        self.thread.start("ctxfs-watch", move || {
            // Asked before it waits: what woke it to end may have been read with other notices.
            while !*ended.lock() && wait(&changes, &wake) {
                thread::sleep(GATHER);
                rustix::io::read(&*wake, &mut [0; 8]).ok();
                if !settle() {
                    return;
                }
                tell_due(&due, &telling, &*tell);
            }
        })
    }

    /// Has the thread tell the kernel of `nodes`.
    pub(super) fn add(&self, nodes: Vec<Ino>) {
        if !nodes.is_empty() {
            self.due.lock().extend(nodes);
            rustix::io::write(&*self.wake, &1_u64.to_ne_bytes()).ok();
        }
    }

    /// Tells the kernel at once what the thread would tell it.
    pub(super) fn tell_due(&self) {
        tell_due(&self.due, &self.telling, &*self.tell);
    }

    /// Tells the kernel of `nodes` at once.
    pub(super) fn tell_now(&self, nodes: &[Ino]) {
        for node in nodes {
            (self.tell)(*node);
        }
    }

    /// Ends the thread.
    pub(super) fn finish(&self) {
        *self.ended.lock() = true;
        rustix::io::write(&*self.wake, &1_u64.to_ne_bytes()).ok();
        self.thread.join();
    }
}

fn tell_due(due: &Mutex<HashSet<Ino>>, telling: &Mutex<()>, tell: &Tell) {
    let _turn = telling.lock();
    let told = std::mem::take(&mut *due.lock());
    told.into_iter().for_each(tell);
}

/// Waits until something can be read from either.
fn wait(changes: &OwnedFd, wake: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(changes, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
    loop {
        match poll(&mut ready, None) {
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "changes in the store are not seen any more");
                return false;
            }
        }
    }
}

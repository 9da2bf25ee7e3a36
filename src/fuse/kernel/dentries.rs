//! Limits the number of the kernel's directory entries for views.
//!
//! The kernel keeps an entry for every name that it has looked up, and the server keeps a node for
//! every entry, until memory is short. A reader can look up any number of views, such as `X.grep/1`
//! and `X.grep/2`. This module therefore records recent look-ups, and makes the kernel drop the
//! entries of older ones. A file that is open stays open.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::{io, thread};

use fuser::{INodeNo, Notifier};
use parking_lot::{Condvar, Mutex};

use crate::Entry;

/// Maximum number of recorded look-ups of views. Beyond it, the older half is dropped.
const MOST: usize = 16_384;
const BATCH: usize = 256;

type Dentry = (INodeNo, Box<OsStr>);

#[derive(Debug, Default)]
pub(super) struct ViewDentries {
    lookups: Mutex<RecentLookups>,
    changed: Condvar,
}

/// Recent look-ups of views, in order. The kernel holds the directory's lock during a listing, so a
/// listing can add tens of thousands of look-ups before any entry is dropped. To limit memory, each
/// name is stored once.
#[derive(Debug, Default)]
struct RecentLookups {
    order: VecDeque<(u64, Dentry)>,
    /// The number of the latest look-up of each entry, by a hash of the entry. If two entries have
    /// the same hash, the kernel keeps the older one until memory is short.
    latest: HashMap<u64, u64>,
    keys: RandomState,
    next: u64,
    closed: bool,
}

impl ViewDentries {
    /// Starts the thread that makes the kernel drop entries. The kernel may block the notification
    /// until a pending operation is answered, so a worker must not send it.
    ///
    /// Dropping an entry detaches the mounts on it. A view loses such mounts at its next version
    /// anyway, but a file must keep them. `is_there` returns true if a file now has the name. The
    /// thread then skips the entry.
    pub(super) fn start(
        self: &Arc<Self>,
        kernel: Notifier,
        is_there: impl Fn(INodeNo, &OsStr) -> bool + Send + 'static,
    ) -> io::Result<()> {
        let dentries = Arc::clone(self);
        let forget = move || {
            while let Some(batch) = dentries.wait() {
                for (parent, name) in batch.iter().filter(|(dir, name)| !is_there(*dir, name)) {
                    // The call fails if the kernel has already dropped the entry, which is
                    // harmless.
                    kernel.inval_entry(*parent, name).ok();
                }
            }
        };
        thread::Builder::new().name("ctxfs-forget".to_owned()).spawn(forget)?;
        Ok(())
    }

    pub(super) fn note(&self, parent: INodeNo, name: &OsStr, entry: &Entry) {
        if entry.is_computed && self.lookups.lock().note((parent, name.into())) {
            self.changed.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.lookups.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until there are too many look-ups, and returns the entries to drop. Returns `None`
    /// once the session has ended.
    fn wait(&self) -> Option<Vec<Dentry>> {
        let mut lookups = self.lookups.lock();
        loop {
            if lookups.closed {
                return None;
            }
            let batch = lookups.take_oldest();
            if !batch.is_empty() {
                return Some(batch);
            }
            self.changed.wait(&mut lookups);
        }
    }
}

impl RecentLookups {
    fn note(&mut self, dentry: Dentry) -> bool {
        self.next += 1;
        self.latest.insert(self.keys.hash_one(&dentry), self.next);
        self.order.push_back((self.next, dentry));
        self.order.len() > MOST
    }

    /// Removes look-ups from the older half if there are too many. Returns the removed entries that
    /// have no later look-up, at most [`BATCH`] of them.
    fn take_oldest(&mut self) -> Vec<Dentry> {
        let mut batch = Vec::new();
        if self.order.len() <= MOST {
            return batch;
        }
        while batch.len() < BATCH && self.order.len() > MOST / 2 {
            let Some((number, dentry)) = self.order.pop_front() else { break };
            let hash = self.keys.hash_one(&dentry);
            if self.latest.get(&hash) == Some(&number) {
                self.latest.remove(&hash);
                batch.push(dentry);
            }
        }
        if self.order.len() <= MOST && self.order.capacity() > 2 * MOST {
            self.order.shrink_to(MOST);
            self.latest.shrink_to(MOST);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dentry(number: usize) -> Dentry {
        (INodeNo(1), OsStr::new(&number.to_string()).into())
    }

    #[test]
    fn recent_entries_and_those_in_use_are_kept() {
        let mut lookups = RecentLookups::default();
        let mut gone = Vec::new();
        for number in 0..10 * MOST {
            lookups.note(dentry(number));
            lookups.note(dentry(0));
            gone.extend(lookups.take_oldest());
            assert!(lookups.order.len() <= MOST + 2 && lookups.latest.len() <= MOST + 2);
        }
        assert!(gone.len() > 8 * MOST);
        assert!(!gone.contains(&dentry(0)), "an entry that is looked up again and again stays");
        let mut once = gone.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), gone.len());
    }
}

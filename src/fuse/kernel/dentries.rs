//! A bound on the kernel's directory entries for views.
//!
//! The kernel keeps an entry for every name that it has looked up, and the server a node for every
//! entry, until memory is short. A reader may ask for any number of views, `X.grep/1`, `X.grep/2`
//! and so on. So recent look-ups are recorded here, and the kernel is told to drop the entries of
//! older ones. A file that is open stays open.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::{io, thread};

use fuser::{INodeNo, Notifier};
use parking_lot::{Condvar, Mutex};

use crate::Entry;

/// Recorded look-ups of views. When there are more, the older half is dropped.
const MOST: usize = 16_384;
const BATCH: usize = 256;

type Dentry = (INodeNo, Box<OsStr>);

#[derive(Debug, Default)]
pub(super) struct ViewDentries {
    lookups: Mutex<RecentLookups>,
    changed: Condvar,
}

/// Recent look-ups of views, in order. A listing adds tens of thousands before the kernel, which
/// holds the directory's lock meanwhile, can drop any, so each name is stored once.
#[derive(Debug, Default)]
struct RecentLookups {
    order: VecDeque<(u64, Dentry)>,
    /// The number of the latest look-up of each entry, by a hash of the entry. Of two with one
    /// hash, the older stays until memory is short.
    latest: HashMap<u64, u64>,
    keys: RandomState,
    next: u64,
    closed: bool,
}

impl ViewDentries {
    /// Starts the thread that makes the kernel drop entries. The kernel may hold up the
    /// notification until a pending operation is answered, so no worker can do it.
    ///
    /// Dropping an entry detaches mounts on it. A view loses those at its next version anyway. A
    /// file must not, so an entry is left alone if a file `is_there` by now.
    pub(super) fn start(
        self: &Arc<Self>,
        kernel: Notifier,
        is_there: impl Fn(INodeNo, &OsStr) -> bool + Send + 'static,
    ) -> io::Result<()> {
        let dentries = Arc::clone(self);
        let forget = move || {
            while let Some(batch) = dentries.wait() {
                for (parent, name) in batch.iter().filter(|(dir, name)| !is_there(*dir, name)) {
                    // The kernel may have dropped it already.
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

    /// Waits until there are too many look-ups, and returns entries to drop; `None` once the
    /// session ends.
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

    /// If there are too many look-ups, removes the older half. Returns its entries that have not
    /// been looked up since, at most [`BATCH`].
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

//! Names of views, which the kernel is made to forget.
//!
//! It keeps every name that it has looked up, and so the server every node, until memory is short. A
//! reader may ask for any number of views, `X.grep/1`, `X.grep/2` and so on: so the last ones are
//! counted here, and of those before the kernel is told that they are gone. Whoever has such a file
//! open keeps it.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;

use fuser::INodeNo;
use fuser::Notifier;

/// Look-ups of views that are remembered; past them the older half is forgotten.
const MOST: usize = 16_384;
/// Names that are forgotten at a time, before others may be noted.
const BATCH: usize = 256;

type Name = (INodeNo, OsString);

/// The names of views that the kernel may know.
#[derive(Debug, Default)]
pub(super) struct Names {
    state: Mutex<State>,
    many: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each look-up, by its number.
    order: VecDeque<(u64, Name)>,
    /// The last look-up of each name.
    latest: HashMap<Name, u64>,
    next: u64,
    closed: bool,
}

impl Names {
    /// Forgets what is too much, on a thread of its own: the kernel may wait with the notice for an
    /// operation of which the answer is still to come.
    pub(super) fn start(self: &Arc<Self>, kernel: Notifier) -> io::Result<()> {
        let names = Arc::clone(self);
        let forget = move || {
            while let Some(batch) = names.wait() {
                for (parent, name) in batch {
                    // It may have forgotten it already.
                    kernel.inval_entry(parent, &name).ok();
                }
            }
        };
        thread::Builder::new().name("ctxfs-forget".to_owned()).spawn(forget)?;
        Ok(())
    }

    /// The kernel has looked up a view.
    pub(super) fn note(&self, parent: INodeNo, name: &OsStr) {
        let mut state = self.lock();
        if state.note((parent, name.to_owned())) {
            self.many.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.many.notify_all();
    }

    /// Waits until there are too many; then names that are to go. None, at the end.
    fn wait(&self) -> Option<Vec<Name>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let batch = state.oldest();
            if !batch.is_empty() {
                return Some(batch);
            }
            state = self.many.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether there are too many now.
    fn note(&mut self, name: Name) -> bool {
        self.next += 1;
        self.latest.insert(name.clone(), self.next);
        self.order.push_back((self.next, name));
        self.order.len() > MOST
    }

    /// Where there are too many, names of the older half that nobody has looked up since.
    fn oldest(&mut self) -> Vec<Name> {
        let mut batch = Vec::new();
        if self.order.len() <= MOST {
            return batch;
        }
        while batch.len() < BATCH && self.order.len() > MOST / 2 {
            let Some((number, name)) = self.order.pop_front() else { break };
            if self.latest.get(&name) == Some(&number) {
                self.latest.remove(&name);
                batch.push(name);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        (INodeNo(1), OsString::from(number.to_string()))
    }

    #[test]
    fn few_names_are_remembered_and_those_in_use() {
        let mut state = State::default();
        let mut gone = Vec::new();
        for number in 0..10 * MOST {
            state.note(name(number));
            state.note(name(0));
            gone.extend(state.oldest());
            assert!(state.order.len() <= MOST + 2 && state.latest.len() <= MOST + 2);
        }
        assert!(gone.len() > 8 * MOST);
        assert!(!gone.contains(&name(0)), "what is looked up again and again stays");
        let mut once = gone.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), gone.len());
    }
}

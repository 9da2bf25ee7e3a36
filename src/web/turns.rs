//! One search at a time for each tab: a new one ends the one before, and begins once that has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::WebError;

/// Tells a search to stop.
type Stop = Arc<AtomicBool>;

/// The most characters of the name of a tab.
const NAME: usize = 64;

/// The searches that run or wait, by their tabs.
#[derive(Debug, Clone, Default)]
pub(super) struct Searches(Arc<Mutex<HashMap<String, Tab>>>);

#[derive(Debug)]
struct Tab {
    /// Ends the search that was begun last.
    stop: Stop,
    /// The one that runs has it.
    running: Arc<Semaphore>,
    /// Searches that run or wait.
    users: usize,
}

/// The turn of a search. Dropping it lets the next one of its tab begin.
#[derive(Debug)]
pub(super) struct Turn {
    searches: Searches,
    tab: String,
    stop: Stop,
    running: Option<OwnedSemaphorePermit>,
}

impl Searches {
    /// Ends the search of `tab` that was begun before, and waits until it has ended.
    pub(super) async fn turn(&self, tab: &str) -> Result<Turn, WebError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if tab.len() > NAME || !tab.bytes().all(is_name) {
            return Err(WebError::Bad("the name of a tab has at most 64 letters".to_owned()));
        }
        let stop = Stop::default();
        let running = {
            let mut tabs = self.0.lock();
            let known = tabs.entry(tab.to_owned()).or_insert_with(|| Tab {
                stop: Arc::clone(&stop),
                running: Arc::new(Semaphore::new(1)),
                users: 0,
            });
            if known.users > 0 {
                known.stop.store(true, Relaxed);
            }
            known.stop = Arc::clone(&stop);
            known.users += 1;
            Arc::clone(&known.running)
        };
        let (searches, tab) = (self.clone(), tab.to_owned());
        // Leaves even if nobody waits any more.
        let mut turn = Turn { searches, tab, stop, running: None };
        turn.running = running.acquire_owned().await.ok();
        Ok(turn)
    }

    /// Ends all searches.
    pub(super) fn stop(&self) {
        self.0.lock().values().for_each(|tab| tab.stop.store(true, Relaxed));
    }
}

impl Turn {
    /// Returns true once another search of the tab has begun.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut tabs = self.searches.0.lock();
        let Some(tab) = tabs.get_mut(&self.tab) else { return };
        tab.users -= 1;
        if tab.users == 0 {
            tabs.remove(&self.tab);
        }
        drop(self.running.take());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn a_new_search_ends_the_one_before_and_begins_after_it() {
        block_on(async {
            let searches = Searches::default();
            let first = searches.turn("a").await.unwrap();
            let other = searches.turn("b").await.unwrap();
            let waits = searches.turn("a");
            tokio::pin!(waits);
            assert!(timeout(Duration::from_millis(20), &mut waits).await.is_err());
            assert!(first.is_over() && !other.is_over());
            drop(first);
            let second = waits.await.unwrap();
            assert!(!second.is_over());
            searches.stop();
            assert!(second.is_over() && other.is_over());
            drop((second, other));
            assert!(searches.0.lock().is_empty());
        });
    }

    #[test]
    fn a_search_that_nobody_waits_for_leaves_nothing() {
        block_on(async {
            let searches = Searches::default();
            let first = searches.turn("a").await.unwrap();
            let waits = timeout(Duration::from_millis(5), searches.turn("a")).await;
            assert!(waits.is_err());
            drop(first);
            assert!(searches.0.lock().is_empty());
            assert!(searches.turn("a b").await.is_err());
            assert!(searches.turn(&"x".repeat(65)).await.is_err());
        });
    }
}

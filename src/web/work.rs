//! Runs the engine's work on a limited number of threads: pages that are sent while they are built,
//! and searches, one at a time per browser tab.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::{Result, WebError};

// Maximum number of concurrent pages, windows and download blocks.
const PAGES: usize = 8;
const SEARCHES: usize = 4;
// Maximum number of waiting requests. Further requests are refused.
const WAITING: usize = 256;
// Time after which an answer that the browser does not read gives way to requests that wait.
const UNREAD: Duration = Duration::from_secs(3);
// Maximum number of pieces of an answer that wait to be sent.
const PIECES: usize = 4;
const PIECE: usize = 16 << 10;

/// The threads shared by all requests. Requests wait for a turn in their [`Lane`]. If too many
/// requests are waiting, further ones are refused as busy.
#[derive(Debug)]
pub(super) struct Work {
    pages: LaneTurns,
    searches: LaneTurns,
    waiting: Arc<Semaphore>,
}

// The turns of a lane, and the number of requests that wait for one.
#[derive(Debug)]
struct LaneTurns {
    turns: Arc<Semaphore>,
    waiters: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    Page,
    Search,
}

/// An answer that is being built, whose text is sent in pieces.
pub(super) struct Sink {
    begun: Option<oneshot::Sender<Result<()>>>,
    pieces: mpsc::Sender<Bytes>,
    // True once the browser has closed the connection.
    pub(super) gone: Arc<AtomicBool>,
    text: Vec<u8>,
    // Number of requests that wait until this answer or another one ends.
    waiters: Arc<AtomicUsize>,
}

// The receiving end of an answer. Dropping it sets `gone`, so that the answer is no longer built.
struct PieceReceiver {
    pieces: mpsc::Receiver<Bytes>,
    gone: Arc<AtomicBool>,
}

impl Work {
    pub(super) fn new() -> Self {
        let new =
            |most| LaneTurns { turns: Arc::new(Semaphore::new(most)), waiters: Arc::default() };
        Self {
            pages: new(PAGES),
            searches: new(SEARCHES),
            waiting: Arc::new(Semaphore::new(WAITING)),
        }
    }

    pub(super) const THREADS: usize = PAGES + SEARCHES + 4;

    // Runs `work` on another thread.
    pub(super) async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.turn(Lane::Page).await?;
        let done = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| panicked())?
    }

    /// Sends the text that `work` writes, with the content type `kind`. An error before the first
    /// piece becomes the answer. A later error cuts off the answer.
    pub(super) async fn send(
        &self,
        lane: Lane,
        kind: &'static str,
        work: impl FnOnce(&mut Sink) -> Result<()> + Send + 'static,
    ) -> Result<Response> {
        let permit = self.turn(lane).await?;
        let (begun, has_begun) = oneshot::channel();
        let (pieces, received) = mpsc::channel(PIECES);
        let gone = Arc::new(AtomicBool::new(false));
        let mut sink = Sink {
            begun: Some(begun),
            pieces,
            gone: Arc::clone(&gone),
            text: Vec::new(),
            waiters: Arc::clone(&self.lane(lane).waiters),
        };
        spawn_blocking(move || {
            let done = work(&mut sink).and_then(|()| sink.flush());
            if let Err(error) = done {
                sink.fail(error);
            }
            drop(permit);
        });
        has_begun.await.map_err(|_| panicked())??;
        Ok(streamed(kind, PieceReceiver { pieces: received, gone }))
    }

    fn lane(&self, lane: Lane) -> &LaneTurns {
        match lane {
            Lane::Page => &self.pages,
            Lane::Search => &self.searches,
        }
    }

    async fn turn(&self, lane: Lane) -> Result<OwnedSemaphorePermit> {
        let LaneTurns { turns, waiters } = self.lane(lane);
        if let Ok(permit) = Arc::clone(turns).try_acquire_owned() {
            return Ok(permit);
        }
        let _waits = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| WebError::Busy)?;
        let _waiter = Waiter::new(waiters);
        Arc::clone(turns).acquire_owned().await.map_err(|_| WebError::Busy)
    }
}

// Counts as waiting until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Relaxed);
        Self(waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let Self(count) = self;
        count.fetch_sub(1, Relaxed);
    }
}

fn panicked() -> WebError {
    WebError::Bad("making this page panicked".to_owned())
}

fn streamed(kind: &'static str, listener: PieceReceiver) -> Response {
    let pieces = unfold(listener, |mut listener| async {
        let piece = listener.pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
    (kind, Body::from_stream(pieces)).into_response()
}

impl Drop for PieceReceiver {
    fn drop(&mut self) {
        self.gone.store(true, Relaxed);
    }
}

impl Sink {
    pub(super) fn write(&mut self, text: impl AsRef<[u8]>) -> Result<()> {
        self.text.extend_from_slice(text.as_ref());
        if self.text.len() < PIECE { Ok(()) } else { self.flush() }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(begun) = self.begun.take() {
            begun.send(Ok(())).map_err(|_| WebError::Gone)?;
        }
        if self.text.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.text));
        loop {
            let room = Handle::current().block_on(timeout(UNREAD, self.pieces.reserve()));
            match room {
                Ok(room) => {
                    room.map_err(|_| WebError::Gone)?.send(piece);
                    return Ok(());
                }
                Err(_) if self.waiters.load(Relaxed) > 0 => return Err(WebError::Gone),
                Err(_) => {}
            }
        }
    }

    fn fail(&mut self, error: WebError) {
        if let Some(begun) = self.begun.take() {
            // The receiver may be gone.
            drop(begun.send(Err(error)));
        } else {
            tracing::debug!("an answer ends early: {error}");
        }
    }
}

type StopFlag = Arc<AtomicBool>;

const NAME: usize = 64;

/// The running and waiting searches by tab. A new search stops the tab's previous search and starts
/// after it has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Searches(Arc<Mutex<HashMap<String, Tab>>>);

#[derive(Debug)]
struct Tab {
    stop: StopFlag,
    // Held by the running search.
    running: Arc<Semaphore>,
    users: usize,
}

// The turn of a search. Dropping it allows the tab's next search to start.
#[derive(Debug)]
pub(super) struct SearchTurn {
    searches: Searches,
    tab: String,
    // True once a later search of the tab, or the end of the server, stops this one.
    pub(super) stop: StopFlag,
    running: Option<OwnedSemaphorePermit>,
}

impl Searches {
    // Stops the tab's previous search and waits until it has ended.
    pub(super) async fn turn(&self, tab: &str) -> Result<SearchTurn> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if tab.len() > NAME || !tab.bytes().all(is_name) {
            return Err(WebError::Bad("the name of a tab has at most 64 letters".to_owned()));
        }
        let stop = StopFlag::default();
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
        // Dropping `turn` removes this search from the queue, even if the wait below is cancelled.
        let mut turn = SearchTurn { searches, tab, stop, running: None };
        turn.running = running.acquire_owned().await.ok();
        Ok(turn)
    }

    pub(super) fn stop(&self) {
        self.0.lock().values().for_each(|tab| tab.stop.store(true, Relaxed));
    }
}

impl Drop for SearchTurn {
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
    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn an_answer_that_nobody_reads_gives_way() {
        block_on(async {
            let work = Work::new();
            let endless = |sink: &mut Sink| -> Result<()> {
                loop {
                    sink.write([b'x'; PIECE])?;
                }
            };
            let mut unread = Vec::new();
            for _ in 0..SEARCHES {
                unread.push(work.send(Lane::Search, "text/plain", endless).await.unwrap());
            }
            let next = work.send(Lane::Search, "text/plain", |sink| sink.write("y"));
            assert!(timeout(10 * UNREAD, next).await.is_ok());
            drop(unread);
        });
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
            assert!(first.stop.load(Relaxed) && !other.stop.load(Relaxed));
            drop(first);
            let second = waits.await.unwrap();
            assert!(!second.stop.load(Relaxed));
            searches.stop();
            assert!(second.stop.load(Relaxed) && other.stop.load(Relaxed));
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

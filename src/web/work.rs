//! The engine's work: on threads of its own, of which there are only so many, and pages that are
//! sent while they are made.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::error::WebError;

/// Pages, windows and blocks of downloads that are made at a time.
const PAGES: usize = 8;
/// Searches that run at a time.
const SEARCHES: usize = 4;
/// Requests that wait for their turn. More are refused.
const WAITING: usize = 256;
/// Pieces of an answer that wait to be sent.
const PIECES: usize = 4;
/// Bytes of a piece.
const PIECE: usize = 16 << 10;

/// The threads that all requests share.
#[derive(Debug)]
pub(super) struct Work {
    pages: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// The way in which an answer is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    /// A page, or a part of one.
    Page,
    /// A search.
    Search,
}

/// The answer as it is made. Text goes off in pieces.
pub(super) struct Sink {
    begun: Option<oneshot::Sender<Result<(), WebError>>>,
    pieces: mpsc::Sender<Bytes>,
    gone: Arc<AtomicBool>,
    text: Vec<u8>,
}

/// Tells the maker of an answer when nobody waits for it any more.
struct Listener {
    pieces: mpsc::Receiver<Bytes>,
    gone: Arc<AtomicBool>,
}

impl Work {
    pub(super) fn new() -> Self {
        let new = |most| Arc::new(Semaphore::new(most));
        Self { pages: new(PAGES), searches: new(SEARCHES), waiting: new(WAITING) }
    }

    /// The most threads that are needed at a time.
    pub(super) const THREADS: usize = PAGES + SEARCHES + 4;

    /// Does `work` on another thread, and waits for it.
    pub(super) async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, WebError> + Send + 'static,
    ) -> Result<T, WebError> {
        let permit = self.turn(Lane::Page).await?;
        let done = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| WebError::Bad("making this page panicked".to_owned()))?
    }

    /// Sends what `work` writes as it is written, as `kind`. An error before the first byte is the
    /// answer itself; a later one ends it.
    pub(super) async fn send(
        &self,
        lane: Lane,
        kind: &'static str,
        work: impl FnOnce(&mut Sink) -> Result<(), WebError> + Send + 'static,
    ) -> Response {
        let permit = match self.turn(lane).await {
            Ok(permit) => permit,
            Err(refused) => return refused.into_response(),
        };
        let (begun, has_begun) = oneshot::channel();
        let (pieces, received) = mpsc::channel(PIECES);
        let gone = Arc::new(AtomicBool::new(false));
        let mut sink =
            Sink { begun: Some(begun), pieces, gone: Arc::clone(&gone), text: Vec::new() };
        spawn_blocking(move || {
            let done = work(&mut sink).and_then(|()| sink.flush());
            if let Err(error) = done {
                sink.fail(error);
            }
            drop(permit);
        });
        match has_begun.await {
            Ok(Ok(())) => streamed(kind, Listener { pieces: received, gone }),
            Ok(Err(error)) => error.into_response(),
            Err(_) => WebError::Bad("making this page panicked".to_owned()).into_response(),
        }
    }

    async fn turn(&self, lane: Lane) -> Result<OwnedSemaphorePermit, WebError> {
        let lane = match lane {
            Lane::Page => &self.pages,
            Lane::Search => &self.searches,
        };
        if let Ok(permit) = Arc::clone(lane).try_acquire_owned() {
            return Ok(permit);
        }
        let _waits = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| WebError::Busy)?;
        Arc::clone(lane).acquire_owned().await.map_err(|_| WebError::Busy)
    }
}

fn streamed(kind: &'static str, listener: Listener) -> Response {
    let pieces = unfold(listener, |mut listener| async {
        let piece = listener.pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
    (kind, Body::from_stream(pieces)).into_response()
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.gone.store(true, Relaxed);
    }
}

impl Sink {
    /// Adds `text`, and sends it if there is enough.
    pub(super) fn write(&mut self, text: impl AsRef<[u8]>) -> Result<(), WebError> {
        self.text.extend_from_slice(text.as_ref());
        if self.text.len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Sends what has been written.
    pub(super) fn flush(&mut self) -> Result<(), WebError> {
        if let Some(begun) = self.begun.take() {
            begun.send(Ok(())).map_err(|_| WebError::Gone)?;
        }
        if self.text.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.text));
        self.pieces.blocking_send(piece).map_err(|_| WebError::Gone)
    }

    /// Returns what becomes true when nobody waits for the answer any more.
    pub(super) fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    fn fail(&mut self, error: WebError) {
        if let Some(begun) = self.begun.take() {
            // Nobody may wait for it.
            drop(begun.send(Err(error)));
        } else {
            tracing::debug!("an answer ends early: {error}");
        }
    }
}

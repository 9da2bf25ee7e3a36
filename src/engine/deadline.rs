//! Deadlines of views.
//!
//! At the deadline of a view, readers get the beginning of its text. If the text can be kept on
//! disk, the rest is still computed for the next reader. Only one view at a time continues like
//! this; a second view stops at its deadline.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ctxfs_core::model::{Content, LinesBefore};

/// The time that a view has after its deadline to write the results found so far.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(crate) struct LateSlot {
    taken: AtomicBool,
    /// True once the server shuts down. No view is then computed past its deadline.
    pub(crate) closed: AtomicBool,
}

/// Permission to compute past the deadline. Dropping the permit frees the slot.
pub(crate) struct LatePermit<'a>(&'a LateSlot);

impl LateSlot {
    /// Takes the slot. Returns `None` if another view holds it or the server is shutting down.
    pub(crate) fn take(&self) -> Option<LatePermit<'_>> {
        let taken = self.closed.load(Relaxed) || self.taken.swap(true, Relaxed);
        (!taken).then_some(LatePermit(self))
    }
}

impl Drop for LatePermit<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Relaxed);
    }
}

/// The time limit for reading the subject of a view. Reads fail from a few seconds after the view's
/// deadline. While a view may continue past its deadline, `extended` is true and reads succeed.
///
/// Every read of the subject checks the limit, so even a loop that does not check the deadline
/// ends.
#[derive(Debug)]
pub(crate) struct ReadLimit {
    started: Instant,
    limit: Duration,
    pub(crate) extended: AtomicBool,
}

impl ReadLimit {
    pub(crate) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), limit, extended: AtomicBool::new(false) })
    }

    fn is_over(&self) -> bool {
        self.started.elapsed().saturating_sub(self.limit) >= GRACE && !self.extended.load(Relaxed)
    }

    pub(crate) fn ended(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::TimedOut && self.is_over()
    }
}

/// Content that can be read within a [`ReadLimit`]. Later reads fail with `TimedOut`.
#[derive(Debug)]
pub(crate) struct Timed<C> {
    content: C,
    limit: Arc<ReadLimit>,
}

impl<C> Timed<C> {
    pub(crate) fn new(content: C, limit: &Arc<ReadLimit>) -> Self {
        Self { content, limit: Arc::clone(limit) }
    }
}

impl<C: Content> Content for Timed<C> {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.limit.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.content.read_at(offset, buffer)
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        self.content.lines_before(offset)
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        self.content.last_line()
    }

    fn is_over(&self) -> bool {
        self.limit.is_over()
    }
}

pub(crate) fn deadline(limit: Duration) -> impl Fn() -> bool {
    let started = Instant::now();
    move || started.elapsed() >= limit
}

/// Returns a function that returns true once time has run out. Time runs out after `limit` unless
/// `begin` then grants a permit to continue. With a permit, time runs out as soon as `goes_on`
/// returns false.
pub(crate) fn extended_deadline<'a>(
    limit: Duration,
    begin: impl Fn() -> Option<LatePermit<'a>>,
    goes_on: impl Fn() -> bool,
) -> impl Fn() -> bool {
    let is_due = deadline(limit);
    let permit = OnceCell::new();
    move || {
        if !is_due() {
            return false;
        }
        if permit.get().is_none()
            && let Some(permission) = begin()
        {
            permit.get_or_init(|| permission);
        }
        permit.get().is_none() || !goes_on()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn one_at_a_time_computes_on() {
        let slot = LateSlot::default();
        let goes_on = Cell::new(true);
        let late = || extended_deadline(Duration::ZERO, || slot.take(), || goes_on.get());
        let (first, second) = (late(), late());
        assert!(!first());
        assert!(second());
        assert!(!first());
        goes_on.set(false);
        assert!(first());
        drop(first);
        goes_on.set(true);
        let third = late();
        assert!(!third());
        drop(third);
        slot.closed.store(true, Relaxed);
        assert!(late()());
    }

    #[test]
    fn nothing_is_read_after_the_end() {
        let read = |content: &dyn Content| content.bytes(0, 1).map_err(|error| error.kind());
        let mut limit = ReadLimit::new(Duration::ZERO);
        let text = Timed::new(b"x".to_vec(), &limit);
        assert_eq!(read(&text), Ok(b"x".to_vec()), "what was found is shown after the deadline");
        drop(text);
        Arc::get_mut(&mut limit).unwrap().started -= GRACE;
        let text = Timed::new(b"x".to_vec(), &limit);
        assert_eq!(read(&text), Err(io::ErrorKind::TimedOut));
        assert!(text.is_over() && limit.ended(&io::ErrorKind::TimedOut.into()));
        limit.extended.store(true, Relaxed);
        assert_eq!(read(&text), Ok(b"x".to_vec()));
    }

    #[test]
    fn nobody_is_late_before_the_time_is_up() {
        let time = extended_deadline(Duration::from_hours(1), || panic!("not yet"), || false);
        assert!(!time());
    }
}

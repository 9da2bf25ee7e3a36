//! Long messages of a server, of which several may come at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::line_reader::LongLines;
use crate::upstream::Upstream;

/// Tells a server's requests that the long message of one stream is coming in.
pub(super) struct Long<'a> {
    upstream: &'a Upstream,
    is_coming: AtomicBool,
}

impl<'a> Long<'a> {
    pub(super) fn new(upstream: &'a Upstream) -> Self {
        Self { upstream, is_coming: AtomicBool::new(false) }
    }

    fn set(&self, comes: bool) {
        if self.is_coming.swap(comes, Ordering::Relaxed) != comes {
            self.upstream.count_long_line(comes);
        }
    }
}

impl LongLines for Long<'_> {
    fn begins(&self) {
        self.set(true);
    }

    fn is_lost(&self) {
        self.set(false);
    }

    fn ends(&self) {
        self.set(false);
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

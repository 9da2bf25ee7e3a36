//! A piece of the text in which error lines are searched for while others are.

use parking_lot::Mutex;

use crate::materialize::block::Block;
use crate::materialize::failure::{ErrorScanner, FoundError};

/// A part of the text that is searched for error lines on one thread.
pub(super) struct ScannedPiece<'t> {
    text: &'t [u8],
    newlines: Vec<u32>,
    pub(super) errors: Vec<FoundError>,
}

impl<'t> ScannedPiece<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, newlines: Vec::new(), errors: Vec::new() }
    }

    /// Searches the piece with one of `scanners`, or a new one.
    pub(super) fn scan(&mut self, scanners: &Mutex<Vec<ErrorScanner>>) {
        let mut scanner = scanners.lock().pop().unwrap_or_default();
        scanner.scan(Block::new(self.text, &mut self.newlines), &mut self.errors);
        scanners.lock().push(scanner);
    }

    pub(super) fn block(&self) -> Block<'_> {
        Block { bytes: self.text, newlines: &self.newlines }
    }
}

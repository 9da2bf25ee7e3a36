//! A document of which nothing more is looked up once nobody waits.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::extract::{Document, DocumentError, DocumentFacts, Stopped};
use ctxfs_core::model::Content;

/// A document that refuses its views from the moment on at which nobody waits for an answer. A view
/// of a long output takes its time, and an answer may need twenty of them.
pub(super) struct StoppableDocument<'a> {
    document: &'a dyn Document,
    stopped: &'a Stopped<'a>,
    refused: AtomicBool,
}

impl<'a> StoppableDocument<'a> {
    pub(super) fn new(document: &'a dyn Document, stopped: &'a Stopped<'a>) -> Self {
        Self { document, stopped, refused: AtomicBool::new(false) }
    }

    /// Returns true if a view was refused. An answer that was made of the others is not checked.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }
}

impl Document for StoppableDocument<'_> {
    fn facts(&self) -> &DocumentFacts {
        self.document.facts()
    }

    fn content(&self) -> &dyn Content {
        self.document.content()
    }

    fn view(&self, name: &str) -> Result<String, DocumentError> {
        if (self.stopped)() {
            self.refused.store(true, Relaxed);
            return Err(DocumentError::Stopped);
        }
        self.document.view(name)
    }
}

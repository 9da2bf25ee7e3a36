//! Finding the line that published an artifact.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bucket::Line;
use crate::bucket::PutLine;
use crate::model::Component;
use crate::remote::Notes;
use crate::remote::RemoteError;
use crate::remote::StoredSegment;
use crate::replica::Origin;
use crate::replica::SegmentId;

/// The lines that are kept. When there are more, all are found anew.
const MOST: usize = 1024;

/// A line, and the segment that has it.
pub(super) type FoundLine = (SegmentId, PutLine);

/// The lines of artifacts that were read last: where they are in a segment takes reading all of
/// that.
#[derive(Default)]
pub(super) struct KnownLines(Mutex<HashMap<(Component, Origin), Arc<FoundLine>>>);

impl KnownLines {
    /// Returns the line that published `origin`.
    pub(super) fn of(&self, notes: &Notes, origin: Origin) -> Result<Arc<FoundLine>, RemoteError> {
        let key = (notes.conversation().clone(), origin);
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let found = find(notes, origin)?.ok_or_else(|| RemoteError::Unknown {
            conversation: notes.conversation().to_text(),
            origin,
        })?;
        let mut lines = self.0.lock();
        if lines.len() == MOST {
            lines.clear();
        }
        let found = Arc::new(found);
        lines.insert(key, Arc::clone(&found));
        Ok(found)
    }

    pub(super) fn forget(&self, conversation: &Component, origin: Origin) {
        self.0.lock().remove(&(conversation.clone(), origin));
    }
}

/// Looks for the line of `origin`: in the segment that first published it, or in one that covers
/// that.
fn find(notes: &Notes, origin: Origin) -> Result<Option<FoundLine>, RemoteError> {
    let here = notes.segments()?;
    let first = here.iter().filter(|id| **id == origin.segment);
    let others = here.iter().filter(|id| **id != origin.segment);
    for id in first.chain(others) {
        let may_have = *id == origin.segment || notes.covers_of(*id)?.contains_key(&origin.segment);
        if may_have && let Some(put) = line_of(&notes.open_segment(*id)?, origin)? {
            return Ok(Some((*id, put)));
        }
    }
    Ok(None)
}

fn line_of(segment: &StoredSegment, wanted: Origin) -> Result<Option<PutLine>, RemoteError> {
    for line in segment.lines() {
        if let (origin, Line::Put(put), _) = line.map_err(RemoteError::of(segment.id()))?
            && origin == wanted
        {
            return Ok(Some(*put));
        }
    }
    Ok(None)
}

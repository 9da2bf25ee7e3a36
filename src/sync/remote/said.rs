
use std::collections::BTreeSet;

use crate::remote::{Looked, Notes, Pieces, RemoteError, Stored, Told};
use crate::replica::{SegmentId, State};

///+ Merged state of all local segments of a conversation.
pub(super) struct Said {
    pub(super) state: State<Stored, Told>,
    pub(super) ids: BTreeSet<SegmentId>,
    pub(super) refused: Vec<(SegmentId, RemoteError)>,
}

impl Said {
    pub(super) fn of(looked: &mut Looked, notes: &Notes) -> Result<Self, RemoteError> {
        let Pieces { pieces, refused } = looked.pieces(notes)?;
        let mut ids: BTreeSet<_> = pieces.iter().map(|piece| piece.id).collect();
        let state = State::of_all(pieces);
        ids.extend(&state.covered);
        Ok(Self { state, ids, refused })
    }
}

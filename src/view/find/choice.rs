//! The parts of a JSON value or another record that a passage shows: those with words, and some
//! beside them.

use crate::find::gather::SCORE_UNIT;
use crate::find::matcher::{FoundTerms, Hit};
use crate::find::question::ChosenTerms;

// A record up to this length in bytes is shown whole.
pub(super) const SMALL: usize = 700;
const MAX_PARTS: usize = 8;
// Maximum size in bytes of all neighbours that are shown together, and of one neighbour.
const NEIGHBOURS_BYTES: usize = 450;
pub(super) const NEIGHBOUR_BYTES: usize = 160;

/// Returns up to [`MAX_PARTS`] parts with words, most informative first: the next one is always the
/// part whose words add the most weight to the words so far. `hits` has the words of each part.
pub(super) fn with_words(hits: &[Vec<Hit>], chosen: &ChosenTerms) -> Vec<usize> {
    let mut left: Vec<usize> = (0..hits.len()).filter(|at| !hits[*at].is_empty()).collect();
    let mut parts = Vec::new();
    let mut found = FoundTerms::default();
    while parts.len() < MAX_PARTS && !left.is_empty() {
        let gain = |at: &usize| {
            let mut with = found;
            with.join(&FoundTerms::of(&hits[*at]));
            ((with.value(&chosen.weights) * SCORE_UNIT) as u64, usize::MAX - *at)
        };
        let Some(best) = left.iter().copied().max_by_key(gain) else { break };
        found.join(&FoundTerms::of(&hits[best]));
        left.retain(|at| *at != best);
        parts.push(best);
    }
    parts
}

/// Returns `shown` with as many of `others` as there is room for, in order. The first of `others`
/// are preferred. `length` is the length of a part in bytes.
pub(super) fn with_neighbours(
    mut shown: Vec<usize>,
    others: Vec<usize>,
    length: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut room = NEIGHBOURS_BYTES;
    for at in others {
        if let Some(left) = room.checked_sub(length(at)) {
            room = left;
            shown.push(at);
        }
    }
    shown.sort_unstable();
    shown
}

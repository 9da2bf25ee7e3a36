//! What several hosts that share a bucket make of one conversation: the rules, without any request.
//!
//! Hosts publish *segments*, which never change. Whoever has the same segments computes the same
//! state from them, whatever the order in which they came: no host asks another one. An artifact is
//! known by its *origin*, the place where it was first published. A segment says which origins
//! it moves to another name and which it removes, and it removes only what its writer had seen.
//!
//! | module | content |
//! |---|---|
//! | `origin` | who published: writers, segments, origins |
//! | `stamp` | the clock that decides between what is concurrent |
//! | `segment` | what one segment says |
//! | `covered` | which segments merges cover |
//! | `state` | what all segments together say |
//! | `names` | the names under which a state is seen |
//! | `base` | what this host last agreed upon with the bucket |
//! | `changes` | what was done here since then |
//! | `publication` | a segment made of these changes, and what holds once it is stored |
//! | `plan` | what to do here, so that a host shows what a state says |
//! | `merge` | one segment in place of many |

mod base;
mod changes;
mod covered;
mod merge;
mod names;
mod origin;
mod plan;
mod publication;
mod segment;
mod stamp;
mod state;
#[cfg(test)]
mod tests;

pub use base::{Base, Entry, FileKey, FileVersion, Found};
pub use changes::{Changes, Put as LocalPut};
pub use covered::{Covered, Covers};
pub use merge::merge;
pub use names::{Name, Names};
pub use origin::{Origin, ParseIdError, SegmentDigest, SegmentId, WriterId};
pub use plan::{Plan, Step, seen};
pub use publication::{Accepted, Publication};
pub use segment::{Claim, Move, Removed, Segment};
pub use stamp::{Clock, Stamp};
pub use state::State;

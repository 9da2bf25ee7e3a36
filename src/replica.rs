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

pub use base::Base;
pub use base::Entry;
pub use base::FileKey;
pub use base::FileVersion;
pub use base::Found;
pub use changes::Changes;
pub use changes::Put as LocalPut;
pub use covered::Covered;
pub use covered::Covers;
pub use merge::merge;
pub use names::Name;
pub use names::Names;
pub use origin::Origin;
pub use origin::ParseIdError;
pub use origin::SegmentDigest;
pub use origin::SegmentId;
pub use origin::WriterId;
pub use plan::Plan;
pub use plan::Step;
pub use plan::seen;
pub use publication::Accepted;
pub use publication::Publication;
pub use segment::Claim;
pub use segment::Move;
pub use segment::Removed;
pub use segment::Segment;
pub use stamp::Clock;
pub use stamp::Stamp;
pub use state::State;

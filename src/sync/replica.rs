//! The rules by which hosts that share a bucket agree on one conversation. No I/O.
//!
//! Hosts publish immutable *segments*. Hosts with the same segments compute the same state from
//! them, in whatever order the segments arrived; no host talks to another. An artifact is
//! identified by its *origin*, the place where it was first published. A segment says which origins
//! it renames and which it removes, and removes only origins that its writer had seen.
//!
//! | module | content |
//! |---|---|
//! | `origin` | ids of writers, segments and origins; the hybrid clock |
//! | `state` | segments, merges of segments, and the state that they add up to |
//! | `names` | the paths of artifacts in a state |
//! | `base` | the last agreement of host and bucket, local changes since, and their publication |
//! | `plan` | the steps that make local files show a state |

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

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
mod names;
mod origin;
mod plan;
mod state;
#[cfg(test)]
mod tests;

pub use base::{Accepted, Publication};
pub use base::{Base, Entry, FileKey, FileVersion, Found};
pub use base::{Changes, Put as LocalPut};
pub use names::{Name, Names};
pub use origin::{Clock, Stamp};
pub use origin::{Origin, ParseIdError, SegmentDigest, SegmentId, WriterId};
pub use plan::{Plan, Step, seen};
pub use state::State;
pub use state::merge;
pub use state::{Claim, Move, Removed, Segment};
pub use state::{Covered, Covers};

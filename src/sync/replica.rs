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

pub use base::{Base, Changes, Entry, FileKey, FileVersion, LocalPut};
pub use names::{AssignedPaths, Name};
pub use origin::{Clock, Origin, ParseIdError, SegmentDigest, SegmentId, Stamp, WriterId};
pub use plan::seen;
pub use state::{Claim, Covers, Move, Removed, Segment, State};

pub(crate) use base::{Accepted, FoundFile, Publication};
pub(crate) use plan::{Plan, Step};
pub(crate) use state::{Covered, merge};

//! Rules by which hosts that share a bucket agree on one conversation. This module does no I/O.
//!
//! Hosts publish immutable *segments*. Hosts with the same segments compute the same state from
//! them, regardless of the order in which the segments arrived. Hosts do not communicate with each
//! other directly. An artifact is identified by its *origin*, which is the segment and line of its
//! first publication. A segment lists the origins that it renames and the origins that it removes.
//! It removes only origins that its writer had seen.
//!
//! | module | content |
//! |---|---|
//! | `origin` | ids of writers, segments and origins; the hybrid clock |
//! | `state` | segments, merges of segments, and the resulting state |
//! | `base` | last agreement of host and bucket, later local changes, and their publication |
//! | `plan` | paths of the artifacts in a state, and the steps that make the local files match |

mod base;
mod origin;
mod plan;
mod state;
#[cfg(test)]
mod tests;

pub use base::{Base, Changes, Entry, FileKey, FileVersion, LocalPut};
pub use origin::{Clock, Origin, ParseIdError, SegmentDigest, SegmentId, Stamp, WriterId};
pub use plan::{AssignedPaths, Name, seen};
pub use state::{Claim, Covers, Move, Removed, Segment, State};

pub(crate) use base::{Accepted, FoundFile, Publication};
pub(crate) use origin::text_form;
pub(crate) use plan::{Plan, Step};
pub(crate) use state::{Covered, add_move, merge};

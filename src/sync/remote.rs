//! Synchronizes the conversations of a store with a bucket.
//!
//! The module `replica` has the rules, and `bucket` has the formats and requests. This module
//! applies them to the store. It finds local changes by comparing the disk with the state on which
//! host and bucket last agreed, and publishes these changes. It also fetches and applies the
//! changes of other hosts. Each operation can be interrupted at any point; the next operation
//! continues it.
//!
//! | module | content |
//! |---|---|
//! | `process` | requests to the bucket that another process makes |
//! | `home` | local state about a bucket: writer id, lock, conversations |
//! | `notes` | local state about one conversation: agreement, intent, segments |
//! | `pieces` | local segments in the form that `replica` requires |
//! | `files` | local files of a conversation, compared with the agreement; backlog of changes |
//! | `source` | files and messages opened for a push |
//! | `apply` | changes of other hosts, applied to local files |
//! | `sync` | push and pull of one conversation |
//! | `look` | looks: each look compares the segments in the bucket with the local ones |
//! | `push` | publishing local changes |
//! | `fetch`, `blocks`, `artifacts` | reading remote artifacts, and evicting local copies |
//! | `messages` | merged message log of all hosts |
//! | `merge`, `tidy` | merges of segments, and garbage collection |
//! | `purge` | immediate removal of bytes from the bucket |
//! | `resend` | repair of a bucket that lost segments or objects |
//! | `check` | consistency check |
//! | `tier` | background synchronization of a running server |
//! | `disk`, `moment` | small files and limits of disk space; clocks |
//! | `error` | errors |

mod apply;
mod artifacts;
mod blocks;
mod check;
mod disk;
mod error;
mod fetch;
mod files;
mod home;
mod look;
mod merge;
mod messages;
mod moment;
mod notes;
mod pieces;
mod process;
mod purge;
mod push;
mod resend;
mod source;
mod sync;
#[cfg(test)]
mod tests;
mod tidy;
mod tier;

pub use crate::bucket::Objects;
pub use apply::SkippedFile;
pub use artifacts::{PATIENCE, RemoteArtifacts};
pub use check::{Check, CheckProblem, CheckReport};
pub use disk::Limits;
pub use error::RemoteError;
pub use fetch::Downloads;
pub use files::{SyncStatus, standing};
pub use home::{Home, KnownBucket, PushLock, known_bucket, known_buckets};
pub use look::{LookOutcome, LookReport, Looker, look};
pub use messages::PublishedMessages;
pub use moment::Moment;
pub use notes::{Agreement, LogPosition, Notes};
pub use pieces::{Piece, Pieces, Stored, StoredMessage, pieces};
pub use process::{Line, ProcessLooks, ProcessObjects, answer_look, answer_request};
pub use purge::PurgeReport;
pub use push::LeftOut;
pub use resend::RepairReport;
pub use sync::{PullReport, Sent, Synchronizer};
pub use tidy::{Collected, GarbageReport, GcMode, store_now};
pub use tier::{Tier, TierOptions};

pub(crate) use apply::{Applied, Fetch, FetchedFile, RemoteArtifact, apply};
pub(crate) use fetch::Fetcher;
pub(crate) use files::LocalFiles;
pub(crate) use notes::{Intent, StoredSegment};
pub(crate) use push::{Push, Pushed, Session};
pub(crate) use source::{LocalSource, NoSource, PushSource};

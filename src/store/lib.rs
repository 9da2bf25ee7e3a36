//! The disk: layout, manifest, artifacts, recovery.
//!
//! All files of ctxfs are read and written through this crate. It does not interpret their content.
//! Several processes may share a store and communicate only through the disk. Cached data is
//! therefore checked against the disk before each use, usually with one `stat`.
//!
//! [`Store`] contains the conversations. A [`Conversation`] has a directory ([`Dir`]) and a
//! [`Manifest`], which contains the records of its artifacts. [`ArtifactWriter`] writes an
//! artifact, and [`Artifacts`] lists the artifacts. The module `layout` describes the file tree and
//! the rules for crashes.

pub mod about;
mod archive;
mod artifacts;
mod attributes;
mod cache;
mod conversation;
mod counts;
mod dir;
mod error;
mod far;
mod file_io;
pub mod file_lock;
mod gateway;
pub mod history;
pub mod keep;
mod layout;
mod lease;
mod manifest;
pub mod message;
mod removal;
mod runs;
pub mod shared;
mod stat;
mod store;
mod tool_output;
mod usage;
mod walk;
mod watch;
mod writer;

pub use about::About;
pub use archive::{
    ArchiveError, ArchiveFlaw, ExportParts, Exported, ImportOptions, Imported, bytes_to_export,
    export,
};
pub use artifacts::{Artifacts, StoredArtifacts};
pub use attributes::{
    attribute, attributes, parse_attribute, provenance_of, remove_attribute, set_attribute,
    set_provenance, user_attributes,
};
pub use cache::{Cache, CacheKey, Draft};
pub use conversation::Conversation;
pub use dir::{Dir, DirEntry};
pub use error::{StoreError, UnreadPlace, UnreadPlaces};
pub use far::{Arrival, Arrived, FarArtifact, record_far};
pub use file_io::{AnalysedFile, Artifact, append_all, read_full_at};
pub use gateway::{CatalogWriter, LockedPermissions};
pub use layout::{
    HISTORY, MESSAGES, PUBLISHED, REMOTE, REMOTE_MESSAGES, SETTINGS, conversation_at,
    conversation_path, is_bookkeeping, is_standard, is_standard_name,
};
pub use lease::{Lease, lease_of, owner_lives, running_process, this_process};
pub use manifest::{Appended, Manifest, ManifestLock, RecordPosition, StoredRecords};
pub use removal::{RemovalCandidate, RemovalOutcome, SweepLock};
pub use runs::{earlier_run, numbered_run};
pub use shared::{BucketBytes, Rename, RenameOutcome, SharedPlace, is_shared};
pub use stat::{FileClock, FileMark, FileType, Stat, Time, stat_file};
pub use store::Store;
pub use tool_output::ToolOutputDir;
pub use usage::{BLOCK, LEAST, SharedRoom, Usage, growth_of_write, room_of, whole_blocks};
pub use watch::{NameChange, NameWatch, Watch, WatchId};
pub use writer::{ArtifactWriter, Completed, call_stem};

use error::if_there;

#[cfg(any(test, feature = "testing"))]
#[path = "tests/testing.rs"]
mod testing;
#[cfg(any(test, feature = "testing"))]
pub use testing::{disk_clock, mere_owner};
#[cfg(test)]
mod tests;

//! The layout of a store. Only this module contains the paths in it.
//!
//! ```text
//! <store>/                          0700, as are context and the conversations
//!   VERSION                         the format, a number and a newline; a newer format is refused
//!   ctxfs.toml                      settings of the store, optional; never written by ctxfs
//!   permissions.toml                rules for permitted tool calls, optional; replaced by rename
//!   context/
//!     <conversation>/
//!       artifacts/tool/<name>       plain bytes, as the writer wrote them
//!       artifacts/terminal/<name>
//!       history/messages.jsonl      one message per line, appended under an exclusive flock
//!       history/messages.torn       lines that a crash cut off and that are not messages
//!       history/permissions.jsonl   one decision about a call per line, appended under a flock
//!       history/extractions.jsonl   one question to a language model per line, likewise
//!       history/answers/<digest>.jsonl  answers about the output with this BLAKE3, likewise
//!       history/archive/  history/summary/
//!       catalog/index.json  catalog/tools/<name>.json
//!       about.json                  whose session it is, if that is known; replaced by rename
//!       manifest.jsonl              one record per line, appended; the last one for a path wins
//!       .ctxfs-counts.jsonl         counts of outputs stored and read, one sum per line, appended
//!       .ctxfs-room                 the quota, and the number of bytes left below it
//!       .ctxfs-outputs              locked while the output of a message is stored
//!       .ctxfs-gone-*               an artifact being removed
//!       .ctxfs-come-*               a file that is arriving from another host
//!       .ctxfs-*                    being written, or a harmless leftover of a crash
//!   cache/                          computed views that took long; may be removed at any time
//!     <64 hexadecimal digits>       one view
//!     .ctxfs-*                      a view being written, under an exclusive flock
//!   remote/                         the state of shared buckets; see `remote`
//!     messages/<conversation>/published.jsonl  the messages that hosts have published
//!   .ctxfs-sweep                    locked while old outputs are removed
//!   .ctxfs-permissions              locked while permissions.toml is changed
//!   .ctxfs-staging                  holds a shared lock for each running import
//!   staging/                        running imports
//!     <16 hexadecimal digits>/      one import; opening the store removes leftovers of a crash
//! ```
//!
//! The mode 0700 of the store keeps other users out, and everything below may have any mode. Files
//! created by ctxfs have the mode 0600. Files created through a mount have the mode that their
//! writers requested.
//!
//! # Crashes
//!
//! The plain file has the authoritative content, and nothing else is needed to read it. A process
//! or the machine may stop between any two system calls. The following then holds:
//!
//! - VERSION is complete or absent: it is written under a temporary name, synced, and renamed.
//! - A record is in the manifest completely or not at all. An append is one write. If the write is
//!   interrupted, it leaves a line without a newline. Readers skip that line, and the next append
//!   ends it.
//! - Records are not synced one by one. If the machine stops, the last records may be missing. A
//!   file without its record then gets a new one, made from the attributes of the file.
//! - Compaction writes a new manifest under a temporary name, syncs it and renames it. There is
//!   always one complete manifest.
//! - A new store or conversation is on the disk, including its directories, before it is used.
//! - `ArtifactWriter` syncs an artifact before it records it as sealed, and syncs its name before
//!   `seal` returns.
//! - An artifact that is JSON is renamed when it is complete, and then recorded under its new name.
//!   After a crash between the two steps, it has its bytes and no record.
//! - If a writer or daemon dies, it leaves a record with the state `live` and a file without a
//!   writer. The next process that finds such a pair marks the artifact incomplete
//!   (`Conversation::recover`). Opening a store does not scan for such files.
//! - Content that is removed to make room is first recorded as removed, and the record is synced.
//!   Then the file is renamed to `.ctxfs-gone-*`, and finally unlinked. Before the rename, the
//!   record has no effect, as the file still exists as recorded. After the rename, the next sweep
//!   unlinks the file.
//! - A file from another host is complete and on the disk before it gets its name. Its record
//!   follows. If the transfer is interrupted, the unfinished file is unlinked when the next file
//!   arrives.
//! - A message is in the log completely or not at all. The messages that one write completes are
//!   appended in one write. If a crash cuts off a line, readers skip it. The next process that
//!   appends to the log or looks for such lines sets it aside. The output of a message is sealed as
//!   an artifact before its line is appended.
//! - A cached view gets its name when it is complete. After a reboot, older views are not used. An
//!   unfinished view is removed when the next view is kept.
//! - An import is written and checked in `staging`, synced, and renamed to its conversation. The
//!   conversation exists either completely or not at all.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ctxfs_core::model::{Component, RelPath};

pub(super) const FORMAT: u32 = 1;
pub(super) const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

pub(super) const VERSION: &str = "VERSION";
/// Name of a settings file. A store may contain one, and so may other directories.
pub const SETTINGS: &str = "ctxfs.toml";
pub(super) const CONTEXT: &str = "context";
/// Directory of the message log and the other logs of a conversation.
pub const HISTORY: &str = "history";
/// Name of the message log in [`HISTORY`].
pub const MESSAGES: &str = "messages.jsonl";
/// Directory in the store for the state of shared buckets.
pub const REMOTE: &str = "remote";
/// Directory in [`REMOTE`] for published messages. It has a subdirectory for each conversation.
pub const REMOTE_MESSAGES: &str = "messages";
/// Name of the file with the published messages of a conversation, below [`REMOTE_MESSAGES`].
pub const PUBLISHED: &str = "published.jsonl";
pub(super) const SET_ASIDE: &str = "messages.torn";
pub(super) const PERMISSIONS: &str = "permissions.toml";
pub(super) const PERMISSIONS_LOCK: &str = ".ctxfs-permissions";
pub(super) const PERMISSIONS_LOG: &str = "permissions.jsonl";
pub(super) const EXTRACTIONS_LOG: &str = "extractions.jsonl";
pub(super) const ANSWERS: &str = "answers";
pub(super) const CATALOG: &str = "catalog";
pub(super) const CATALOG_TOOLS: &str = "tools";
pub(super) const CATALOG_INDEX: &str = "index.json";
pub(super) const CACHE: &str = "cache";
pub(super) const STAGING: &str = "staging";
pub(super) const COUNTS: &str = ".ctxfs-counts.jsonl";
/// Temporary name of the new counts during a rewrite. Only the holder of the lock on [`COUNTS`]
/// uses it.
pub(super) const NEW_COUNTS: &str = ".ctxfs-counts";
pub(super) const ROOM: &str = ".ctxfs-room";
pub(super) const OUTPUT_LOCK: &str = ".ctxfs-outputs";
pub(super) const SWEEP_LOCK: &str = ".ctxfs-sweep";
pub(super) const STAGING_LOCK: &str = ".ctxfs-staging";
pub(super) const ABOUT: &str = "about.json";
pub(super) const MANIFEST: &str = "manifest.jsonl";
/// Temporary name of the new manifest during compaction. Only the holder of the manifest lock uses
/// it.
pub(super) const NEW_MANIFEST: &str = ".ctxfs-manifest";
const REMOVING: &str = ".ctxfs-gone-";
const ARRIVING: &str = ".ctxfs-come-";

/// Maximum number of bytes of a name that are repeated in its scratch name. With this limit, a
/// scratch name has at most 255 bytes.
const SHOWN_BYTES: usize = 220;

pub(super) const DIRECTORIES: &[(&str, &[&str])] = &[
    ("artifacts", &["tool", "terminal"]),
    ("history", &["archive", "summary"]),
    (CATALOG, &[CATALOG_TOOLS]),
];

/// Returns the path of the conversation `id` in the store at `root`. The conversation need not
/// exist.
pub fn conversation_path(root: &Path, id: &Component) -> PathBuf {
    root.join(CONTEXT).join(id.as_os_str())
}

/// Returns the id of the conversation in the store at `root` whose directory is `path`.
pub fn conversation_at(root: &Path, path: &Path) -> Option<Component> {
    Component::new(path.strip_prefix(root.join(CONTEXT)).ok()?).ok()
}

/// Returns 16 random hexadecimal digits for the name of a file.
pub(super) fn unique() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

pub(super) fn temporary() -> String {
    format!(".ctxfs-{}", unique())
}

pub(super) fn removing() -> String {
    format!("{REMOVING}{}", unique())
}

pub(super) fn is_removing(name: &OsStr) -> bool {
    name.as_bytes().starts_with(REMOVING.as_bytes())
}

pub(super) fn arriving() -> String {
    format!("{ARRIVING}{}", unique())
}

pub(super) fn is_arriving(name: &OsStr) -> bool {
    name.as_bytes().starts_with(ARRIVING.as_bytes())
}

/// Returns true if a standard directory may have this name; see [`is_standard`].
pub fn is_standard_name(name: &OsStr) -> bool {
    DIRECTORIES.iter().any(|(outer, inner)| name == *outer || inner.iter().any(|it| name == *it))
}

/// Returns true if every new conversation has the directory `path`.
pub fn is_standard(path: &RelPath) -> bool {
    let path = path.as_os_str();
    let is_inner = |outer: &str, inner: &str| {
        let rest = path.as_bytes().strip_prefix(outer.as_bytes());
        rest.and_then(|rest| rest.strip_prefix(b"/")) == Some(inner.as_bytes())
    };
    DIRECTORIES
        .iter()
        .any(|(outer, inner)| path == *outer || inner.iter().any(|inner| is_inner(outer, inner)))
}

pub(super) fn is_of_log(path: &RelPath) -> bool {
    let below = path.as_os_str().as_bytes().strip_prefix(HISTORY.as_bytes());
    let names = below.and_then(|below| below.strip_prefix(b"/"));
    let first = names.and_then(|names| names.split(|byte| *byte == b'/').next());
    [MESSAGES, SET_ASIDE].iter().any(|log| first == Some(log.as_bytes()))
}

/// Returns a scratch name for the file that will replace `name` once it is complete. The scratch
/// name contains the first [`SHOWN_BYTES`] bytes of `name`.
pub(super) fn replacing(name: &OsStr) -> OsString {
    let shown = &name.as_bytes()[..name.len().min(SHOWN_BYTES)];
    let mut scratch = OsString::from(".");
    scratch.push(OsStr::from_bytes(shown));
    scratch.push(format!(".{}.tmp", unique()));
    scratch
}

/// Returns true if a name in the directory of a conversation belongs to the store itself and is
/// hidden from readers of the tree. Such names are the manifest and every name that begins with
/// `.ctxfs`.
pub fn is_bookkeeping(name: &OsStr) -> bool {
    name == MANIFEST || name.as_bytes().starts_with(b".ctxfs")
}

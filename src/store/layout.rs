//! The layout of a store. No other code knows the paths in it.
//!
//! ```text
//! <store>/                          0700, as are context and the conversations
//!   VERSION                         the format, a number and a newline; a newer format is refused
//!   ctxfs.toml                      settings of the store, if any; ctxfs never writes it
//!   permissions.toml                rules of which tools may be called, if any; replaced by rename
//!   context/
//!     <conversation>/
//!       artifacts/tool/<name>       plain bytes, as the writer wrote them
//!       artifacts/terminal/<name>
//!       history/messages.jsonl      one message a line, appended under an exclusive flock
//!       history/messages.torn       lines that a crash cut off and that are not messages
//!       history/permissions.jsonl   one decision about a call a line, appended under a flock
//!       history/extractions.jsonl   one question to a language model a line, appended under a flock
//!       history/answers/<digest>.jsonl  answers about the output with this BLAKE3, likewise
//!       history/archive/  history/summary/
//!       catalog/index.json  catalog/tools/<name>.json
//!       manifest.jsonl              one record a line, appended; the last one for a path wins
//!       .ctxfs-counts.jsonl         counts of outputs stored and read, a sum a line, appended
//!       .ctxfs-room                 the room left below the quota since the last measurement
//!       .ctxfs-outputs              locked while the output of a message is stored
//!       .ctxfs-gone-*               an artifact being removed
//!       .ctxfs-come-*               a file that is arriving from another host
//!       .ctxfs-*                    being written, or a harmless leftover of a crash
//!   cache/                          computed views that took long; may be removed at any time
//!     <64 hexadecimal digits>       one of them
//!     .ctxfs-*                      being written, under an exclusive flock
//!   remote/                         the state of shared buckets; see `remote`
//!     messages/<conversation>/published.jsonl  the messages that hosts have published
//!   .ctxfs-sweep                    locked while old outputs are removed
//!   .ctxfs-permissions              locked while permissions.toml is changed
//!   .ctxfs-staging                  under a shared lock while something is imported
//!   staging/                        running imports
//!     <16 hexadecimal digits>/      one of them; opening the store removes leftovers of a crash
//! ```
//!
//! The mode 0700 of the store keeps other users out, so everything below may have any mode. Files
//! created here are 0600; files created through a mount have the mode that their writers asked for.
//!
//! # Crashes
//!
//! The plain file is the truth, and nothing else is needed to read it. A process or the machine may
//! stop between any two system calls. Then:
//!
//! - VERSION is whole or absent: it is written under a temporary name, synced, and renamed.
//! - A record is in the manifest or not. An append is one write. If it is cut off, it leaves a line
//!   without a newline, which readers skip and the next append ends.
//! - Records are not synced one by one. If the machine stops, the last of them may be missing.
//!   Their files then get a record made from the disk and their extended attributes.
//! - Compaction writes a new manifest under a temporary name, syncs and renames it, so there is
//!   always one complete manifest.
//! - A new store and a new conversation are on the disk, with the directories of both, before they
//!   are used.
//! - `ArtifactWriter` syncs an artifact before it records it as sealed, and syncs its name before
//!   `seal` returns.
//! - An artifact that is JSON is renamed when it is complete, and then recorded under its new name.
//!   In between it has its bytes and no record.
//! - A writer or daemon that died leaves a record that says `live` and a file without a writer.
//!   The next process that meets the two marks the artifact incomplete (`Conversation::recover`).
//!   Opening a store scans nothing.
//! - Content that is removed to make room is first recorded as removed, and the record synced. Then
//!   the file is renamed to `.ctxfs-gone-*`, then unlinked. Before the rename the record has no
//!   effect, as the file is still there as recorded. After it, the next sweep unlinks the file.
//! - A file that comes from another host is whole and on the disk before it gets its name. Its record
//!   follows. One that was cut off is unlinked when the next file comes.
//! - A message is in the log or not. The messages that one write completes are appended in one
//!   write. A line that a crash cut off is skipped by readers, and set aside by the next process
//!   that appends to the log or looks for such lines. The output of a message is sealed as an
//!   artifact before its line is appended.
//! - A cached view gets its name when it is complete, and names are not used after the next boot.
//!   One that was being written is removed when the next view is kept.
//! - An import is filled and checked in `staging`, synced, and renamed to its conversation, which
//!   exists as a whole or not at all.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ctxfs_core::model::{Component, RelPath};

pub(super) const FORMAT: u32 = 1;
pub(super) const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

pub(super) const VERSION: &str = "VERSION";
/// Name of a settings file, in a store and in other places.
pub const SETTINGS: &str = "ctxfs.toml";
pub(super) const CONTEXT: &str = "context";
/// Directory of the message log and the other logs of a conversation.
pub const HISTORY: &str = "history";
/// Name of the message log in [`HISTORY`].
pub const MESSAGES: &str = "messages.jsonl";
/// Directory of a store for the state of shared buckets.
pub const REMOTE: &str = "remote";
/// Directory in [`REMOTE`] for published messages, with a directory for each conversation.
pub const REMOTE_MESSAGES: &str = "messages";
/// Name of the published messages of a conversation, below [`REMOTE_MESSAGES`].
pub const PUBLISHED: &str = "published.jsonl";
pub(super) const SET_ASIDE: &str = "messages.torn";
pub(super) const PERMISSIONS: &str = "permissions.toml";
pub(super) const PERMISSIONS_LOCK: &str = ".ctxfs-permissions";
pub(super) const PERMISSIONS_LOG: &str = "permissions.jsonl";
pub(super) const EXTRACTIONS_LOG: &str = "extractions.jsonl";
pub(super) const ANSWERS: &str = "answers";
pub(super) const CACHE: &str = "cache";
pub(super) const STAGING: &str = "staging";
pub(super) const COUNTS: &str = ".ctxfs-counts.jsonl";
/// The new counts that a rewrite is writing. Only the holder of the lock of [`COUNTS`] touches it.
pub(super) const NEW_COUNTS: &str = ".ctxfs-counts";
pub(super) const ROOM: &str = ".ctxfs-room";
pub(super) const OUTPUT_LOCK: &str = ".ctxfs-outputs";
pub(super) const SWEEP_LOCK: &str = ".ctxfs-sweep";
pub(super) const STAGING_LOCK: &str = ".ctxfs-staging";
pub(super) const MANIFEST: &str = "manifest.jsonl";
/// The new manifest that compaction is writing. Only the holder of the manifest's lock touches it.
pub(super) const NEW_MANIFEST: &str = ".ctxfs-manifest";

/// Bytes of a name that its scratch name repeats. They keep the scratch name below 255 bytes.
const SHOWN_BYTES: usize = 220;

/// The directories of every conversation, each with its subdirectories.
pub(super) const DIRECTORIES: &[(&str, &[&str])] = &[
    ("artifacts", &["tool", "terminal"]),
    ("history", &["archive", "summary"]),
    (CATALOG, &[CATALOG_TOOLS]),
];

/// Returns the path of a conversation in the store at `root`. There need not be such a
/// conversation.
pub fn conversation_path(root: &Path, id: &Component) -> PathBuf {
    root.join(CONTEXT).join(id.as_os_str())
}

/// Returns the id of the conversation in the store at `root` whose directory is `path`.
pub fn conversation_at(root: &Path, path: &Path) -> Option<Component> {
    Component::new(path.strip_prefix(root.join(CONTEXT)).ok()?).ok()
}

pub(super) fn temporary(unique: u64) -> String {
    format!(".ctxfs-{unique:016x}")
}

pub(super) const CATALOG: &str = "catalog";
pub(super) const CATALOG_TOOLS: &str = "tools";
pub(super) const CATALOG_INDEX: &str = "index.json";

const REMOVING: &str = ".ctxfs-gone-";
const ARRIVING: &str = ".ctxfs-come-";

pub(super) fn removing(unique: u64) -> String {
    format!("{REMOVING}{unique:016x}")
}

pub(super) fn is_removing(name: &OsStr) -> bool {
    name.as_bytes().starts_with(REMOVING.as_bytes())
}

pub(super) fn arriving(unique: u64) -> String {
    format!("{ARRIVING}{unique:016x}")
}

pub(super) fn is_arriving(name: &OsStr) -> bool {
    name.as_bytes().starts_with(ARRIVING.as_bytes())
}

pub(super) fn is_standard(path: &RelPath) -> bool {
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

/// Returns a scratch name for the file that will replace `name` once it is complete. It repeats the
/// name as far as there is room.
pub(super) fn replacing(name: &OsStr, unique: u64) -> OsString {
    let shown = &name.as_bytes()[..name.len().min(SHOWN_BYTES)];
    let mut scratch = OsString::from(".");
    scratch.push(OsStr::from_bytes(shown));
    scratch.push(format!(".{unique:016x}.tmp"));
    scratch
}

/// Returns true if a name in a conversation's directory is the store's own, hidden from readers of
/// the tree: the manifest, and every name that begins with `.ctxfs`.
pub fn is_bookkeeping(name: &OsStr) -> bool {
    name == MANIFEST || name.as_bytes().starts_with(b".ctxfs")
}

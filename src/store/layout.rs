//! Where everything stands. No other code knows a path of the store.
//!
//! ```text
//! <store>/                          0700, as are context and the conversations
//!   VERSION                         the format, a number and a newline; a newer one is refused
//!   ctxfs.toml                      settings of its user, if any; ctxfs never writes it
//!   context/
//!     <conversation>/
//!       artifacts/tool/<name>       plain bytes, as their writer wrote them
//!       artifacts/terminal/<name>
//!       artifacts/*/.<name>.*.tmp   to replace <name> once it is complete
//!       history/messages.jsonl      one message a line, appended under an exclusive flock
//!       history/messages.torn       lines that a crash has cut off, and that were no messages
//!       history/archive/  history/summary/
//!       catalog/index.json  catalog/tools/<name>.json
//!       manifest.jsonl              one record a line, appended; the last one for a path wins
//!       .ctxfs-counts.jsonl         what was stored and read, a sum a line, appended
//!       .ctxfs-gone-*               an artifact that is being removed to make room
//!       .ctxfs-*                    being written; a leftover of a crash, and harmless
//!   cache/                          results that took long to make; may be removed at any time
//!     <64 hexadecimal digits>       one of them
//!     .ctxfs-*                      being written, under an exclusive flock
//!   staging/                        imports that are under way, each under a shared flock of this
//!     <16 hexadecimal digits>/      one of them; a leftover of a crash goes when the store is opened
//! ```
//!
//! The 0700 of the store keeps other users out, so that whatever is below may have any mode: files
//! that are made here are 0600, those made through a mount are as their writers asked.
//!
//! # Crashes
//!
//! The plain file is the truth, and nothing else is needed to read it. A process, or the machine,
//! may stop between any two system calls; then:
//!
//! - VERSION is whole or absent: it is written under a temporary name, synced, and renamed.
//! - A record is in the manifest or not. An append is one write; one that was cut off leaves a line
//!   without an end, which readers skip and the next append closes with a newline.
//! - Records are not synced one by one. Where the machine stops, the last of them may be missing;
//!   their files are then found without a record, and get one from what the disk and their extended
//!   attributes say.
//! - Compaction writes the manifest anew under a temporary name, syncs and renames it, so there is
//!   always one complete manifest.
//! - An artifact of `ArtifactWriter` is synced before it is recorded as sealed, and its name
//!   before `seal` returns.
//! - One that replaces another has a scratch name until it is complete. Then it is renamed, then
//!   recorded, and then a file that the same call left under its other extension is removed. In
//!   between both are complete, and the bare id means the newer one.
//! - A writer or daemon that died leaves a record that says `live` and a file that nobody writes.
//!   Whoever meets the two marks it incomplete (`Conversation::recover`). No scan is needed, and
//!   opening a store does none.
//! - Content that is removed to make room is first recorded as removed, and the record synced; then
//!   the file gets the name `.ctxfs-gone-*`, then it is removed. Until it has that name, the record
//!   counts for nothing, as the file is there as it says; afterwards the next sweep removes it.
//! - A message is in the log or not. What one write completes is appended in one write, and what a
//!   crash cuts off of it is set aside by whoever next adds to the log or looks at it. Readers skip
//!   it until then. The output of a message is sealed as an artifact before its line is appended.
//! - A result in the cache has its name when it is complete, and a name is of no use after the next
//!   start of the machine. One that was being written goes with the next result that is kept.
//! - An import is filled and checked in `staging`, synced, and renamed to its conversation: that is
//!   there as a whole or not at all.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

use crate::model::Component;

/// The format that this code writes, and the newest it reads.
pub(super) const FORMAT: u32 = 1;
pub(super) const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

pub(super) const VERSION: &str = "VERSION";
/// The name of a file of settings, here and in other places.
pub const SETTINGS: &str = "ctxfs.toml";
pub(super) const CONTEXT: &str = "context";
/// The directory of a conversation's messages.
pub const HISTORY: &str = "history";
/// The log of messages, in there.
pub const MESSAGES: &str = "messages.jsonl";
/// What stood in the log and is no message, beside it.
pub(super) const SET_ASIDE: &str = "messages.torn";
/// The results of views; see `cache`.
pub(super) const CACHE: &str = "cache";
/// Imports that are under way; see `archive`.
pub(super) const STAGING: &str = "staging";
/// What was counted of a conversation.
pub(super) const COUNTS: &str = ".ctxfs-counts.jsonl";
/// The sums that are to take its place; only the holder of its lock touches it.
pub(super) const NEW_COUNTS: &str = ".ctxfs-counts";
pub(super) const MANIFEST: &str = "manifest.jsonl";
/// The manifest that compaction is writing; only the holder of the manifest's lock touches it.
pub(super) const NEW_MANIFEST: &str = ".ctxfs-manifest";

/// Bytes of a name that its scratch name repeats, so that this one stays below 255 too.
const SHOWN_BYTES: usize = 220;

/// What every conversation has from the start: each directory with the one it stands in.
pub(super) const DIRECTORIES: &[(&str, &[&str])] = &[
    ("artifacts", &["tool", "terminal"]),
    ("history", &["archive", "summary"]),
    ("catalog", &["tools"]),
];

/// The directory of a conversation, of the store at `root`.
pub fn conversation_path(root: &Path, id: &Component) -> PathBuf {
    root.join(CONTEXT).join(id.as_os_str())
}

/// The conversation of the store at `root` whose directory is `path`.
pub fn conversation_at(root: &Path, path: &Path) -> Option<Component> {
    Component::new(path.strip_prefix(root.join(CONTEXT)).ok()?).ok()
}

/// A name for a file until it is complete.
pub(super) fn temporary(unique: u64) -> String {
    format!(".ctxfs-{unique:016x}")
}

const GONE: &str = ".ctxfs-gone-";

/// The name of an artifact between losing its own and being removed.
pub(super) fn gone(unique: u64) -> String {
    format!("{GONE}{unique:016x}")
}

/// Whether a file of this name is to be removed by whoever finds it.
pub(super) fn is_gone(name: &OsStr) -> bool {
    name.as_bytes().starts_with(GONE.as_bytes())
}

/// A scratch name for what is to take the place of `name` once it is complete; it says of what, as
/// far as there is room.
pub(super) fn replacing(name: &OsStr, unique: u64) -> OsString {
    let shown = &name.as_bytes()[..name.len().min(SHOWN_BYTES)];
    let mut scratch = OsString::from(".");
    scratch.push(OsStr::from_bytes(shown));
    scratch.push(format!(".{unique:016x}.tmp"));
    scratch
}

/// Whether a name in a conversation's directory is the store's own, and none of the reader's
/// business: the manifest, and whatever begins with `.ctxfs`.
pub fn is_bookkeeping(name: &OsStr) -> bool {
    name == MANIFEST || name.as_bytes().starts_with(b".ctxfs")
}

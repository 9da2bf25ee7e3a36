//! The filesystem without the kernel: inodes, handles, directories and open files.
//!
//! [`ContextFs`] has one method for each operation. The methods use types of this crate ([`Ino`],
//! [`Attr`], [`Entry`], [`Errno`]), may be called from many threads at once, and are defined in the
//! module of their subject. [`kernel`] translates between these methods and FUSE. This crate
//! contains only the code that a kernel mount needs; the [`Engine`](ctxfs_engine::Engine) below it
//! does the work that all interfaces share.
//!
//! Locks may be held together in this order: a manifest, `Shared::places`, the link of a node on
//! disk, the life of a file, the analysis of a file, the inode table. No lock is held while a view
//! is computed.

#![expect(missing_docs, reason = "names that say it all have no doc")]

mod attr;
mod attributes;
mod context_fs;
mod copies;
mod dir;
mod dir_names;
mod error;
mod file_node;
mod handle;
mod inode;
mod io;
pub mod kernel;
mod life;
mod listing;
mod lookup;
mod message_log;
mod node;
mod open;
mod process;
mod promises;
mod record;
mod remote;
mod rename;
mod requests;
mod seal;
mod seal_queue;
mod shared;
mod standard;
#[cfg(test)]
mod tests;
mod waiting;
mod write_once;

pub use attr::{Attr, Caller, Entry, Fh, FileKind, Ino, NewTime, SetAttr, TimedAttr};
pub use error::{Errno, FsError, Result};
pub use handle::{Flush, OpenMode, Opened};
pub use io::FilePosition;
pub use life::Pages;
pub use listing::{ListedEntry, ListedName};
pub use process::{ProcFs, Processes};
pub use rename::RenameMode;
pub use requests::{RequestOrigin, RequestSubject};
pub use shared::{Coherence, ContextFs, FsOptions};

pub(crate) use file_node::FileNode;
pub(crate) use handle::{Claimed, FileHandle, Handle};
pub(crate) use life::Life;
pub(crate) use lookup::CallerAccess;
pub(crate) use node::{DirNode, LinkCell, Node, NodeKey, NodeKind, NodeLink};
pub(crate) use promises::PromiseMark;
pub(crate) use seal_queue::SealJob;
pub(crate) use shared::Shared;

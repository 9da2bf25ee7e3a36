//! Listing a directory with the attributes of what is in it.

use fuser::{FileHandle, Generation, INodeNo, ReplyDirectoryPlus};

use crate::kernel::adaptor::Adaptor;
use crate::kernel::convert;
use crate::kernel::convert::ino;
use crate::{Caller, Entry, Fh, ListedEntry};

impl Adaptor {
    /// Replies with the names of the open directory `fh` from `offset` on, and their attributes.
    pub(super) fn list_with_attributes(
        &self,
        (dir, fh): (INodeNo, FileHandle),
        offset: u64,
        caller: Caller,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.run("readdirplus", |operation| {
            let read = self.fs.readdirplus(ino(dir), Fh(fh.0), offset, caller, |listed| {
                let full = add(&mut reply, &listed);
                if !full {
                    self.dentries.note(dir, listed.name, &listed.entry);
                }
                full
            });
            operation.directory_plus(reply, read);
        });
    }
}

/// Adds a name with its attributes, which have one lifetime for both. Returns true if there is no
/// room for it.
fn add(reply: &mut ReplyDirectoryPlus, listed: &ListedEntry<'_>) -> bool {
    let Entry { attr, attr_ttl, entry_ttl, .. } = listed.entry;
    let lasts = attr_ttl.min(entry_ttl);
    let (node, attr) = (INodeNo(attr.ino.0), convert::attr(&attr));
    reply.add(node, listed.next, listed.name, &lasts, &attr, Generation(0))
}

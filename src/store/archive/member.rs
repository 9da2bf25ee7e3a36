//! Writing one member of an archive.

use std::ffi::OsString;
use std::io;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;

use tar::{Builder, EntryType, Header};

use crate::archive::pax;
use crate::stat::{FileType, Stat, Time};
use ctxfs_core::model::RelPath;

/// The most bytes of a name that fit into a plain header.
const NAME_BYTES: usize = 100;
/// The permission bits that are kept, without set-user-ID and set-group-ID.
pub(super) const MODE: u32 = 0o777;
/// The prefix of the key for an extended attribute, as GNU tar and others write it.
pub(super) const ATTRIBUTE: &str = "SCHILY.xattr.";

/// A file or directory of an archive, without its content.
#[derive(Debug)]
pub(super) struct Member {
    /// The path in the conversation, or `None` for the conversation itself.
    pub(super) path: Option<RelPath>,
    pub(super) kind: FileType,
    /// The size of the content in bytes.
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Time,
    /// The extended attributes `user.*`.
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
}

impl Member {
    /// Returns the member that `stat` describes, without extended attributes.
    pub(super) fn of(path: Option<RelPath>, stat: &Stat) -> Self {
        let kind = stat.kind();
        let size = if kind == FileType::File { stat.size } else { 0 };
        let (mode, modified) = (stat.mode & MODE, stat.mtime);
        Self { path, kind, size, mode, modified, attributes: Vec::new() }
    }

    /// Writes the member with its content, which must have the right size. `top` is the id of the
    /// conversation.
    pub(super) fn write<W: Write>(
        &self,
        top: &[u8],
        content: impl Read,
        tar: &mut Builder<W>,
    ) -> io::Result<()> {
        let name = self.name(top);
        let time = pax::print_time(self.modified);
        let mut more = vec![("mtime".to_owned(), time.as_bytes())];
        if name.len() > NAME_BYTES {
            more.push(("path".to_owned(), &name));
        }
        for (attribute, value) in &self.attributes {
            // A name that is not UTF-8 is not one of ctxfs, and pax has no place for it either.
            let Some(attribute) = attribute.to_str() else { continue };
            more.push((format!("{ATTRIBUTE}{attribute}"), value));
        }
        tar.append_pax_extensions(more.iter().map(|(key, value)| (key.as_str(), *value)))?;
        tar.append(&self.header(&name), content)
    }

    fn name(&self, top: &[u8]) -> Vec<u8> {
        let mut name = top.to_vec();
        if let Some(path) = &self.path {
            name.push(b'/');
            name.extend_from_slice(path.as_os_str().as_bytes());
        }
        if self.kind == FileType::Directory {
            name.push(b'/');
        }
        name
    }

    fn header(&self, name: &[u8]) -> Header {
        let mut header = Header::new_ustar();
        let is_dir = self.kind == FileType::Directory;
        header.set_entry_type(if is_dir { EntryType::Directory } else { EntryType::Regular });
        header.set_mode(self.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(self.size);
        header.set_mtime(u64::try_from(self.modified.seconds).unwrap_or(0));
        let shown = &name[..name.len().min(NAME_BYTES)];
        header.as_old_mut().name[..shown.len()].copy_from_slice(shown);
        header.set_cksum();
        header
    }
}

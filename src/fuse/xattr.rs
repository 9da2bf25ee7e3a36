//! Extended attributes: the provenance that writers set on an artifact, and any attributes that
//! users set.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{OFlags, XattrFlags};

use crate::remote::Attribute;
use crate::{ContextFs, FsError, Ino, Node, NodeKind, Result, Shared, record, remote};
use ctxfs_core::model::{Component, Provenance};
use ctxfs_engine::Reservation;
use ctxfs_store::{
    attribute, attributes, parse_attribute, provenance_of, remove_attribute, set_attribute,
    stat_file,
};

/// The prefix of attributes that ctxfs interprets; see `store::parse_attribute`.
const OURS: &[u8] = b"user.ctx.";

impl ContextFs {
    /// Sets an extended attribute. Fails with EINVAL if ctxfs interprets attributes of this name
    /// and the value is invalid.
    pub fn setxattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let fs = &self.0;
        if !is_user(name) {
            return Err(FsError::Unsupported);
        }
        let (node, file) = attribute_file(fs, ino)?;
        let ours = name.as_bytes().starts_with(OURS);
        if ours && !parse_attribute(&name.to_string_lossy(), value, &mut Provenance::default()) {
            return Err(FsError::Invalid("an attribute of this name or value is not known"));
        }
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let bytes = (name.len() + value.len()) as u64;
        let _room = match charged_to(&node) {
            Some(conversation) => fs.engine.reserve(&conversation, bytes)?,
            None => Reservation::default(),
        };
        let value = match (fs.engine.stored_rules(), str::from_utf8(value)) {
            (Some(rules), Ok(text)) => &rules.mask_text(text).into_bytes(),
            _ => value,
        };
        change(fs, (&node, &file), || Ok(set_attribute(&file, name, value, flags)?))
    }

    pub fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        let fs = &self.0;
        // The kernel requests security.capability before every cached write, so this check comes
        // first.
        if !is_user(name) {
            return Err(FsError::NoAttribute);
        }
        if let Some(all) = remote_attributes(fs, ino)? {
            let found = all.into_iter().find(|(known, _)| known == name);
            return found.map(|(_, value)| value).ok_or(FsError::NoAttribute);
        }
        match attribute_file(fs, ino) {
            Ok((_, file)) => attribute(&file, name)?.ok_or(FsError::NoAttribute),
            Err(FsError::Computed) => Err(FsError::NoAttribute),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of all extended attributes. A NUL ends each name.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let fs = &self.0;
        let names = names(fs, ino)?;
        let shown = names.iter().filter(|name| is_user(name));
        Ok(shown.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect())
    }

    pub fn removexattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        let fs = &self.0;
        let (node, file) = attribute_file(fs, ino)?;
        if !is_user(name) {
            return Err(FsError::NoAttribute);
        }
        change(fs, (&node, &file), || Ok(remove_attribute(&file, name)?))
    }
}

/// Calls `act`, which changes an attribute of `file`. For a sealed artifact, then copies the
/// provenance in the attributes to the record.
fn change(
    fs: &Shared,
    (node, file): (&Arc<Node>, &File),
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Take the lock before any change, because the operation may have to be retried.
    let held = record::lock_sealed(fs, node)?;
    let before = &stat_file(file)?;
    act()?;
    let recorded = held.map_or(Ok(()), |held| {
        let provenance = provenance_of(file)?;
        let change = record::AttributeChange { before, sets_time: false };
        record::record_attributes(fs, held, (node, &change), Some(&provenance))
    });
    fs.promises.end_about(node);
    recorded
}

fn names(fs: &Shared, ino: Ino) -> Result<Vec<OsString>> {
    if let Some(all) = remote_attributes(fs, ino)? {
        return Ok(all.into_iter().map(|(name, _)| name).collect());
    }
    match attribute_file(fs, ino) {
        Ok((_, file)) => Ok(attributes(&file)?),
        Err(FsError::Computed) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remote_attributes(fs: &Shared, ino: Ino) -> Result<Option<Vec<Attribute>>> {
    match &fs.nodes.get(ino)?.kind {
        NodeKind::File(file) => remote::attributes(fs, file),
        _ => Ok(None),
    }
}

fn attribute_file(fs: &Shared, ino: Ino) -> Result<(Arc<Node>, File)> {
    let node = fs.nodes.get(ino)?;
    let file = match &node.kind {
        NodeKind::File(file) => match file.open(OFlags::RDONLY) {
            Ok(open) => open,
            Err(_) if remote::is_remote(file) => {
                // A change of an attribute needs the local file.
                remote::fetch(fs, &node, file)?;
                file.open(OFlags::RDONLY)?
            }
            Err(error) => file.any_open().ok_or(error)?.try_clone()?,
        },
        NodeKind::Dir(dir) => File::from(dir.open()?.try_clone()?.into_fd()),
        NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
            return Err(FsError::Computed);
        }
    };
    Ok((node, file))
}

fn charged_to(node: &Node) -> Option<Component> {
    node.as_file().map_or_else(|_| node.conversation(), |file| file.charged_to())
}

fn is_user(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"user.")
}

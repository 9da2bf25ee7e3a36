//! The file that a writer begins with.

use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::layout;
use crate::naming::CallNaming;
use ctxfs_core::model::{Component, Folder, RelPath};

/// The flags with which a writer opens its file.
pub(super) const APPENDING: OFlags = OFlags::WRONLY.union(OFlags::APPEND);

/// A new file with its first name.
pub(super) struct NewFile {
    pub(super) file: File,
    pub(super) path: RelPath,
    pub(super) naming: Option<CallNaming>,
}

impl NewFile {
    /// Creates the file of the next output of a call.
    pub(super) fn of_call(
        conversation: &Conversation,
        dir: &Dir,
        folder: Folder,
        first: &CallNaming,
    ) -> Result<Self, StoreError> {
        loop {
            let naming = first.clone().free(|naming| is_taken(conversation, dir, naming))?;
            let path = RelPath::artifact(folder, &naming.name());
            match create(dir, &naming.name()) {
                // Another process has it since.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    let fault = |error| conversation.error_at("create", &path, error);
                    let file = created.map_err(fault)?;
                    return Ok(Self { file, path, naming: Some(naming) });
                }
            }
        }
    }
}

/// Returns true if there is a file of one of these names, or a record of one that was removed.
fn is_taken(
    conversation: &Conversation,
    dir: &Dir,
    naming: &CallNaming,
) -> Result<bool, StoreError> {
    for name in naming.all() {
        let path = RelPath::artifact(naming.folder(), &name);
        match dir.stat(name.as_os_str()) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(conversation.error_at("look up", &path, error)),
        }
        if conversation.removed(&path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates the file `name`. Fails with EEXIST if there is one.
pub(super) fn create(dir: &Dir, name: &Component) -> io::Result<File> {
    dir.create_file(name.as_os_str(), APPENDING | OFlags::EXCL, layout::FILE_MODE)
}

/// Opens the directory of `folder`. Creates it if it has been removed.
pub(crate) fn open_folder(conversation: &Dir, folder: Folder) -> io::Result<Dir> {
    let mut dir = None;
    for name in folder.path().split('/') {
        let at = dir.as_ref().unwrap_or(conversation);
        at.ensure_synced_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        dir = Some(at.open_dir(name.as_ref())?);
    }
    dir.ok_or_else(|| io::ErrorKind::NotFound.into())
}

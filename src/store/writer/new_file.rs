//! The file that a writer begins with.

use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::model::Component;
use crate::model::Folder;
use crate::store::dir::Dir;
use crate::store::layout;
use crate::store::lease;
use crate::store::lease::Lease;
use crate::store::naming::Naming;
use crate::store::stat::FileType;

/// A new file with its first name.
pub(super) struct NewFile {
    pub(super) file: File,
    pub(super) name: Component,
    /// True if `name` is a scratch name, because the file is to replace another one.
    pub(super) replaces: bool,
}

impl NewFile {
    /// Creates the file. Fails with EBUSY if the file that it would replace has a writer, and with
    /// EEXIST if that is not a regular file.
    pub(super) fn new(dir: &Dir, naming: &Naming) -> io::Result<Self> {
        let name = naming.name(false);
        if is_taken(dir, &name)? || is_taken(dir, &naming.name(true))? {
            return Self::aside(dir, &name);
        }
        match create(dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::aside(dir, &name),
            created => Ok(Self { file: created?, name, replaces: false }),
        }
    }

    fn aside(dir: &Dir, name: &Component) -> io::Result<Self> {
        let unique = RandomState::new().hash_one(std::process::id());
        let name = Component::new(layout::replacing(name.as_os_str(), unique));
        let name = name.map_err(|_| Errno::NAMETOOLONG)?;
        Ok(Self { file: create(dir, &name)?, name, replaces: true })
    }
}

fn create(dir: &Dir, name: &Component) -> io::Result<File> {
    dir.create_file(
        name.as_os_str(),
        OFlags::WRONLY | OFlags::APPEND | OFlags::EXCL,
        layout::FILE_MODE,
    )
}

/// Returns true if there is a file of that name without a writer. Fails with EBUSY if it has one.
fn is_taken(dir: &Dir, name: &Component) -> io::Result<bool> {
    let name = name.as_os_str();
    let old = dir.stat(name).and_then(|stat| match stat.kind() {
        FileType::File => dir.open_file(name, OFlags::RDONLY),
        FileType::Directory | FileType::Other => Err(Errno::EXIST.into()),
    });
    match old {
        Ok(old) if lease::settled(&old) == Lease::Held => Err(Errno::BUSY.into()),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the directory of `folder`. Creates it if it has been removed.
pub(in crate::store) fn open_folder(conversation: &Dir, folder: Folder) -> io::Result<Dir> {
    let mut dir = None;
    for name in folder.path().split('/') {
        let at = dir.as_ref().unwrap_or(conversation);
        at.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        dir = Some(at.open_dir(name.as_ref())?);
    }
    dir.ok_or_else(|| io::ErrorKind::NotFound.into())
}

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
use crate::store::stat::Stat;
use crate::store::stat::stat_file;

/// A new file with its first name.
pub(super) struct NewFile {
    pub(super) file: File,
    pub(super) name: Component,
    /// The files that it is to replace. If there are any, `name` is a scratch name.
    pub(super) replaces: Vec<Stat>,
}

impl NewFile {
    /// Creates the file. Fails with EBUSY if the file that it would replace has a writer, and with
    /// EEXIST if that is not a regular file.
    pub(super) fn new(dir: &Dir, naming: &Naming) -> io::Result<Self> {
        let name = naming.name(false);
        loop {
            let there = [taken(dir, &name)?, taken(dir, &naming.name(true))?];
            let replaces: Vec<Stat> = there.into_iter().flatten().collect();
            if !replaces.is_empty() {
                return Self::aside(dir, &name, replaces);
            }
            match create(dir, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok(Self { file: created?, name, replaces }),
            }
        }
    }

    fn aside(dir: &Dir, name: &Component, replaces: Vec<Stat>) -> io::Result<Self> {
        let unique = RandomState::new().hash_one(std::process::id());
        let name = Component::new(layout::replacing(name.as_os_str(), unique));
        let name = name.map_err(|_| Errno::NAMETOOLONG)?;
        Ok(Self { file: create(dir, &name)?, name, replaces })
    }
}

fn create(dir: &Dir, name: &Component) -> io::Result<File> {
    dir.create_file(
        name.as_os_str(),
        OFlags::WRONLY | OFlags::APPEND | OFlags::EXCL,
        layout::FILE_MODE,
    )
}

/// Returns the attributes of the file of that name, if there is one. Fails with EBUSY if it has a
/// writer.
fn taken(dir: &Dir, name: &Component) -> io::Result<Option<Stat>> {
    let name = name.as_os_str();
    let old = dir.stat(name).and_then(|stat| match stat.kind() {
        FileType::File => dir.open_file(name, OFlags::RDONLY),
        FileType::Directory | FileType::Other => Err(Errno::EXIST.into()),
    });
    match old {
        Ok(old) if lease::settled(&old) == Lease::Held => Err(Errno::BUSY.into()),
        Ok(old) => Ok(Some(stat_file(&old)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the directory of `folder`. Creates it if it has been removed.
pub(in crate::store) fn open_folder(conversation: &Dir, folder: Folder) -> io::Result<Dir> {
    let mut dir = None;
    for name in folder.path().split('/') {
        let at = dir.as_ref().unwrap_or(conversation);
        at.ensure_synced_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        dir = Some(at.open_dir(name.as_ref())?);
    }
    dir.ok_or_else(|| io::ErrorKind::NotFound.into())
}

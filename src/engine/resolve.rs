//! The file, directory or view that a name in a directory stands for.
//!
//! A real file or directory always comes first; then the computed files of the directory, and its
//! directory of searches; then the views of a real file; then the bare id of a call whose output
//! ctxfs named; then the summary of removed content. A name that stands for none of these may be
//! one that is printed so. Every door follows this order.

use std::borrow::Cow;
use std::ffi::OsStr;

use crate::names::CONTROL;
use crate::{
    Engine, EngineError, Reader, Recipe, RemovedContent, Result, SourceDir, far, names, others,
    removed,
};
use ctxfs_core::model::{MAX_DEPTH, NameError};
use ctxfs_store::{FileType, Stat};
use ctxfs_view::{CorpusQuery, Reading, RenderCost, View, ViewDir, readings};

/// The meaning of a name in a directory.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one look-up, which must not allocate")]
pub enum Resolved<'a> {
    /// The directory of pages about the door itself.
    Control,
    /// A file or directory on disk.
    Disk(DiskEntry<'a>),
    /// A computed file of the directory.
    Computed(Recipe),
    /// A directory of searches.
    Searches(ViewDir),
    /// A view of a file, or a directory of its views.
    View {
        /// The file.
        of: DiskEntry<'a>,
        /// The view or directory of views.
        reading: Reading,
    },
    /// The summary of removed content.
    Removed(Box<RemovedContent>),
}

/// A name on disk, and its attributes.
#[derive(Debug)]
pub struct DiskEntry<'a> {
    /// The name in its directory.
    pub name: Cow<'a, OsStr>,
    /// The attributes.
    pub stat: Stat,
}

/// Resolves `name` in `dir`. `is_top` is true for the root that the door shows. A name that nothing
/// has here may be one that another host gave: these are asked, and then it is resolved again.
pub(super) fn resolve<'a>(
    engine: &Engine,
    dir: &dyn SourceDir,
    is_top: bool,
    name: &'a OsStr,
) -> Result<Resolved<'a>> {
    match resolve_here(engine, dir, is_top, name) {
        Err(EngineError::NotFound) if others::ask_for(engine, dir, name)? => {
            resolve_here(engine, dir, is_top, name)
        }
        found => found,
    }
}

fn resolve_here<'a>(
    engine: &Engine,
    dir: &dyn SourceDir,
    is_top: bool,
    name: &'a OsStr,
) -> Result<Resolved<'a>> {
    match resolve_as_given(engine, dir, is_top, name) {
        Err(EngineError::NotFound) => {
            let meant = names::printed_as(name).ok_or_else(|| names::absent(name))?;
            Ok(resolve_as_given(engine, dir, is_top, meant.as_os_str())?.into_owned())
        }
        found => found,
    }
}

fn resolve_as_given<'a>(
    engine: &Engine,
    dir: &dyn SourceDir,
    is_top: bool,
    name: &'a OsStr,
) -> Result<Resolved<'a>> {
    if is_top && name == CONTROL {
        return Ok(Resolved::Control);
    }
    match on_disk(engine, dir, name) {
        Ok(stat) => return Ok(Resolved::Disk(DiskEntry { name: Cow::Borrowed(name), stat })),
        Err(EngineError::NotFound) => {}
        Err(error) => return Err(error),
    }
    if let Some(recipe) = names::computed_name(dir, is_top, name) {
        return Ok(Resolved::Computed(recipe));
    }
    if let Some(searches) = names::search_dir(dir, name) {
        return Ok(Resolved::Searches(searches));
    }
    if let Some(view) = view(engine, dir, name)? {
        return Ok(view);
    }
    if let Some(output) = output_of_call(engine, dir, name)? {
        return Ok(Resolved::Disk(output));
    }
    let removed = removed::find(engine, dir, name)?.ok_or(EngineError::NotFound)?;
    Ok(Resolved::Removed(Box::new(removed)))
}

/// Returns the attributes of the file or directory `name` on disk, or of the artifact of that name
/// whose bytes are elsewhere. Links and special files that somebody planted are not there, nor are
/// the store's own files. Fails with [`NameError::TooDeep`] for a directory that no door could have
/// created.
pub fn on_disk(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Stat> {
    if names::is_stores(dir, name) {
        return Err(EngineError::NotFound);
    }
    let stat = match dir.dir()?.stat(name) {
        Ok(stat) => stat,
        Err(error) if names::is_absent(&error) => {
            far::stat_of(engine, dir, name)?.ok_or(EngineError::NotFound)?
        }
        Err(error) => return Err(error.into()),
    };
    match stat.kind() {
        FileType::Directory if dir.depth()? >= MAX_DEPTH => Err(NameError::TooDeep.into()),
        FileType::Directory => Ok(stat),
        FileType::File if !dir.is_root() => Ok(stat),
        FileType::File | FileType::Other => Err(EngineError::NotFound),
    }
}

/// Returns the view that `name` means, of a real file or of the output of a call.
fn view<'a>(engine: &Engine, dir: &dyn SourceDir, name: &'a OsStr) -> Result<Option<Resolved<'a>>> {
    for (stem, reading) in readings(name).filter(|(_, reading)| is_offered(engine, reading)) {
        let of = match on_disk(engine, dir, stem) {
            Ok(stat) => Some(DiskEntry { name: Cow::Borrowed(stem), stat }),
            Err(_) => output_of_call(engine, dir, stem)?,
        };
        match of {
            Some(of) if of.stat.kind() == FileType::File => {
                return Ok(Some(Resolved::View { of, reading }));
            }
            Some(_) => return Err(EngineError::NotFound),
            None => {}
        }
    }
    Ok(None)
}

/// Returns false for what costs money, unless the settings ask for it.
pub(crate) fn is_offered(engine: &Engine, reading: &Reading) -> bool {
    reading.derived.cost() != RenderCost::Model || engine.options.models.settings().view
}

fn output_of_call(
    engine: &Engine,
    dir: &dyn SourceDir,
    call: &OsStr,
) -> Result<Option<DiskEntry<'static>>> {
    let output = names::output_of_call(engine, dir, call)?;
    Ok(output.map(|(name, stat)| DiskEntry { name: Cow::Owned(name), stat }))
}

/// Returns the search that `name` means in the directory `dir` of searches.
pub fn search_named(dir: ViewDir, name: &OsStr) -> Result<Recipe> {
    let query = CorpusQuery::named(dir, name).ok_or(EngineError::NotFound)?;
    Ok(Recipe::Search(query.into(), Reader::Server))
}

/// Returns the view that `name` means in the directory `dir` of views of a file, or, with a `base`,
/// of the text of that view.
pub fn view_named(dir: ViewDir, base: Option<&View>, name: &OsStr) -> Result<Reading> {
    let reading = dir.child(name).ok_or(EngineError::NotFound)?;
    reading.below(base).ok_or(EngineError::NotFound)
}

impl Resolved<'_> {
    fn into_owned(self) -> Resolved<'static> {
        match self {
            Self::Control => Resolved::Control,
            Self::Disk(entry) => Resolved::Disk(entry.into_owned()),
            Self::Computed(recipe) => Resolved::Computed(recipe),
            Self::Searches(searches) => Resolved::Searches(searches),
            Self::View { of, reading } => Resolved::View { of: of.into_owned(), reading },
            Self::Removed(removed) => Resolved::Removed(removed),
        }
    }
}

impl DiskEntry<'_> {
    fn into_owned(self) -> DiskEntry<'static> {
        DiskEntry { name: Cow::Owned(self.name.into_owned()), stat: self.stat }
    }
}

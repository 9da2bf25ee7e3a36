//! Resolution of a name in a directory to a file, directory or view.
//!
//! Every door tries the possible meanings in this order:
//!
//! 1. a file or directory on disk;
//! 2. a computed file of the directory, or one of its directories of searches;
//! 3. a view of a file on disk;
//! 4. the id of a call whose output was named by ctxfs;
//! 5. the summary of removed content;
//! 6. the printed form of a name.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::names::CONTROL;
use crate::{
    DirPlace, Engine, EngineError, Reader, Recipe, Result, SourceDir, Version, ViewText, names,
    others, spool,
};
use ctxfs_core::model::{Component, Folder, MAX_DEPTH, NameError, Record, RelPath};
use ctxfs_store::{FileType, Stat, Time};
use ctxfs_view::{CorpusQuery, Derived, Reading, RenderCost, View, ViewDir, readings};

/// The meaning of a name in a directory.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made for one look-up, which must not allocate")]
pub enum Resolved<'a> {
    /// The directory of pages about the door itself.
    Control,
    /// A file or directory on disk.
    Disk(DiskEntry<'a>),
    /// A computed file of the directory.
    Computed(Recipe),
    /// A directory of searches.
    Searches(ViewDir),
    /// A view of a file, or a directory with views of the file.
    View {
        /// The file.
        of: DiskEntry<'a>,
        /// The view or directory of views.
        reading: Reading,
    },
    /// The summary of removed content.
    Removed(Box<RemovedContent>),
}

/// A name on disk with its attributes.
#[derive(Debug)]
pub struct DiskEntry<'a> {
    /// The name in the directory.
    pub name: Cow<'a, OsStr>,
    /// The attributes.
    pub stat: Stat,
}

impl Engine {
    /// Returns the meaning of `name` in `dir`. Fails with [`EngineError::NotFound`] if it has none.
    /// `is_top` is true if `dir` is the root that the door shows. If this host does not have the
    /// name, requests it from other hosts and then resolves it again.
    pub fn resolve<'a>(
        &self,
        dir: &dyn SourceDir,
        is_top: bool,
        name: &'a OsStr,
    ) -> Result<Resolved<'a>> {
        match resolve_here(self, dir, is_top, name) {
            Err(EngineError::NotFound) if others::ask_for(self, dir, name)? => {
                resolve_here(self, dir, is_top, name)
            }
            found => found,
        }
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
    let removed = engine.removed(dir, name)?.ok_or(EngineError::NotFound)?;
    Ok(Resolved::Removed(Box::new(removed)))
}

/// Returns the attributes of the file, directory or remote artifact `name`. Fails with
/// [`EngineError::NotFound`] for symbolic links and special files, and for the store's own files.
/// Fails with [`NameError::TooDeep`] for a directory that is nested deeper than any door allows.
pub fn on_disk(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Stat> {
    if names::is_stores(dir, name) {
        return Err(EngineError::NotFound);
    }
    let stat = match dir.dir()?.stat(name) {
        Ok(stat) => stat,
        Err(error) if names::is_absent(&error) => {
            names::far_stat(engine, dir, name)?.ok_or(EngineError::NotFound)?
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

fn view<'a>(engine: &Engine, dir: &dyn SourceDir, name: &'a OsStr) -> Result<Option<Resolved<'a>>> {
    // Views that cost money exist only if they are enabled in the settings.
    let asks_models = engine.options.models.settings().view;
    let is_offered = |reading: &Reading| reading.derived.cost() != RenderCost::Model || asks_models;
    for (stem, reading) in readings(name).filter(|(_, reading)| is_offered(reading)) {
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

fn output_of_call(
    engine: &Engine,
    dir: &dyn SourceDir,
    call: &OsStr,
) -> Result<Option<DiskEntry<'static>>> {
    let output = names::output_of_call(engine, dir, call)?;
    Ok(output.map(|(name, stat)| DiskEntry { name: Cow::Owned(name), stat }))
}

/// Returns the search called `name` in the search directory `dir`.
pub fn search_named(dir: ViewDir, name: &OsStr) -> Result<Recipe> {
    let query = CorpusQuery::named(dir, name).ok_or(EngineError::NotFound)?;
    Ok(Recipe::Search(query.into(), Reader::Server))
}

/// Returns the view called `name` in the view directory `dir` of a file. If `base` is given, `dir`
/// belongs to the text of that view instead.
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

/// An output whose content was removed to make room. Its `.summary` still exists.
#[derive(Debug)]
pub struct RemovedContent {
    /// The conversation in which the output was.
    pub conversation: Component,
    /// The path of the output in the conversation.
    pub path: RelPath,
    record: Record,
}

impl RemovedContent {
    /// Returns the former name of the file.
    pub fn name(&self) -> &OsStr {
        self.path.file_name()
    }

    /// Returns true if the record of the removed output stays in the manifest.
    pub fn stays(&self) -> bool {
        self.record.removed.as_ref().is_some_and(|removal| removal.stays)
    }

    /// Returns the version of the summary.
    pub fn version(&self, engine: &Engine) -> Result<Version> {
        let Self { conversation, path, .. } = self;
        let position = engine.conversation(conversation)?.manifest().position(path)?;
        let mut hasher = DefaultHasher::new();
        (position, path, conversation).hash(&mut hasher);
        Ok(Version { facts: hasher.finish(), ..Version::default() })
    }

    /// Returns the time of the removal.
    pub fn time(&self) -> Time {
        let millis = self.record.removed.as_ref().map_or(0, |removal| removal.at);
        let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
        Time { seconds: millis.div_euclid(1000), nanos }
    }
}

impl Engine {
    /// Finds the removed content whose summary is `name` in the directory `dir`.
    pub fn removed(&self, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<RemovedContent>> {
        let is_summary = |reading: &Reading| {
            reading.base.is_none() && matches!(reading.derived, Derived::File(View::Summary))
        };
        let Some((stem, _)) = readings(name).find(|(_, reading)| is_summary(reading)) else {
            return Ok(None);
        };
        let place = dir.place()?;
        let DirPlace::Below(id, folder) = &place else { return Ok(None) };
        if !place.holds_artifacts() {
            return Ok(None);
        }
        let conversation = self.conversation(id)?;
        for (file, call) in names_of_stem(stem, folder.as_os_str() == Folder::Tool.path()) {
            let Ok(path) = RelPath::below(Some(folder), &file) else { continue };
            if let Some(record) = conversation.removed(&path)?
                && call.is_none_or(|call| {
                    record.provenance.call.as_ref().is_some_and(|known| call == &**known)
                })
            {
                return Ok(Some(RemovedContent { conversation: id.clone(), path, record }));
            }
        }
        Ok(None)
    }
}

/// Returns the names of the files that `stem` may stand for: the file of that name, or the output
/// of the call with that id.
fn names_of_stem(stem: &OsStr, in_tools: bool) -> impl Iterator<Item = (OsString, Option<&OsStr>)> {
    let of_call = ["json", "txt"].into_iter().filter(move |_| in_tools).map(move |extension| {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(extension);
        (name, Some(stem))
    });
    std::iter::once((stem.to_owned(), None)).chain(of_call)
}

pub(crate) fn show_removed(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<ViewText> {
    let DirPlace::Below(id, folder) = dir.place()? else { return Err(EngineError::Stale) };
    let path = RelPath::below(Some(&folder), name)?;
    let mut record = engine.conversation(&id)?.removed(&path)?.ok_or(EngineError::Stale)?;
    let removal = record.removed.take().ok_or(EngineError::Stale)?;
    engine.secrets.mask_provenance(&mut record.provenance);
    let place = engine.options.place(&id, &path);
    Ok(spool::held_text(engine, &ctxfs_view::removed(&record, &removal, &place), Some(id))?)
}

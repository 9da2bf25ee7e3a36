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
use std::io::{self, ErrorKind};

use crate::{
    DirPlace, Engine, EngineError, Reader, Recipe, Result, SourceDir, Version, ViewText, others,
};
use ctxfs_core::model::{Component, Folder, MAX_DEPTH, NameError, Record, RelPath, is_scratch};
use ctxfs_store::{FileType, MESSAGES, Stat, Time, is_bookkeeping};
use ctxfs_view::{Derived, Reading, RenderCost, View, ViewDir, is_like_listed, readings};

const CONTROL: &str = ".ctxfs";
/// The directories of searches. Every conversation and every directory of artifacts has them.
const SEARCHES: [(&str, ViewDir); 2] = [(".grep", ViewDir::Grep), (".find", ViewDir::Find)];
const MESSAGE_ARRAY: &str = "messages.json";
const README: &str = "README.md";
const MANIFEST: &str = "manifest.json";
const IGNORE: &str = ".ignore";

/// A name that has a meaning in a directory even if no file on disk has this name.
///
/// - `Bookkeeping`: one of the store's own files. No door shows these.
/// - `Computed`: a computed file of the directory. A file on disk with this name hides it.
/// - `Searches`: a directory of searches. A file on disk with this name hides it.
/// - `View`: a view of a file on disk, or a directory of its views
#[derive(Debug)]
pub enum SpecialName {
    Bookkeeping,
    Computed(Recipe),
    Searches(ViewDir),
    View(Derived),
    Removed(Box<RemovedContent>),
}

/// Returns true if `name` in `dir` belongs to the store itself.
fn is_own(dir: &dyn SourceDir, name: &OsStr) -> bool {
    is_bookkeeping(name) && matches!(dir.place(), Ok(DirPlace::Conversation(_)))
}

/// Returns the special meaning of `name` in `dir`, if any. Does not look at the disk. `is_top` is
/// true if `dir` is the root that the door shows.
fn special_name(dir: &dyn SourceDir, is_top: bool, name: &OsStr) -> Option<SpecialName> {
    let place = || dir.place().ok();
    let in_conversation = || matches!(place(), Some(DirPlace::Conversation(_)));
    let holds_artifacts = || place().is_some_and(|place| place.holds_artifacts());
    let computed = |recipe| Some(SpecialName::Computed(recipe));
    if is_own(dir, name) {
        Some(SpecialName::Bookkeeping)
    } else if name == README && is_top {
        computed(Recipe::Readme)
    } else if name == IGNORE && is_top {
        computed(Recipe::TopIgnore)
    } else if name == IGNORE && holds_artifacts() {
        computed(Recipe::Ignore)
    } else if name == MANIFEST && in_conversation() {
        computed(Recipe::Manifest(Reader::Server))
    } else if name == MESSAGE_ARRAY && place().is_some_and(|place| place.is_history()) {
        computed(Recipe::Messages)
    } else {
        let (_, searches) = SEARCHES.iter().find(|(known, _)| name == *known)?;
        (in_conversation() || holds_artifacts()).then_some(SpecialName::Searches(*searches))
    }
}

/// The meaning of a name in a directory.
///
/// - `Control`: the directory of pages about the door itself
/// - `Disk`: a file or directory on disk
/// - `Computed`: a computed file of the directory
#[derive(Debug)]
pub enum Resolved<'a> {
    Control,
    Disk(DiskEntry<'a>),
    Computed(Recipe),
    Searches(ViewDir),
    View { of: DiskEntry<'a>, reading: Reading },
    Removed(Box<RemovedContent>),
}

/// A name on disk with its attributes.
#[derive(Debug)]
pub struct DiskEntry<'a> {
    pub name: Cow<'a, OsStr>,
    pub stat: Stat,
}

/// Called with a listed name, its kind, and its inode number if the name is on disk.
pub type MeetName<'a> = dyn FnMut(&OsStr, FileType, Option<u64>) -> io::Result<()> + 'a;

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

    /// Returns the meaning that `name` has in `dir` apart from files of this name, which may hide
    /// it. Returns `None` if it has no other meaning. Asks no other host.
    pub fn special_name(
        &self,
        dir: &dyn SourceDir,
        is_top: bool,
        name: &OsStr,
    ) -> Result<Option<SpecialName>> {
        if let Some(special) = special_name(dir, is_top, name) {
            return Ok(Some(special));
        }
        for (stem, Reading { derived, .. }) in readings(name) {
            match self.stat(dir, stem) {
                Err(EngineError::NotFound) => {}
                Ok(stat) if stat.kind() != FileType::File => return Ok(None),
                of => return of.map(|_| Some(SpecialName::View(derived))),
            }
        }
        Ok(RemovedContent::find(self, dir, name)?.map(SpecialName::Removed))
    }

    /// Returns the attributes of the file, directory or remote artifact `name`. Fails with
    /// [`EngineError::NotFound`] for symbolic links and special files, and for the store's own
    /// files. Fails with [`NameError::TooDeep`] for a directory that is nested deeper than any door
    /// allows.
    pub fn stat(&self, dir: &dyn SourceDir, name: &OsStr) -> Result<Stat> {
        if is_own(dir, name) {
            return Err(EngineError::NotFound);
        }
        let stat = match dir.dir()?.stat(name) {
            Ok(stat) => stat,
            Err(error) if is_absent(&error) => {
                far_stat(self, dir, name)?.ok_or(EngineError::NotFound)?
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

    /// Returns the real names in a directory of artifacts that look like views that it lists.
    pub(crate) fn names_like_listed(&self, dir: &dyn SourceDir) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(dir, false, &mut |name, kind, ino| {
            if ino.is_some() && kind != FileType::Other && is_like_listed(name) {
                names.push(name.to_owned());
            }
            Ok(())
        })?;
        names.sort_unstable();
        Ok(names)
    }

    /// Calls `meet` with the names in `dir` that listings show, with their kinds: computed files,
    /// then names on disk and remote artifacts with their inode numbers, then the conversations
    /// that only other hosts have. Leaves out views, and the store's own files.
    pub fn each_name(
        &self,
        dir: &dyn SourceDir,
        is_top: bool,
        meet: &mut MeetName<'_>,
    ) -> Result<()> {
        let open = dir.dir()?;
        for name in [README, MANIFEST, MESSAGE_ARRAY].map(OsStr::new) {
            // The array exists if the log exists.
            if special_name(dir, is_top, name).is_some()
                && (name != MESSAGE_ARRAY || open.stat(MESSAGES.as_ref()).is_ok())
            {
                meet(name, FileType::File, None)?;
            }
        }
        let place = dir.place();
        let has_own = matches!(place, Ok(DirPlace::Conversation(_)));
        open.each_entry(&mut |name: &OsStr, kind, ino| {
            if has_own && is_bookkeeping(name) { Ok(()) } else { meet(name, kind, Some(ino)) }
        })?;
        match &place {
            Ok(at @ DirPlace::Below(id, path)) if at.holds_artifacts() => {
                let Ok(conversation) = self.conversation(id) else { return Ok(()) };
                let Ok(all) = conversation.each_far(Some(path)) else { return Ok(()) };
                // The first unreadable record ends the list.
                for far in all.map_while(std::result::Result::ok) {
                    meet(far.path.file_name(), FileType::File, Some(far.stat.ino))?;
                }
            }
            Ok(DirPlace::Root) => {
                let others = self.options.other_hosts.as_ref();
                let others = others.map(|others| others.conversations()).unwrap_or_default();
                for id in others.iter().filter(|id| open.stat(id.as_os_str()).is_err()) {
                    meet(id.as_os_str(), FileType::Directory, None)?;
                }
            }
            _ => {}
        }
        Ok(())
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
            let meant = printed_as(name).ok_or_else(|| absent(name))?;
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
    match engine.stat(dir, name) {
        Ok(stat) => return Ok(Resolved::Disk(DiskEntry { name: Cow::Borrowed(name), stat })),
        Err(EngineError::NotFound) => {}
        Err(error) => return Err(error),
    }
    match special_name(dir, is_top, name) {
        Some(SpecialName::Computed(recipe)) => return Ok(Resolved::Computed(recipe)),
        Some(SpecialName::Searches(searches)) => return Ok(Resolved::Searches(searches)),
        _ => {}
    }
    if let Some(view) = view(engine, dir, name)? {
        return Ok(view);
    }
    if let Some(output) = output_of_call(engine, dir, name)? {
        return Ok(Resolved::Disk(output));
    }
    RemovedContent::find(engine, dir, name)?.map(Resolved::Removed).ok_or(EngineError::NotFound)
}

fn view<'a>(engine: &Engine, dir: &dyn SourceDir, name: &'a OsStr) -> Result<Option<Resolved<'a>>> {
    // Views that cost money exist only if they are enabled in the settings.
    let asks_models = engine.options.models.settings().view;
    let is_offered = |reading: &Reading| reading.derived.cost() != RenderCost::Model || asks_models;
    for (stem, reading) in readings(name).filter(|(_, reading)| is_offered(reading)) {
        let of = match engine.stat(dir, stem) {
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

/// Returns true if the error means that the disk has no file of this name. Also returns true if the
/// name is too long for the disk, such as a long query, or a view of a file with a long name.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

/// Returns the error for an unknown name. The error is [`NameError::TooLong`] if no file could have
/// the name.
fn absent(name: &OsStr) -> EngineError {
    match Component::check(name) {
        Err(error @ NameError::TooLong) => error.into(),
        _ => EngineError::NotFound,
    }
}

/// Returns the name whose printed form is `text`, if the name differs from `text`. Names that are
/// not UTF-8, or that look like a printed form, are printed with escapes.
fn printed_as(text: &OsStr) -> Option<Component> {
    let text = text.to_str().filter(|text| text.contains('\\'))?;
    let name = Component::from_text(text).ok()?;
    (name.as_os_str() != text && name.to_text() == text).then_some(name)
}

/// Returns the output of a call and its attributes: `call_1.json` or `call_1.txt` for `call_1`, if
/// ctxfs gave the file that name. If both exist, returns the newer one.
fn output_of_call(
    engine: &Engine,
    dir: &dyn SourceDir,
    call: &OsStr,
) -> Result<Option<DiskEntry<'static>>> {
    let DirPlace::Below(id, path) = dir.place()? else { return Ok(None) };
    if path.as_os_str() != Folder::Tool.path() || is_scratch(call) {
        return Ok(None);
    }
    let moment = |stat: &Stat| -> (Time, Time) { (stat.created(), stat.mtime) };
    let mut newest: Option<DiskEntry<'static>> = None;
    for extension in [".json", ".txt"] {
        let mut name = OsString::from(call);
        name.push(extension);
        if let Some(stat) = output_stat(engine, &id, dir, &name, call)?
            && newest.as_ref().is_none_or(|than| moment(&stat) >= moment(&than.stat))
        {
            newest = Some(DiskEntry { name: Cow::Owned(name), stat });
        }
    }
    Ok(newest)
}

fn output_stat(
    engine: &Engine,
    id: &Component,
    dir: &dyn SourceDir,
    name: &OsStr,
    call: &OsStr,
) -> Result<Option<Stat>> {
    let Ok(component) = Component::new(name) else { return Ok(None) };
    let stat = match engine.stat(dir, name) {
        Err(EngineError::NotFound) => return Ok(None),
        stat => stat?,
    };
    let path = RelPath::artifact(Folder::Tool, &component);
    let is_output =
        stat.kind() == FileType::File && engine.conversation(id)?.is_output_of(&path, call)?;
    Ok(is_output.then_some(stat))
}

/// Returns the attributes of the remote artifact `name` in `dir`. The caller has found no local
/// file of that name. If the file has become local since then, returns the attributes of the local
/// file. A manifest that cannot be read counts as one without remote artifacts.
fn far_stat(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<Stat>> {
    let place = dir.place()?;
    let DirPlace::Below(id, folder) = &place else { return Ok(None) };
    if !place.holds_artifacts() {
        return Ok(None);
    }
    let Ok(path) = RelPath::below(Some(folder), name) else { return Ok(None) };
    let far = engine.conversation(id)?.far(&path);
    let far = far.ok().flatten().map(|far| far.stat);
    let arrived = || engine.options.far.as_ref().and_then(|_| dir.dir().ok()?.stat(name).ok());
    Ok(far.or_else(arrived))
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

/// An output whose content was removed to make room. The `.summary` of the output still exists.
#[derive(Debug)]
pub struct RemovedContent {
    pub conversation: Component,
    /// The path of the output in the conversation.
    pub path: RelPath,
    record: Record,
}

impl RemovedContent {
    fn find(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<Box<Self>>> {
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
        let conversation = engine.conversation(id)?;
        for (file, call) in names_of_stem(stem, folder.as_os_str() == Folder::Tool.path()) {
            let Ok(path) = RelPath::below(Some(folder), &file) else { continue };
            if let Some(record) = conversation.removed(&path)?
                && call.is_none_or(|call| {
                    record.provenance.call.as_ref().is_some_and(|known| call == &**known)
                })
            {
                return Ok(Some(Box::new(Self { conversation: id.clone(), path, record })));
            }
        }
        Ok(None)
    }

    pub fn stays(&self) -> bool {
        self.record.removed.as_ref().is_some_and(|removal| removal.stays)
    }

    pub fn time(&self) -> Time {
        let millis = self.record.removed.as_ref().map_or(0, |removal| removal.at);
        let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
        Time { seconds: millis.div_euclid(1000), nanos }
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

/// Returns the version of the summary of the removed file `name`.
pub(crate) fn removed_version(
    engine: &Engine,
    dir: &dyn SourceDir,
    name: &OsStr,
) -> Result<Version> {
    let DirPlace::Below(id, folder) = dir.place()? else { return Err(EngineError::Stale) };
    let path = RelPath::below(Some(&folder), name)?;
    let position = engine.conversation(&id)?.manifest().position(&path)?;
    let mut hasher = DefaultHasher::new();
    (position, &path, &id).hash(&mut hasher);
    Ok(Version { facts: hasher.finish(), ..Version::default() })
}

pub(crate) fn show_removed(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<ViewText> {
    let DirPlace::Below(id, folder) = dir.place()? else { return Err(EngineError::Stale) };
    let path = RelPath::below(Some(&folder), name)?;
    let mut record = engine.conversation(&id)?.removed(&path)?.ok_or(EngineError::Stale)?;
    let removal = record.removed.take().ok_or(EngineError::Stale)?;
    engine.secrets.mask_provenance(&mut record.provenance);
    let place = engine.options.place(&id, &path);
    Ok(engine.held_text(&ctxfs_view::removed(&record, &removal, &place), Some(id))?)
}

//! Access to the tree by path. A door is an interface to clients, such as the command line. Doors
//! without inodes use this module. The mount has inodes, and looks up one name at a time.
//!
//! A path is followed from the root, name by name. Each name is looked up in an open directory, so
//! no path leads out of the store.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component as PathPart, Path};
use std::sync::Arc;

use crate::source::DoorFile as _;
use crate::{
    Base, Computed, DiskEntry, Engine, EngineError, FileContent, FileId, OpenText, Recipe,
    Resolved, Result, Source, StoredDir, StoredFile, VERSION, Version, messages,
};
use ctxfs_core::model::Content;
use ctxfs_store::{FileType, MESSAGES, Stat};
use ctxfs_view::{Derived, Reading, View, ViewDir};

/// The tree that the engine's options describe, with all conversations or a single one.
///
/// Paths are relative to the root of the tree, such as `c7/artifacts/tool/9f3k.txt.summary`.
#[derive(Debug)]
pub struct Tree {
    pub(crate) engine: Arc<Engine>,
}

/// An open file of the tree. For a computed file, reads are counted when this value is dropped.
#[derive(Debug)]
pub struct OpenedFile(OpenedContent);

/// The content of an open file.
///
/// - `File`: a file on disk, with its length when it was opened. A message log ends with its last
///   whole line.
/// - `Text`: a computed file
#[derive(Debug)]
enum OpenedContent {
    File(FileContent),
    Text(OpenText),
}

enum Position {
    Dir(Arc<StoredDir>),
    File(Source),
    Computed(Arc<Computed>),
    Views { of: Source, base: Option<View>, dir: ViewDir },
    Searches(Arc<StoredDir>, ViewDir),
    Control,
}

impl Tree {
    /// Returns the tree of `engine`. Opens and reads nothing.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Opens the file or view at `path`. A view is computed on this thread.
    pub fn open(&self, path: &Path) -> Result<OpenedFile> {
        match self.open_once(path) {
            // The file was replaced in the meantime. The kernel also retries once in this case.
            Err(error) if error.raw_os_error() == libc::ESTALE => self.open_once(path),
            opened => opened,
        }
    }

    /// Fails unless there is a file on disk at `path`. [`Self::answer`] needs such a file.
    pub fn source_exists(&self, path: &Path) -> Result<()> {
        self.source(path).map(drop)
    }

    pub(crate) fn source(&self, path: &Path) -> Result<Source> {
        match self.walk(path)? {
            Position::File(file) => Ok(file),
            Position::Computed(_) => Err(EngineError::NotFound),
            _ => Err(EngineError::IsADirectory),
        }
    }

    fn walk(&self, path: &Path) -> Result<Position> {
        let only = self.engine.options.only.as_ref();
        let dir = match only {
            Some(id) => self.engine.conversation(id)?.dir().try_clone()?,
            None => self.engine.store.context().try_clone()?,
        };
        let mut at = Position::Dir(Arc::new(StoredDir::top(dir, only)));
        for name in names(path)? {
            at = self.step(at, name)?;
        }
        Ok(at)
    }

    fn open_once(&self, path: &Path) -> Result<OpenedFile> {
        Ok(OpenedFile(match self.walk(path)? {
            Position::File(source) => OpenedContent::File(source.content(&self.engine)?),
            Position::Computed(of) => {
                let text = of.text_here(&self.engine)?;
                OpenedContent::Text(OpenText::new(&self.engine.counting, &of, text))
            }
            Position::Dir(_)
            | Position::Views { .. }
            | Position::Searches(..)
            | Position::Control => return Err(EngineError::IsADirectory),
        }))
    }

    fn step(&self, at: Position, name: &OsStr) -> Result<Position> {
        match at {
            Position::Dir(dir) => {
                let found = self.engine.resolve(&*dir, dir.is_top, name)?;
                self.position_of(&dir, found)
            }
            Position::Views { of, base, dir } => {
                let reading = dir.child(name).and_then(|reading| reading.below(base.as_ref()));
                self.view(of, reading.ok_or(EngineError::NotFound)?)
            }
            Position::Searches(dir, searches) => {
                let recipe = Recipe::search(searches, name).ok_or(EngineError::NotFound)?;
                self.computed_in(&dir, recipe)
            }
            // The only page about the door that exists without a server.
            Position::Control if name == VERSION => {
                let version = Version::default();
                Ok(Position::computed(Recipe::Door(VERSION), Base::Nothing, version))
            }
            Position::Control => Err(EngineError::NotFound),
            Position::File(_) | Position::Computed(_) => Err(EngineError::NotADirectory),
        }
    }

    fn position_of(&self, dir: &Arc<StoredDir>, found: Resolved<'_>) -> Result<Position> {
        match found {
            Resolved::Control => Ok(Position::Control),
            Resolved::Disk(entry) if entry.stat.kind() == FileType::Directory => {
                Ok(Position::Dir(Arc::new(dir.open(&entry.name)?)))
            }
            Resolved::Disk(entry) => Ok(Position::File(self.file(dir, &entry)?)),
            Resolved::Computed(recipe) => self.computed_in(dir, recipe),
            Resolved::Searches(searches) => Ok(Position::Searches(Arc::clone(dir), searches)),
            Resolved::View { of, reading } => self.view(self.file(dir, &of)?, reading),
            Resolved::Removed(removed) => {
                self.computed_in(dir, Recipe::Removed(removed.path.file_name().to_owned()))
            }
        }
    }

    fn file(&self, dir: &Arc<StoredDir>, entry: &DiskEntry<'_>) -> Result<Source> {
        stored_source(&self.engine, dir, (&entry.name, &entry.stat))
    }

    fn view(&self, file: Source, reading: Reading) -> Result<Position> {
        let Reading { base, derived } = reading;
        let view = match derived {
            Derived::Dir(dir) => return Ok(Position::Views { of: file, base, dir }),
            Derived::File(view) => view,
        };
        let version = file.snapshot(&self.engine)?.version(&self.engine)?;
        let recipe = |view: View| Recipe::View(view.shared());
        let Some(base) = base else {
            let (recipe, base) = (recipe(view), Base::File(file));
            let version = version.with(&recipe.version(&self.engine, &base, true)?);
            return Ok(Position::computed(recipe, base, version));
        };
        let base = Arc::new(Computed::unmeasured(recipe(base), Base::File(file), version));
        let (recipe, base) = (recipe(view), Base::Text(base));
        let version = recipe.version(&self.engine, &base, true)?;
        Ok(Position::computed(recipe, base, version))
    }

    fn computed_in(&self, dir: &Arc<StoredDir>, recipe: Recipe) -> Result<Position> {
        let base = Base::Dir(Arc::clone(dir) as _);
        let version = match recipe {
            Recipe::Messages => self.version_of_messages(dir)?,
            _ => recipe.version(&self.engine, &base, true)?,
        };
        Ok(Position::computed(recipe, base, version))
    }

    fn version_of_messages(&self, history: &Arc<StoredDir>) -> Result<Version> {
        let name = OsStr::new(MESSAGES);
        let stat = self.engine.stat(&**history, name)?;
        if stat.kind() != FileType::File {
            return Err(EngineError::IsADirectory);
        }
        let log = StoredFile::new(history, name, &stat);
        let at = log.place().ok_or(EngineError::Stale)?;
        let own = messages::shown(&self.engine, (&at, log.state()), stat, || log.reader())?;
        let published = messages::published(&self.engine, &at, &own)?;
        let size = published.as_ref().map_or(own.size, |front| front.shown_length(own.size));
        Ok(Version::of_messages(&Stat { size, ..own }, published.as_deref()))
    }
}

/// Returns the file `name` in `dir`, which has the attributes `stat`. If a door has the file open
/// for writing, returns the door's own `DoorFile`, which has the state of the writers.
pub(crate) fn stored_source(
    engine: &Engine,
    dir: &Arc<StoredDir>,
    (name, stat): (&OsStr, &Stat),
) -> Result<Source> {
    let live = engine.live.get(FileId::of(stat));
    let file = live.unwrap_or_else(|| Arc::new(StoredFile::new(dir, name, stat)));
    Source::of(engine, file, stat)
}

impl Position {
    fn computed(recipe: Recipe, base: Base, version: Version) -> Self {
        Self::Computed(Arc::new(Computed::unmeasured(recipe, base, version)))
    }
}

/// Splits a path at `/` into names. Does not use `Path::components`, because that normalizes names,
/// and a query may contain anything but `/`.
fn names(path: &Path) -> Result<impl Iterator<Item = &OsStr>> {
    if path.components().any(|part| matches!(part, PathPart::ParentDir | PathPart::RootDir)) {
        return Err(EngineError::NotFound);
    }
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    Ok(parts.filter(|part| !matches!(*part, b"" | b".")).map(OsStr::from_bytes))
}

impl Content for OpenedFile {
    fn len(&self) -> u64 {
        match &self.0 {
            OpenedContent::File(file) => file.len(),
            OpenedContent::Text(open) => open.text.len(),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            OpenedContent::File(file) => file.read_at(offset, buffer),
            OpenedContent::Text(open) => {
                open.note_read(offset.saturating_add(buffer.len() as u64));
                open.text.read_at(offset, buffer)
            }
        }
    }
}

impl OpenedFile {
    /// Returns the length of the notice at the beginning, which may be 0.
    pub(crate) fn notice_length(&self) -> usize {
        match &self.0 {
            OpenedContent::File(_) => 0,
            OpenedContent::Text(open) => open.text.notice_length(),
        }
    }

    /// Returns the first `most` bytes. The read is not counted, because the reader is in this
    /// process.
    pub(crate) fn uncounted(&self, most: usize) -> io::Result<Vec<u8>> {
        match &self.0 {
            OpenedContent::File(file) => file.bytes(0, most),
            OpenedContent::Text(open) => open.text.bytes(0, most),
        }
    }
}

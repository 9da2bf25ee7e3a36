//! The names to which ctxfs gives a special meaning, the names that it hides, and the names of
//! remote artifacts.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};

use crate::{DirPlace, Engine, EngineError, Reader, Recipe, Result, SourceDir};
use ctxfs_core::model::{Component, Folder, NameError, RelPath, is_scratch};
use ctxfs_store::{FileType, HISTORY, MESSAGES, Stat, Time, is_bookkeeping};
use ctxfs_view::ViewDir;

/// The directory in the root whose pages describe the door itself.
pub(crate) const CONTROL: &str = ".ctxfs";
/// The directories of searches. Every conversation and every directory of artifacts has them.
const SEARCHES: [(&str, ViewDir); 2] = [(".grep", ViewDir::Grep), (".find", ViewDir::Find)];
/// The message log as one JSON array, next to the log.
pub const MESSAGE_ARRAY: &str = "messages.json";
/// The guide to the tree, in the root.
pub const README: &str = "README.md";
/// The references of a conversation's artifacts, in the conversation's directory.
pub const MANIFEST: &str = "manifest.json";
/// The file that lists the names that recursive searches skip.
const IGNORE: &str = ".ignore";

/// Returns the text of the page `.ctxfs/version`.
pub fn version_page() -> String {
    format!("{}\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the recipe of the computed file `name` in `dir`, if there is one. `is_top` is true if
/// `dir` is the root that the door shows.
pub fn computed_name(dir: &dyn SourceDir, is_top: bool, name: &OsStr) -> Option<Recipe> {
    let place = || dir.place().ok();
    if name == README && is_top {
        Some(Recipe::Readme)
    } else if name == IGNORE && (is_top || place().is_some_and(|place| place.holds_artifacts())) {
        Some(Recipe::Ignore)
    } else if name == MANIFEST && matches!(place(), Some(DirPlace::Conversation(_))) {
        Some(Recipe::Manifest(Reader::Server))
    } else if name == MESSAGE_ARRAY && is_history(dir) {
        Some(Recipe::Messages)
    } else {
        None
    }
}

/// Returns true if `dir` holds the messages of a conversation.
pub fn is_history(dir: &dyn SourceDir) -> bool {
    let path = |place: &DirPlace| place.path().is_some_and(|path| path.as_os_str() == HISTORY);
    dir.place().is_ok_and(|place| path(&place))
}

/// Returns true if `name` in `dir` is the message log of a conversation.
pub fn is_message_log(dir: &dyn SourceDir, name: &OsStr) -> bool {
    name == MESSAGES && is_history(dir)
}

/// Returns the directory of searches called `name` in `dir`. Only conversations and directories of
/// artifacts have such directories.
pub(crate) fn search_dir(dir: &dyn SourceDir, name: &OsStr) -> Option<ViewDir> {
    let has_them =
        |place: DirPlace| matches!(place, DirPlace::Conversation(_)) || place.holds_artifacts();
    let (_, searches) = SEARCHES.iter().find(|(known, _)| name == *known)?;
    dir.place().is_ok_and(has_them).then_some(*searches)
}

/// Returns true if `name` in `dir` is a directory of searches.
pub fn is_search_dir(dir: &dyn SourceDir, name: &OsStr) -> bool {
    search_dir(dir, name).is_some()
}

/// Returns true if `name` in `dir` is one of the store's own files. No door shows these.
pub fn is_stores(dir: &dyn SourceDir, name: &OsStr) -> bool {
    is_bookkeeping(name) && matches!(dir.place(), Ok(DirPlace::Conversation(_)))
}

/// Returns true if the error means that the disk has no file of this name. This includes a name
/// that is too long for the disk, such as a query or the view of a file with a long name.
pub fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

/// Returns the error for an unknown name. The error is [`NameError::TooLong`] if no file could have
/// the name.
pub(crate) fn absent(name: &OsStr) -> EngineError {
    match Component::check(name) {
        Err(error @ NameError::TooLong) => error.into(),
        _ => EngineError::NotFound,
    }
}

/// Returns the name whose printed form is `text`, if the name differs from `text`. Names that are
/// not UTF-8, or that look like a printed form, are printed with escapes.
pub(crate) fn printed_as(text: &OsStr) -> Option<Component> {
    let text = text.to_str().filter(|text| text.contains('\\'))?;
    let name = Component::from_text(text).ok()?;
    (name.as_os_str() != text && name.to_text() == text).then_some(name)
}

/// Returns the output of a call and its attributes: `call_1.json` or `call_1.txt` for `call_1`, if
/// ctxfs gave the file that name. If both exist, returns the newer one.
pub(crate) fn output_of_call(
    engine: &Engine,
    dir: &dyn SourceDir,
    call: &OsStr,
) -> Result<Option<(OsString, Stat)>> {
    let DirPlace::Below(id, path) = dir.place()? else { return Ok(None) };
    if path.as_os_str() != Folder::Tool.path() || is_scratch(call) {
        return Ok(None);
    }
    let moment = |stat: &Stat| -> (Time, Time) { (stat.created(), stat.mtime) };
    let mut newest: Option<(OsString, Stat)> = None;
    for extension in [".json", ".txt"] {
        let mut name = OsString::from(call);
        name.push(extension);
        if let Some(stat) = output_stat(engine, &id, dir, &name, call)?
            && newest.as_ref().is_none_or(|(_, than)| moment(&stat) >= moment(than))
        {
            newest = Some((name, stat));
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
    let stat = match dir.dir()?.stat(name) {
        Ok(stat) => stat,
        Err(error) if is_absent(&error) => match far_stat(engine, dir, name)? {
            Some(stat) => stat,
            None => return Ok(None),
        },
        Err(error) => return Err(error.into()),
    };
    let path = RelPath::artifact(Folder::Tool, &component);
    let is_output =
        stat.kind() == FileType::File && engine.conversation(id)?.is_output_of(&path, call)?;
    Ok(is_output.then_some(stat))
}

/// Returns the attributes of the remote artifact `name` in `dir`. The caller has found no local
/// file of that name. If the file has become local since then, returns the attributes of the local
/// file. A manifest that cannot be read has no remote artifacts.
pub(crate) fn far_stat(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<Stat>> {
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

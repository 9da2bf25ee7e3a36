//! The manifest of a conversation: the references of its artifacts.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::Result;
use crate::engine::SourceDir;
use crate::engine::Version;
use crate::engine::ViewText;
use crate::engine::listing;
use crate::engine::spool::Spool;
use crate::model::Folder;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::view;
use crate::view::Rendered;

/// Returns the version of the manifest of the directory's conversation: it changes with every
/// record, and with every file that comes or goes.
pub(super) fn version(engine: &Engine, dir: &dyn SourceDir) -> Result<Version> {
    let conversation = conversation_of(engine, dir)?;
    let mut version = Version { facts: conversation.manifest().version()?, ..Version::default() };
    for folder in [Folder::Tool, Folder::Terminal] {
        let path = RelPath::new(folder.path())?;
        if let Ok(stat) = conversation.dir().stat_at(&path) {
            version.changes = version.changes.rotate_left(7) ^ stat.mtime.as_nanos() as u64;
        }
    }
    Ok(version)
}

/// Computes the references of all artifacts that are on disk, oldest first.
pub(super) fn show_manifest(engine: &Engine, dir: &dyn SourceDir) -> Result<ViewText> {
    let conversation = conversation_of(engine, dir)?;
    let mut records = records(&conversation)?;
    records.sort_by(|a, b| (a.created, &a.path).cmp(&(b.created, &b.path)));
    let mut with_places = records.into_iter().filter_map(|record| {
        let path = RelPath::from_text(&record.path).ok()?;
        let place = engine.options.place(conversation.id(), &path);
        Some((record, place))
    });
    let room = |length| engine.space.check_text(engine, length);
    let spool = Spool::new(&engine.cache, &room);
    view::manifest(&mut with_places, &mut &spool)?;
    Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
}

/// Returns the conversation of a directory.
pub(super) fn conversation_of(engine: &Engine, dir: &dyn SourceDir) -> Result<Arc<Conversation>> {
    let place = dir.place()?;
    engine.conversation(place.conversation().ok_or(EngineError::Stale)?)
}

fn records(conversation: &Conversation) -> Result<Vec<Record>> {
    let present = listing::present(conversation)?.into_iter();
    let records = present.map(|(path, stat)| {
        let record = conversation.record(&path)?;
        let record = record.unwrap_or_else(|| Conversation::fresh_record(&path, &stat));
        Ok(Record { size: stat.size, ..record })
    });
    records.collect()
}

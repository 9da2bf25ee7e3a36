//! A look at one file by a person: windows over its bytes and lines, and its views, masked as views
//! are. Nothing of it is counted as read, as no model sees it, and nothing is written.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::line_index::{Counted, LineIndex};
use crate::line_window::LineWindow;
use crate::open_file::FileContent;
use crate::workers::QUICK_INPUT;
use crate::{
    Engine, EngineError, FileId, Result, Snapshot, SourceFile, Tree, analysis, line_window, search,
    show,
};
use ctxfs_core::model::{Analysis, ArtifactState, Component, Content, Place, Record, RelPath};
use ctxfs_view::{CorpusQuery, Derived, JsonMembers, JsonNode, View, ViewDir, json_members};

/// Bytes around which a line is looked for whose place an analysis knows nearly.
const NEAR: u64 = 16 << 20;

/// A file at one moment, for a person who looks at it.
pub struct Look {
    engine: Arc<Engine>,
    file: Arc<dyn SourceFile>,
    snapshot: Snapshot,
    index: Arc<LineIndex>,
}

/// All that is known of a file, with secrets masked.
#[derive(Debug, Clone)]
pub struct LookFacts {
    /// Its record; without one, what the disk says.
    pub record: Record,
    /// Its analysis, if the record has it, or it was made now.
    pub analysis: Option<Arc<Analysis>>,
    /// Its place, as readers name it.
    pub place: Place,
    /// Its bytes.
    pub size: u64,
    /// Its last change, in milliseconds since the epoch.
    pub modified: i64,
    /// True if it is the log of a terminal.
    pub is_log: bool,
}

/// The text of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookText {
    /// Its first lines, each of which begins with `# `, or nothing.
    pub notice: String,
    /// The rest.
    pub text: Vec<u8>,
    /// False if it was cut short by time.
    pub whole: bool,
    /// The path before the names of searches, as a notice that says how to go on has it.
    pub searches: String,
}

impl Engine {
    /// Looks at the file at `path` of the conversation `id`, as it is now. What this door does not
    /// show is [`EngineError::NotFound`].
    pub fn look(self: &Arc<Self>, id: &Component, path: &RelPath) -> Result<Look> {
        let in_tree = match &self.options.only {
            Some(only) if only != id => return Err(EngineError::NotFound),
            Some(_) => PathBuf::from(path.as_os_str()),
            None => PathBuf::from(id.as_os_str()).join(path.as_os_str()),
        };
        let file = Tree::new(Arc::clone(self)).source(&in_tree)?;
        let snapshot = file.snapshot(self)?;
        let index = self.line_indexes.get(&FileId::of(&snapshot.stat)).unwrap_or_default();
        self.line_indexes.insert(FileId::of(&snapshot.stat), Arc::clone(&index));
        let look = Look { engine: Arc::clone(self), file, snapshot, index };
        look.index.meet(&look.snapshot.stat, &look.raw())?;
        Ok(look)
    }

    /// Searches all artifacts of the conversation `id` until `expired`. `name` is that of a search
    /// in its `.grep/`.
    pub fn look_for(
        &self,
        id: &Component,
        name: &OsStr,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<LookText> {
        if self.options.only.as_ref().is_some_and(|only| only != id) {
            return Err(EngineError::NotFound);
        }
        let query = CorpusQuery::named(ViewDir::Grep, name).ok_or(EngineError::NotFound)?;
        let (text, rendered, searches) = search::search_here(self, id, &query, expired)?;
        let notice = rendered.notice.unwrap_or_default();
        Ok(LookText { notice, text, whole: rendered.whole, searches })
    }
}

impl Look {
    /// Returns its bytes.
    pub fn size(&self) -> u64 {
        self.snapshot.length
    }

    /// Returns its path in the conversation.
    pub fn path(&self) -> &str {
        self.snapshot.place.path()
    }

    /// Returns true if somebody writes it.
    pub fn is_live(&self) -> bool {
        self.snapshot.is_written || self.snapshot.record.state == ArtifactState::Live
    }

    /// Returns all that is known of it. A small file is analysed now.
    pub fn facts(&self) -> Result<LookFacts> {
        self.facts_and(self.size() <= QUICK_INPUT)
    }

    /// Returns what is known of it without reading it.
    pub fn known_facts(&self) -> Result<LookFacts> {
        self.facts_and(false)
    }

    fn facts_and(&self, analyse: bool) -> Result<LookFacts> {
        let Snapshot { file, stat, record, place, length, .. } = &self.snapshot;
        let bytes = file.as_ref();
        let mut record = record.clone();
        record.provenance.update(&file.provenance().unwrap_or_default());
        let mut analysis = match analysis::known(&self.engine, &*self.file, bytes, &record)? {
            None if analyse => {
                let found = self.engine.analysis(&*self.file, bytes, Some(&record), &|| false)?;
                Some(found.analysis)
            }
            known => known,
        };
        let mut found = analysis.clone().unwrap_or_else(|| Arc::new(analysis::nothing()));
        self.engine.secrets.mask_facts(&mut record, &mut found);
        analysis = analysis.map(|_| found);
        Ok(LookFacts {
            record,
            analysis,
            place: place.clone(),
            size: *length,
            modified: stat.mtime.as_millis(),
            is_log: self.file.is_log(),
        })
    }

    /// Returns up to `most` of its bytes from `offset` on, with secrets masked.
    pub fn bytes(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        self.masked(|content| content.bytes(offset, most))
    }

    /// Returns the rows from the one that begins at `offset` on.
    pub fn rows_from(&self, offset: u64) -> io::Result<LineWindow> {
        self.masked(|content| line_window::forward(content, offset))
    }

    /// Returns the last rows before `offset`, where a row begins or the file ends.
    pub fn rows_before(&self, offset: u64) -> io::Result<LineWindow> {
        self.masked(|content| line_window::backward(content, offset))
    }

    /// Returns the beginning of the row that shows the byte at `offset`.
    pub fn row_start(&self, offset: u64) -> io::Result<u64> {
        line_window::row_start(&self.raw(), offset)
    }

    /// Returns how far its lines are counted.
    pub fn counted(&self) -> Counted {
        self.index.counted()
    }

    /// Returns true if all its lines are counted.
    pub fn is_counted(&self) -> bool {
        self.counted().bytes >= self.size()
    }

    /// Counts its lines on until all are counted or `expired`.
    pub fn count_on(&self, expired: &dyn Fn() -> bool) -> io::Result<Counted> {
        let raw = self.raw();
        loop {
            let before = self.counted();
            if before.bytes >= raw.len() || expired() {
                return Ok(before);
            }
            if self.index.step(&raw)? == before {
                return Ok(before);
            }
        }
    }

    /// Returns the offset of `line`, from 1, if the lines before it are counted. One past the last
    /// line has the offset of the end.
    pub fn line_offset(&self, line: u64) -> io::Result<Option<u64>> {
        self.index.offset_of(&self.raw(), line)
    }

    /// Returns the offset of `line` by what an analysis says of a line shortly before it, which
    /// needs no counting. The text of a terminal's log has other offsets than its bytes.
    pub fn line_offset_by(&self, analysis: &Analysis, line: u64) -> io::Result<Option<u64>> {
        if analysis.plain.is_some() || analysis.bytes != self.size() {
            return Ok(None);
        }
        let errors = analysis.errors.shown.iter().map(|error| (error.line, error.offset));
        let sections = analysis.sections.shown.iter().map(|part| (part.line, part.offset));
        let before = errors.chain(sections).filter(|(known, _)| *known <= line).max();
        let Some((known, offset)) = before else { return Ok(None) };
        let raw = self.raw();
        let (mut at, mut missing) = (line_window::row_start(&raw, offset)?, line - known);
        while missing > 0 && at < offset.saturating_add(NEAR) {
            let block = raw.bytes(at, 1 << 20)?;
            let Some(found) = memchr::memchr(b'\n', &block) else { break };
            at += found as u64 + 1;
            missing -= 1;
        }
        Ok((missing == 0).then_some(at))
    }

    /// Returns the number of the line that the byte at `offset` is in, if what is before it is
    /// counted.
    pub fn line_at(&self, offset: u64) -> io::Result<Option<u64>> {
        self.index.line_at(&self.raw(), offset)
    }

    /// Writes a view that needs no more than memory, until `expired`.
    pub fn view(&self, view: &View, expired: &dyn Fn() -> bool) -> Result<LookText> {
        let (text, rendered) = show::render_here(&self.engine, &*self.file, view, expired)?;
        let notice = rendered.notice.unwrap_or_default();
        let searches = self.snapshot.place.file() + ".grep/";
        Ok(LookText { notice, text, whole: rendered.whole, searches })
    }

    /// Analyses it until `expired`, if it is the log of a terminal, whose text is found by that.
    pub fn prepare(&self, expired: &dyn Fn() -> bool) -> Result<()> {
        if self.file.is_log() {
            let Snapshot { file, record, .. } = &self.snapshot;
            self.engine.analysis(&*self.file, file.as_ref(), Some(record), expired)?;
        }
        Ok(())
    }

    /// Searches it until `expired`. `name` is that of a search in its `.grep/`.
    pub fn search(&self, name: &OsStr, expired: &dyn Fn() -> bool) -> Result<LookText> {
        let reading = ViewDir::Grep.child(name).ok_or(EngineError::NotFound)?;
        match (reading.base, reading.derived) {
            (None, Derived::File(view)) => self.view(&view, expired),
            _ => Err(EngineError::NotFound),
        }
    }

    /// Returns some members of a value of JSON.
    pub fn json(&self, node: &JsonNode, expired: &dyn Fn() -> bool) -> io::Result<JsonMembers> {
        self.masked(|content| json_members(content, node, expired))
    }

    fn masked<T>(&self, read: impl FnOnce(&dyn Content) -> T) -> T {
        let raw = self.raw();
        let masked = self.engine.secrets.masked(&raw);
        read(masked.as_ref().map_or(&raw, |masked| masked as &dyn Content))
    }

    fn raw(&self) -> FileContent {
        self.snapshot.file.content(self.snapshot.length)
    }
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Look").field("place", &self.snapshot.place).finish_non_exhaustive()
    }
}

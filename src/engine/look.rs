//! Access to one file for a person: windows over its bytes and lines, and its views, with secrets
//! masked as in views. No model sees the result, so reads are not counted. Nothing is written.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::lines::{self, LineIndex};
use crate::{
    Engine, EngineError, FileContent, FileId, LineCount, LineWindow, QUICK_INPUT, Result, Snapshot,
    Source, Tree, search, show,
};
use ctxfs_core::materialize::{Analyzer, PlainText, error_lines, strip_escapes};
use ctxfs_core::model::{Analysis, ArtifactState, Component, Content, Place, Record, RelPath};
use ctxfs_view::{CorpusQuery, Derived, JsonMembers, JsonNode, View, ViewDir, json_members};

/// Maximum distance in bytes from a line with a known offset to the line that is looked up.
const NEAR: u64 = 16 << 20;
/// Number of bytes in which every error line is found.
const ERROR_TEXT: usize = 16 << 20;

/// A file at one moment, opened for a person.
///
/// Lines, rows and their offsets refer to the bytes, or to their text if these are decoded or end
/// lines in another way. For the log of a terminal, they refer to the log. A method that
/// takes `expired` stops once `expired` returns true, and returns the result so far.
pub struct Look {
    engine: Arc<Engine>,
    source: Source,
    snapshot: Snapshot,
    index: Arc<LineIndex>,
    text: Box<dyn Content>,
}

/// Facts about a file, with secrets masked.
///
/// - `record`: the record. If the manifest has none, it is derived from the file on disk.
/// - `place`: the place, as seen by readers
/// - `modified`: the last change, in milliseconds since the epoch
#[derive(Debug, Clone)]
pub struct LookFacts {
    pub record: Record,
    pub analysis: Option<Arc<Analysis>>,
    pub place: Place,
    pub size: u64,
    pub modified: i64,
    pub is_log: bool,
}

/// The text of a view.
///
/// - `notice`: the leading lines that begin with `# `. May be empty.
/// - `whole`: false if time ran out before the text was complete
/// - `searches`: the path that precedes the names of searches. The notice uses it to show how to
///   continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookText {
    pub notice: String,
    pub text: Vec<u8>,
    pub whole: bool,
    pub searches: String,
}

/// Searches all artifacts of the conversation `id` until `expired` returns true. `name` is the name
/// of a search in the conversation's `.grep/`.
pub fn search_conversation(
    engine: &Engine,
    id: &Component,
    name: &OsStr,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<LookText> {
    if engine.options.only.as_ref().is_some_and(|only| only != id) {
        return Err(EngineError::NotFound);
    }
    let query = CorpusQuery::named(ViewDir::Grep, name).ok_or(EngineError::NotFound)?;
    let (text, rendered, searches) = search::search_here(engine, id, &query, expired)?;
    let notice = rendered.notice.unwrap_or_default();
    Ok(LookText { notice, text, whole: rendered.whole, searches })
}

impl Look {
    /// Opens the file at `path` of the conversation `id` in its current state. Fails with
    /// [`EngineError::NotFound`] if this door does not show the file.
    pub fn at(engine: &Arc<Engine>, id: &Component, path: &RelPath) -> Result<Self> {
        let in_tree = match &engine.options.only {
            Some(only) if only != id => return Err(EngineError::NotFound),
            Some(_) => PathBuf::from(path.as_os_str()),
            None => PathBuf::from(id.as_os_str()).join(path.as_os_str()),
        };
        let source = Tree::new(Arc::clone(engine)).source(&in_tree)?;
        let snapshot = source.snapshot(engine)?;
        let index = engine.line_indexes.get(&FileId::of(&snapshot.stat)).unwrap_or_default();
        engine.line_indexes.insert(FileId::of(&snapshot.stat), Arc::clone(&index));
        let text = text_of(&snapshot)?;
        index.meet(&snapshot.stat, &*text)?;
        Ok(Self { engine: Arc::clone(engine), source, snapshot, index, text })
    }

    /// Returns the length of what lines and rows are taken from.
    pub fn text_size(&self) -> u64 {
        self.text().len()
    }

    pub fn size(&self) -> u64 {
        self.snapshot.length
    }

    pub fn path(&self) -> &str {
        self.snapshot.place.path()
    }

    /// Returns true if the file has a writer.
    pub fn is_live(&self) -> bool {
        self.snapshot.is_written || self.snapshot.record.state == ArtifactState::Live
    }

    /// Returns all facts about the file. Analyses a small file if necessary and if `may_analyse` is
    /// true. Otherwise reads nothing.
    pub fn facts(&self, may_analyse: bool) -> Result<LookFacts> {
        let analyse = may_analyse && self.size() <= QUICK_INPUT;
        let Snapshot { file, stat, record, place, length, .. } = &self.snapshot;
        let mut record = record.clone();
        record.provenance.update(&file.provenance().unwrap_or_default());
        let mut analysis = match self.snapshot.known_analysis(&self.engine)? {
            None if analyse => Some(self.snapshot.analysis(&self.engine, &|| false)?.analysis),
            known => known,
        };
        let mut found = analysis.clone().unwrap_or_else(|| Arc::new(Analyzer::new().finish()));
        self.engine.secrets.mask_facts(&mut record, &mut found);
        analysis = analysis.map(|_| found);
        Ok(LookFacts {
            record,
            analysis,
            place: place.clone(),
            size: *length,
            modified: stat.mtime.as_millis(),
            is_log: self.snapshot.at.1.is_terminal(),
        })
    }

    pub fn bytes(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        self.masked(&self.raw(), |content| content.bytes(offset, most))
    }

    /// Returns the rows starting at `offset`, which must be the start of a row.
    pub fn rows_from(&self, offset: u64) -> io::Result<LineWindow> {
        self.masked(self.text(), |content| lines::forward(content, offset))
    }

    /// Returns the last rows before `offset`, which must be the start of a row or the file's end.
    pub fn rows_before(&self, offset: u64) -> io::Result<LineWindow> {
        self.masked(self.text(), |content| lines::backward(content, offset))
    }

    pub fn row_start(&self, offset: u64) -> io::Result<u64> {
        lines::row_start(self.text(), offset)
    }

    /// Returns the part of the file whose lines are counted.
    pub fn counted(&self) -> LineCount {
        self.index.counted()
    }

    pub fn is_counted(&self) -> bool {
        self.counted().bytes >= self.text_size()
    }

    /// Counts lines until all are counted or `expired` returns true.
    pub fn count_on(&self, expired: &dyn Fn() -> bool) -> io::Result<LineCount> {
        loop {
            let before = self.counted();
            if self.is_counted() || expired() || self.index.step(self.text())? == before {
                return Ok(before);
            }
        }
    }

    /// Returns the offset of `line`, counted from 1. `None` if the lines before it are not counted
    /// yet. The line after the last line has the offset of the end.
    pub fn line_offset(&self, line: u64) -> io::Result<Option<u64>> {
        self.index.offset_of(self.text(), line)
    }

    /// Returns the offset of `line` without counting lines. `None` if the analysis does not cover
    /// the whole file, or has no offset of a line shortly before `line`. Also `None` for the log of
    /// a terminal, because the offsets in its analysis refer to the text without escape sequences.
    pub fn line_offset_by(&self, analysis: &Analysis, line: u64) -> io::Result<Option<u64>> {
        if analysis.plain.is_some() || analysis.bytes != self.size() {
            return Ok(None);
        }
        let errors = analysis.errors.shown.iter().map(|error| (error.line, error.offset));
        let sections = analysis.sections.shown.iter().map(|part| (part.line, part.offset));
        let before = errors.chain(sections).filter(|(known, _)| *known <= line).max();
        let Some((known, offset)) = before else { return Ok(None) };
        let raw = self.raw();
        let (mut at, mut missing) = (lines::row_start(&raw, offset)?, line - known);
        while missing > 0 && at < offset.saturating_add(NEAR) {
            let block = raw.bytes(at, 1 << 20)?;
            let Some(found) = memchr::memchr(b'\n', &block) else { break };
            at += found as u64 + 1;
            missing -= 1;
        }
        Ok((missing == 0).then_some(at))
    }

    /// Returns the number of the line that contains the byte at `offset`. `None` if the bytes
    /// before it are not counted yet.
    pub fn line_at(&self, offset: u64) -> io::Result<Option<u64>> {
        self.index.line_at(self.text(), offset)
    }

    /// Returns the numbers of the lines that look like errors among the first 16 MiB, in order.
    pub fn error_lines(&self, expired: &dyn Fn() -> bool) -> Result<Vec<u64>> {
        let mut text = self.masked(self.text(), |content| content.bytes(0, ERROR_TEXT))?;
        if self.snapshot.reading()?.is_some_and(|reading| reading.strips) {
            text = strip_escapes(&text);
        }
        let lines = text.split(|byte| *byte == b'\n').take_while(|_| !expired());
        Ok(error_lines(lines).iter().map(|found| found.index as u64 + 1).collect())
    }

    /// Renders a view into memory.
    pub fn view(&self, view: &View, expired: &dyn Fn() -> bool) -> Result<LookText> {
        let (text, rendered) = show::render_here(&self.engine, &self.source, view, expired)?;
        let notice = rendered.notice.unwrap_or_default();
        let searches = self.snapshot.place.of_view(".grep/").file();
        Ok(LookText { notice, text, whole: rendered.whole, searches })
    }

    /// Analyses the log of a terminal, so that its text can be shown. Does nothing for other files.
    pub fn prepare(&self, expired: &dyn Fn() -> bool) -> Result<()> {
        if self.snapshot.at.1.is_terminal() {
            self.snapshot.analysis(&self.engine, expired)?;
        }
        Ok(())
    }

    /// Searches the file. `name` is the name of a search in the file's `.grep/`.
    pub fn search(&self, name: &OsStr, expired: &dyn Fn() -> bool) -> Result<LookText> {
        let reading = ViewDir::Grep.child(name).ok_or(EngineError::NotFound)?;
        match (reading.base, reading.derived) {
            (None, Derived::File(view)) => self.view(&view, expired),
            _ => Err(EngineError::NotFound),
        }
    }

    pub fn json(&self, node: &JsonNode, expired: &dyn Fn() -> bool) -> io::Result<JsonMembers> {
        self.masked(self.text(), |content| json_members(content, node, expired))
    }

    fn text(&self) -> &dyn Content {
        &*self.text
    }

    fn masked<T>(&self, content: &dyn Content, read: impl FnOnce(&dyn Content) -> T) -> T {
        let masked = self.engine.secrets.masked(content);
        read(masked.as_ref().map_or(content, |masked| masked as &dyn Content))
    }

    fn raw(&self) -> FileContent {
        self.snapshot.file.content(self.snapshot.length)
    }
}

fn text_of(snapshot: &Snapshot) -> Result<Box<dyn Content>> {
    let raw = snapshot.file.content(snapshot.length);
    let reading = snapshot.reading()?.filter(|reading| !reading.strips).unwrap_or_default();
    if reading.is_plain() {
        return Ok(Box::new(raw));
    }
    Ok(Box::new(PlainText::whole(raw, reading)?))
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Look").field("place", &self.snapshot.place).finish_non_exhaustive()
    }
}

//! Writes an artifact without a mount, and names it after its call.

use std::fs::File;
use std::io::{self, Write};
use std::slice;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::{
    AnalysedFile, Artifact, Conversation, Dir, ManifestLock, Stat, StoreError, attributes,
    conversation, if_there, layout, stat_file, this_process,
};
use ctxfs_core::materialize::{Analyzer, analyze, analyze_log};
use ctxfs_core::model::{
    Analysis, ArtifactState, Component, Content as _, Folder, Json, Provenance, Record, RelPath,
    Since, is_scratch,
};

const BEFORE: u64 = 4096;
const DROPPED: &str = "its writer stopped before it was closed";
const APPENDING: OFlags = OFlags::WRONLY.union(OFlags::APPEND);
/// The search for the outputs of a call ends after this many numbers without an output. Missing
/// numbers belong to outputs that are being written or were removed.
const GAP: u32 = 16;

/// A writer that streams an artifact to its plain file and analyses it at the same time.
///
/// When `write` returns, the bytes are in the file under a name that readers see. The record has
/// the state live. `seal` completes the artifact. A writer that is dropped leaves an incomplete
/// artifact. A writer whose process is killed leaves a live artifact, which `Conversation::recover`
/// handles.
///
/// A writer never replaces an existing output. Model servers reuse the ids of calls, so an output
/// with the same id may belong to another call.
#[derive(Debug)]
pub struct ArtifactWriter {
    conversation: Arc<Conversation>,
    dir: Dir,
    content: AnalysedFile,
    path: RelPath,
    naming: Option<CallNaming>,
    record: Record,
    /// The analysis, once it is complete.
    found: Option<Analysis>,
    /// True as long as all bytes of the file were written through `content`, so that its analysis
    /// covers the file. If false, the whole file is analysed when it is closed.
    is_analysed: bool,
    closed: bool,
}

/// A completed artifact. `is_new` is false if the call already had an artifact with the same bytes,
/// and `record` is then the record of that artifact.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "described above")]
pub struct Completed {
    pub record: Record,
    pub is_new: bool,
}

impl ArtifactWriter {
    /// Begins the artifact `name`. Fails with `StoreError::Exists` if a file with that name exists.
    pub fn create(
        conversation: &Arc<Conversation>,
        folder: Folder,
        name: &Component,
        provenance: Provenance,
    ) -> Result<Self, StoreError> {
        let path = RelPath::artifact(folder, name);
        let dir = conversation::open_folder(conversation.dir(), folder);
        let opened = dir.and_then(|dir| Ok((create_new(&dir, name)?, dir)));
        let (file, dir) = opened.map_err(|error| fault(conversation, &path, error))?;
        Self::begin(conversation, dir, (file, path, None), provenance, analyzer(folder))
    }

    /// Begins an artifact of a call, named after the call.
    ///
    /// In the folder of tools, the name is `<call>.txt`. If the content is one JSON value or JSON
    /// Lines, `seal` renames the file to `<call>.json`. An output therefore has a name while it is
    /// written, and an output that a crash cuts off is treated as text. In the folder of logs, the
    /// name is `<call>.log`.
    ///
    /// If the call already has an artifact, the new one is named `<call>-2`, and so on. If a call
    /// id cannot be a name, a digest of it is used (see `call_stem`). `Provenance::call` then
    /// stores the id itself.
    pub fn create_for_call(
        conversation: &Arc<Conversation>,
        folder: Folder,
        call: &str,
        mut provenance: Provenance,
    ) -> Result<Self, StoreError> {
        provenance.call.get_or_insert_with(|| call.to_owned());
        let naming = CallNaming::first(call, folder);
        let path = RelPath::artifact(folder, &naming.name());
        let dir = conversation::open_folder(conversation.dir(), folder);
        let dir = dir.map_err(|error| fault(conversation, &path, error))?;
        let (file, path, naming) = create_next(conversation, &dir, &naming)?;
        Self::begin(conversation, dir, (file, path, Some(naming)), provenance, analyzer(folder))
    }

    /// Continues the artifact `name`, and adds the facts in `newer`. A writer in another process
    /// began the artifact and will [leave](Self::leave) it. From now on, this process owns the
    /// artifact.
    pub fn take_over(
        conversation: &Arc<Conversation>,
        folder: Folder,
        name: &Component,
        newer: &Provenance,
    ) -> Result<Self, StoreError> {
        let path = RelPath::artifact(folder, name);
        let opened = conversation::open_folder(conversation.dir(), folder)
            .and_then(|dir| Ok((dir.open_file(path.file_name(), APPENDING)?, dir)));
        let (file, dir) = opened.map_err(|error| fault(conversation, &path, error))?;
        let stat = stat_file(&file).map_err(|error| fault(conversation, &path, error))?;
        let lock = conversation.manifest().lock()?;
        let mut record = conversation.record_for(&path, &stat)?;
        record.provenance.update(newer);
        let record = Record { state: ArtifactState::Live, owner: this_process(), ..record };
        lock.append(slice::from_ref(&record))?;
        let content = AnalysedFile { file, analyzer: analyzer(folder) };
        let (conversation, naming) = (Arc::clone(conversation), None);
        let is_analysed = false;
        Ok(Self {
            conversation,
            dir,
            content,
            path,
            naming,
            record,
            found: None,
            is_analysed,
            closed: false,
        })
    }

    fn begin(
        conversation: &Arc<Conversation>,
        dir: Dir,
        (file, path, naming): (File, RelPath, Option<CallNaming>),
        provenance: Provenance,
        analyzer: Analyzer,
    ) -> Result<Self, StoreError> {
        let fault = |error| fault(conversation, &path, error);
        attributes::set_provenance(&file, &provenance).map_err(fault)?;
        let stat = stat_file(&file).map_err(fault)?;
        let lock = conversation.manifest().lock()?;
        let earlier = conversation.record(&path)?.map_or(0, |record| record.generation);
        let record = Record {
            generation: earlier + 1,
            state: ArtifactState::Live,
            owner: this_process(),
            provenance,
            ..Conversation::fresh_record(&path, &stat)
        };
        lock.append(slice::from_ref(&record))?;
        let content = AnalysedFile { file, analyzer };
        let conversation = Arc::clone(conversation);
        let is_analysed = true;
        Ok(Self {
            conversation,
            dir,
            content,
            path,
            naming,
            record,
            found: None,
            is_analysed,
            closed: false,
        })
    }

    /// Makes the artifact write-once: its content cannot be changed after it is sealed.
    #[must_use]
    pub fn write_once(mut self) -> Self {
        self.record.once = true;
        self
    }

    /// Returns the path in the conversation. `seal` may still change it; see `create_for_call`.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns the number of bytes written so far, by all processes that have owned the artifact.
    pub fn written(&self) -> u64 {
        if self.is_analysed {
            return self.content.analyzer.seen();
        }
        stat_file(&self.content.file).map_or(0, |stat| stat.size)
    }

    /// Returns up to 4 KiB before the offset `end`, and the offset of the first returned byte.
    pub fn bytes_before(&self, end: u64) -> io::Result<(u64, Vec<u8>)> {
        let start = end.saturating_sub(BEFORE);
        let mut bytes = vec![0; (end - start) as usize];
        let count =
            Artifact::open(self.conversation.dir(), &self.path)?.read_at(start, &mut bytes)?;
        bytes.truncate(count);
        Ok((start, bytes))
    }

    /// Replaces everything after the first `length` bytes with `end`. Fails and changes nothing if
    /// another process has written to the artifact.
    pub fn replace_end(&mut self, length: u64, end: &[u8]) -> io::Result<()> {
        let mut file = &self.content.file;
        if stat_file(file)?.size != self.written() {
            return Err(io::Error::other("another process writes to the artifact"));
        }
        self.is_analysed = false;
        file.set_len(length)?;
        file.write_all(end)
    }

    /// Returns the description of the call. The caller can add facts that become known later, such
    /// as an exit code. The description is recorded when the artifact is sealed.
    pub fn provenance(&mut self) -> &mut Provenance {
        &mut self.record.provenance
    }

    /// Adds the comparison with the last run of the command to the record. `since` makes it from the
    /// record and the analysis. No byte may be written afterwards.
    pub fn note_since(&mut self, since: impl FnOnce(&Record, &Analysis) -> Option<Since>) {
        if self.record.provenance.run.is_some() {
            self.found = self.analysis();
            self.record.since = self.found.as_ref().and_then(|found| since(&self.record, found));
        }
    }

    /// Completes the artifact: syncs, analyses and records it. If the call already has a complete
    /// artifact with the same bytes, removes the new one and returns the existing one.
    pub fn seal(mut self) -> Result<Completed, StoreError> {
        self.close(ArtifactState::Sealed)
    }

    /// Closes the artifact as incomplete for the reason `why`. If the call already has an artifact
    /// with the same bytes that is incomplete for the same reason, removes the new one and returns
    /// the existing one.
    pub fn seal_incomplete(mut self, why: &str) -> Result<Completed, StoreError> {
        self.close(ArtifactState::Incomplete(why.to_owned()))
    }

    /// Ends this writer without closing the artifact, because another process has taken it over.
    /// Returns the path of the artifact.
    pub fn leave(mut self) -> RelPath {
        self.closed = true;
        self.path.clone()
    }

    /// Removes the artifact and its record, as if the artifact had never existed.
    pub fn discard(mut self) -> Result<(), StoreError> {
        let conversation = Arc::clone(&self.conversation);
        self.remove(&conversation.manifest().lock()?)
    }

    fn close(&mut self, state: ArtifactState) -> Result<Completed, StoreError> {
        let analysis = self.found.take().or_else(|| self.analysis());
        let file = &self.content.file;
        let synced = attributes::set_provenance(file, &self.record.provenance)
            .and_then(|()| file.sync_all());
        synced.map_err(|error| self.fault(error))?;
        self.record.state = state;
        self.record.owner = None;
        let completed = self.complete(analysis)?;
        self.conversation.manifest().compact_if_wasteful();
        self.dir.sync().map_err(|error| self.fault(error))?;
        Ok(completed)
    }

    /// Returns the analysis of the whole file, or `None` if the file cannot be read. The next
    /// reader then analyses it.
    fn analysis(&self) -> Option<Analysis> {
        if self.is_analysed {
            return Some(self.content.analyzer.finish());
        }
        let content = Artifact::open(self.conversation.dir(), &self.path).ok()?;
        let analyze = if self.path.is_terminal() { analyze_log } else { analyze };
        analyze(&content).ok()
    }

    /// Gives the file its final name and records it. If the call already has the same output,
    /// removes the file instead.
    fn complete(&mut self, analysis: Option<Analysis>) -> Result<Completed, StoreError> {
        let is_json = analysis.as_ref().is_some_and(|found| is_json(&found.json));
        let lock = self.conversation.manifest().lock()?;
        let record = self.measure(analysis)?;
        if let Some(same) = self.same_output(&record)? {
            self.remove(&lock)?;
            return Ok(Completed { record: same, is_new: false });
        }
        let gone = self.gone();
        self.record = record;
        let renamed = is_json && self.rename_to_json()?;
        self.record.file = Some(self.stat()?.local_file());
        let records = [gone, self.record.clone()];
        lock.append(if renamed { &records } else { &records[1..] })?;
        self.closed = true;
        Ok(Completed { record: self.record.clone(), is_new: true })
    }

    fn remove(&mut self, lock: &ManifestLock) -> Result<(), StoreError> {
        lock.append(slice::from_ref(&self.gone()))?;
        self.closed = true;
        self.dir.unlink(self.path.file_name()).map_err(|error| self.fault(error))
    }

    fn gone(&self) -> Record {
        Record { state: ArtifactState::Gone, ..self.record.clone() }
    }

    /// Renames the file to its name for JSON. Returns false and leaves the file unchanged if there
    /// is no such name, or if another file has that name.
    fn rename_to_json(&mut self) -> Result<bool, StoreError> {
        let Some((naming, name)) = self.naming.as_ref().and_then(|n| Some((n, n.json()?))) else {
            return Ok(false);
        };
        let goal = RelPath::artifact(naming.folder(), &name);
        let (from, to) = (self.path.file_name(), goal.file_name());
        match self.dir.rename_to_free(from, &self.dir, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            renamed => renamed.map_err(|error| self.fault(error))?,
        }
        self.record.path = goal.to_text();
        self.path = goal;
        Ok(true)
    }

    /// Returns the record with the current size and time. Leaves out the analysis if it does not
    /// cover the whole file because another process wrote to the file too.
    fn measure(&self, analysis: Option<Analysis>) -> Result<Record, StoreError> {
        let stat = self.stat()?;
        Ok(Record {
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            analysis: analysis.filter(|analysis| analysis.bytes == stat.size),
            ..self.record.clone()
        })
    }

    fn stat(&self) -> Result<Stat, StoreError> {
        stat_file(&self.content.file).map_err(|error| self.fault(error))
    }

    fn fault(&self, error: io::Error) -> StoreError {
        self.conversation.error_at("close", &self.path, error)
    }
}

impl Write for ArtifactWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.content.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ArtifactWriter {
    fn drop(&mut self) {
        if !self.closed {
            // If this fails, the record keeps the state live, which recovery handles.
            let _closed = self.close(ArtifactState::Incomplete(DROPPED.to_owned()));
        }
    }
}

fn fault(conversation: &Conversation, path: &RelPath, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            StoreError::Exists { path: conversation.path().join(path.as_os_str()) }
        }
        _ => conversation.error_at("write", path, error),
    }
}

fn analyzer(folder: Folder) -> Analyzer {
    match folder {
        Folder::Tool => Analyzer::new(),
        Folder::Terminal => Analyzer::of_log(),
    }
}

fn create_next(
    conversation: &Conversation,
    dir: &Dir,
    first: &CallNaming,
) -> Result<(File, RelPath, CallNaming), StoreError> {
    loop {
        let naming = first.clone().free(|naming| is_taken(conversation, dir, naming))?;
        let path = RelPath::artifact(naming.folder(), &naming.name());
        match create_new(dir, &naming.name()) {
            // Another process has just created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => {
                let file =
                    created.map_err(|error| conversation.error_at("create", &path, error))?;
                return Ok((file, path, naming));
            }
        }
    }
}

/// Returns true if a file has one of the names of the artifact, or if there is a record of removed
/// content at one of them.
fn is_taken(
    conversation: &Conversation,
    dir: &Dir,
    naming: &CallNaming,
) -> Result<bool, StoreError> {
    for name in naming.all() {
        let path = RelPath::artifact(naming.folder(), &name);
        let found = if_there(dir.stat(name.as_os_str()));
        let found = found.map_err(|error| conversation.error_at("look up", &path, error))?;
        if found.is_some() || conversation.removed(&path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn create_new(dir: &Dir, name: &Component) -> io::Result<File> {
    dir.create_file(name.as_os_str(), APPENDING | OFlags::EXCL, layout::FILE_MODE)
}

impl ArtifactWriter {
    /// Returns the record of an earlier output of the same call with the same bytes and the same
    /// state, or `None` if there is none. `own` is the record of this output. Compares the digests
    /// in the records and does not read the files.
    ///
    /// This finds duplicates: a host with two hooks passes each output twice. Logs are not
    /// compared, because a command that runs twice has two logs.
    fn same_output(&self, own: &Record) -> Result<Option<Record>, StoreError> {
        let Some(naming) = self.naming.as_ref().filter(|of| of.folder() == Folder::Tool) else {
            return Ok(None);
        };
        let (mut number, mut last) = (1, naming.number);
        while number <= last.saturating_add(GAP) {
            let found = self.recorded(&naming.at(number))?;
            if !found.is_empty() {
                last = last.max(number);
            }
            if number != naming.number
                && let Some(same) = found.into_iter().find(|record| is_same(own, record))
            {
                return Ok(Some(same));
            }
            number += 1;
        }
        Ok(None)
    }

    /// Returns the records of the files with the names of `names`. Leaves out a record if its file
    /// is not as recorded.
    fn recorded(&self, names: &CallNaming) -> Result<Vec<Record>, StoreError> {
        let mut found = Vec::new();
        for name in names.all() {
            let path = RelPath::artifact(names.folder(), &name);
            let record = self.conversation.record(&path)?;
            let is_there = |record: &Record| {
                self.dir.stat(name.as_os_str()).is_ok_and(|stat| stat.matches(record))
            };
            found.extend(record.filter(is_there));
        }
        Ok(found)
    }
}

/// Returns true if two outputs belong to the same call, have the same bytes, and are both complete
/// or both incomplete for the same reason.
fn is_same(one: &Record, other: &Record) -> bool {
    let is_closed = matches!(one.state, ArtifactState::Sealed | ArtifactState::Incomplete(_));
    is_closed
        && one.state == other.state
        && one.size == other.size
        && one.provenance.call == other.provenance.call
        && one.digest().is_some()
        && one.digest() == other.digest()
}

/// Maximum length in bytes of a call id that is used unchanged. With a number, an extension and the
/// suffix of a view, the name stays below the limit of 255 bytes.
const MAX_BYTES: usize = 200;
const DIGITS: usize = 32;

/// Returns the name for the first artifact of a call, without an extension.
///
/// The name is the id itself if the id is usable as a name: one component, not reserved, not a
/// scratch name and not too long. Otherwise the name is `call-` and a digest of the id, and the
/// writer stores the id in `Provenance::call`.
pub fn call_stem(call: &str) -> Component {
    Component::new(call).ok().filter(is_usable).unwrap_or_else(|| hashed(call))
}

fn numbered_stem(stem: &Component, number: u32) -> Component {
    if number == 1 { stem.clone() } else { joined(stem, &format!("-{number}")) }
}

#[derive(Debug, Clone)]
pub(super) struct CallNaming {
    stem: Component,
    folder: Folder,
    pub(super) number: u32,
}

impl CallNaming {
    pub(super) fn first(call: &str, folder: Folder) -> Self {
        Self { stem: call_stem(call), folder, number: 1 }
    }

    pub(super) fn at(&self, number: u32) -> Self {
        Self { number, ..self.clone() }
    }

    /// Returns free names. The number in them is the lowest free one, unless artifacts with lower
    /// numbers were removed. Calls `is_taken` about 2 log2(number) times.
    pub(super) fn free<E>(self, is_taken: impl Fn(&Self) -> Result<bool, E>) -> Result<Self, E> {
        let (mut taken, mut free) = (0, 1);
        while is_taken(&self.at(free))? {
            (taken, free) = (free, free.saturating_mul(2));
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            let half = if is_taken(&self.at(middle))? { &mut taken } else { &mut free };
            *half = middle;
        }
        Ok(self.at(free))
    }

    pub(super) fn folder(&self) -> Folder {
        self.folder
    }

    /// Returns the name that is used while the artifact is written. This is also the final name,
    /// unless the artifact is renamed to [`Self::json`].
    pub(super) fn name(&self) -> Component {
        let extension = match self.folder {
            Folder::Tool => ".txt",
            Folder::Terminal => ".log",
        };
        self.with(extension)
    }

    /// Returns the name for content that is a JSON value or JSON Lines. Returns `None` for a log.
    pub(super) fn json(&self) -> Option<Component> {
        (self.folder == Folder::Tool).then(|| self.with(".json"))
    }

    /// Returns all names that the artifact may have. A log may also have one name per stream.
    pub(super) fn all(&self) -> Vec<Component> {
        let others: &[&str] = match self.folder {
            Folder::Tool => &[".json"],
            Folder::Terminal => &[".stdout.log", ".stderr.log"],
        };
        let mut names = vec![self.name()];
        names.extend(others.iter().map(|extension| self.with(extension)));
        names
    }

    fn with(&self, extension: &str) -> Component {
        joined(&numbered_stem(&self.stem, self.number), extension)
    }
}

fn joined(stem: &Component, end: &str) -> Component {
    let mut name = std::ffi::OsString::from(stem);
    name.push(end);
    Component::new(name).unwrap_or_else(|_| stem.clone())
}

pub(super) fn is_json(json: &Json) -> bool {
    matches!(json, Json::Document { .. } | Json::Lines { .. })
}

fn is_usable(stem: &Component) -> bool {
    let short = stem.as_os_str().len() <= MAX_BYTES;
    short && !is_scratch(joined(stem, ".txt").as_os_str())
}

fn hashed(call: &str) -> Component {
    let mut analyzer = Analyzer::new();
    analyzer.push(call.as_bytes());
    let mut digest = analyzer.finish().digest;
    digest.truncate(DIGITS);
    Component::new(format!("call-{digest}")).expect("hexadecimal digits are a name")
}

#[cfg(test)]
mod tests;

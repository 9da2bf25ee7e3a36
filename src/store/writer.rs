//! Writing an artifact without a mount.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::io::Write;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::materialize::Analyzer;
use crate::model::Analysis;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Said;
use crate::model::State;
use crate::store::attributes;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::lease;
use crate::store::lease::Lease;
use crate::store::naming;
use crate::store::owner::this_process;
use crate::store::stat;
use crate::store::stat::Kind;

/// What is said of an artifact whose writer was dropped.
const DROPPED: &str = "its writer stopped before it was closed";
/// How often a name is tried that others keep taking.
const ATTEMPTS: u32 = 16;

/// Streams one artifact to its plain file, and analyses it on the way.
///
/// Every byte is in the file before `write` returns, under a name that readers see, and the record
/// says live. `seal` makes it complete; a writer that is dropped leaves an incomplete artifact, and
/// one that is killed leaves a live one that `Conversation::recover` will find.
///
/// An artifact that is there already gives way as a whole: its readers keep the bytes they have
/// open, and the new one is its next generation.
pub struct ArtifactWriter {
    conversation: Arc<Conversation>,
    folder: Folder,
    dir: Dir,
    file: File,
    path: RelPath,
    /// The name without extension, where the extension waits for the content.
    stem: Option<Component>,
    record: Record,
    analyzer: Analyzer,
    closed: bool,
}

impl ArtifactWriter {
    /// Begins the artifact `name`. `StoreError::Busy` where somebody writes it now.
    pub fn create(
        conversation: &Arc<Conversation>,
        folder: Folder,
        name: &Component,
        said: Said,
    ) -> Result<Self, StoreError> {
        let path = RelPath::artifact(folder, name);
        let fault = |error| fault(conversation, &path, error);
        let dir = open_folder(conversation.dir(), folder).map_err(fault)?;
        let mut opened = None;
        let record = conversation.update(&path, |current| {
            let (file, record) = begin(&dir, &path, name, current, said).map_err(fault)?;
            opened = Some(file);
            Ok(Some(record))
        })?;
        let (Some(file), Some(record)) = (opened, record) else {
            return Err(fault(io::ErrorKind::NotFound.into()));
        };
        let (conversation, analyzer) = (Arc::clone(conversation), Analyzer::new());
        let (stem, closed) = (None, false);
        Ok(Self { conversation, folder, dir, file, path, stem, record, analyzer, closed })
    }

    /// Begins the artifact of a call, and names it: `<call>.txt`, which `seal` renames to
    /// `<call>.json` where the content is one JSON value or JSON Lines. So its bytes, and its
    /// views, are there while it is written, and what is cut off by a crash is text.
    ///
    /// A call id that cannot be a name becomes a digest (`call_stem`), and is kept as
    /// `Said::call`.
    pub fn create_for_call(
        conversation: &Arc<Conversation>,
        folder: Folder,
        call: &str,
        mut said: Said,
    ) -> Result<Self, StoreError> {
        let stem = naming::call_stem(call);
        if stem.as_os_str() != call {
            said.call.get_or_insert_with(|| call.to_owned());
        }
        let name = naming::with_extension(&stem, false);
        let mut writer = Self::create(conversation, folder, &name, said)?;
        writer.stem = Some(stem);
        Ok(writer)
    }

    /// Where it is, from the conversation on. `seal` may still change the extension, see
    /// `create_for_call`.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.analyzer.seen()
    }

    /// What is known only now, such as an exit code; recorded when it is sealed.
    pub fn say(&mut self, newer: &Said) {
        self.record.said.update(newer);
    }

    /// Closes it as complete: synced, analysed and recorded.
    pub fn seal(mut self) -> Result<Record, StoreError> {
        self.close(State::Sealed)
    }

    /// Closes it as lacking its end, and says why.
    pub fn seal_incomplete(mut self, why: &str) -> Result<Record, StoreError> {
        self.close(State::Incomplete(why.to_owned()))
    }

    fn close(&mut self, state: State) -> Result<Record, StoreError> {
        let analysis = self.analyzer.finish();
        let mut records = Vec::with_capacity(2);
        if self.stem.is_some() && naming::is_json(&analysis.json) {
            records.push(Record { state: State::Gone, ..self.record.clone() });
        }
        self.settle(&analysis)?;
        self.record.state = state;
        self.record.owner = None;
        records.push(self.measure(analysis)?);
        self.conversation.append(&records)?;
        self.closed = true;
        records.pop().ok_or_else(|| self.fault(io::ErrorKind::NotFound.into()))
    }

    /// Brings content and attributes to the disk, and then the name that is to stay.
    fn settle(&mut self, analysis: &Analysis) -> Result<(), StoreError> {
        let synced =
            attributes::set_said(&self.file, &self.record.said).and_then(|()| self.file.sync_all());
        synced.map_err(|error| self.fault(error))?;
        if let Some(stem) = self.stem.take_if(|_| naming::is_json(&analysis.json)) {
            self.rename(&naming::with_extension(&stem, true))?;
        }
        self.dir.sync().map_err(|error| self.fault(error))
    }

    fn rename(&mut self, name: &Component) -> Result<(), StoreError> {
        let path = RelPath::artifact(self.folder, name);
        let before = self.conversation.record(&path)?;
        let from = self.path.file_name();
        let renamed = self.dir.rename(from, &self.dir, name.as_os_str(), RenameFlags::empty());
        renamed.map_err(|error| self.fault(error))?;
        self.record.path = path.to_text();
        self.record.generation = before.map_or(1, |record| record.generation + 1);
        self.path = path;
        Ok(())
    }

    /// The record, with what the disk says now. The analysis is left out where it does not speak of
    /// the whole file, because somebody else wrote to it too.
    fn measure(&self, analysis: Analysis) -> Result<Record, StoreError> {
        let stat = stat::stat_file(&self.file).map_err(|error| self.fault(error))?;
        Ok(Record {
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            analysis: Some(analysis).filter(|analysis| analysis.bytes == stat.size),
            ..self.record.clone()
        })
    }

    fn fault(&self, error: io::Error) -> StoreError {
        self.conversation.fault_at("close", &self.path, error)
    }
}

impl Write for ArtifactWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.analyzer.push(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ArtifactWriter {
    fn drop(&mut self) {
        if !self.closed {
            // There is nobody to tell; the record still says live, and recovery will meet it.
            let _closed = self.close(State::Incomplete(DROPPED.to_owned()));
        }
    }
}

impl fmt::Debug for ArtifactWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The directory of a kind of artifact, made where it has been removed.
fn open_folder(conversation: &Dir, folder: Folder) -> io::Result<Dir> {
    let mut dir = None;
    for name in folder.path().split('/') {
        let at = dir.as_ref().unwrap_or(conversation);
        at.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        dir = Some(at.open_dir(name.as_ref())?);
    }
    dir.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A new file and its first record. What is there already is the generation before.
fn begin(
    dir: &Dir,
    path: &RelPath,
    name: &Component,
    current: Option<Record>,
    said: Said,
) -> io::Result<(File, Record)> {
    let (file, replaced) = create_anew(dir, name)?;
    attributes::set_said(&file, &said)?;
    let stat = stat::stat_file(&file)?;
    let before = current.map_or(u64::from(replaced), |record| record.generation);
    let record = Record {
        path: path.to_text(),
        generation: before + 1,
        state: State::Live,
        size: 0,
        modified: stat.mtime.as_nanos(),
        created: stat.created().as_millis(),
        owner: this_process(),
        said,
        analysis: None,
    };
    Ok((file, record))
}

/// A new file of that name, and whether another one gave way to it. EBUSY where that one is being
/// written.
fn create_anew(dir: &Dir, name: &Component) -> io::Result<(File, bool)> {
    let name = name.as_os_str();
    let mut replaced = false;
    for _ in 0..ATTEMPTS {
        match dir.create_file(name, OFlags::WRONLY | OFlags::EXCL, layout::FILE_MODE) {
            Ok(file) => return Ok((file, replaced)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match give_way(dir, name) {
            Ok(()) => replaced = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY.into())
}

fn give_way(dir: &Dir, name: &OsStr) -> io::Result<()> {
    if dir.stat(name)?.kind() != Kind::File {
        return Err(Errno::EXIST.into());
    }
    let old = dir.open_file(name, OFlags::RDONLY)?;
    if lease::settled(&old) == Lease::Held {
        return Err(Errno::BUSY.into());
    }
    dir.unlink(name)
}

fn fault(conversation: &Conversation, path: &RelPath, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::ResourceBusy => StoreError::Busy { path: conversation.path_of(path) },
        _ => conversation.fault_at("write", path, error),
    }
}

#[cfg(test)]
mod tests;

//! Writing an artifact without a mount.

mod new_file;
mod replacing;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::io::Write;
use std::slice;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::materialize::Analyzer;
use crate::model::Analysis;
use crate::model::ArtifactState;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Provenance;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::analysed_file::AnalysedFile;
use crate::store::attributes;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::lease;
use crate::store::lease::Lease;
use crate::store::naming;
use crate::store::naming::Naming;
use crate::store::owner::this_process;
use crate::store::stat;
use crate::store::stat::Stat;
use crate::store::usage::room_of;
use crate::store::writer::new_file::NewFile;
pub(super) use crate::store::writer::new_file::open_folder;

/// The reason in the record of an artifact whose writer was dropped.
const DROPPED: &str = "its writer stopped before it was closed";

/// A writer that streams one artifact to its plain file and analyses it on the way.
///
/// Every byte is in the file before `write` returns, under a name that readers see, and the record
/// says live. `seal` completes the artifact. A writer that is dropped leaves an incomplete
/// artifact. One that is killed leaves a live artifact, which `Conversation::recover` handles.
///
/// If there is an artifact of the same name, the new one has a scratch name and no record until it
/// is complete. Then it replaces the old one as its next generation, and readers keep the bytes
/// that they have open. A new one that ends incomplete replaces nothing and stays under its scratch
/// name. So does one whose place somebody else has taken meanwhile, or writes.
pub struct ArtifactWriter {
    conversation: Arc<Conversation>,
    folder: Folder,
    dir: Dir,
    content: AnalysedFile,
    /// The current path of the file.
    path: RelPath,
    naming: Naming,
    /// The files that were there when it began. If there are any, it has a scratch name until it is
    /// complete.
    before: Vec<Stat>,
    record: Record,
    closed: bool,
}

impl ArtifactWriter {
    /// Begins the artifact `name`. Fails with `StoreError::Busy` if it has a writer already.
    pub fn create(
        conversation: &Arc<Conversation>,
        folder: Folder,
        name: &Component,
        provenance: Provenance,
    ) -> Result<Self, StoreError> {
        Self::begin(conversation, folder, Naming::Given(name.clone()), provenance)
    }

    /// Begins the artifact of a call. It is named `<call>.txt`, which `seal` renames to
    /// `<call>.json` if the content is one JSON value or JSON Lines. So its bytes and views are
    /// available while it is written, and an output that a crash cuts off is text. An earlier
    /// output of the call, under either name, is replaced when this one is complete.
    ///
    /// A call id that cannot be a name becomes a digest (see `call_stem`), and `Provenance::call`
    /// keeps it.
    pub fn create_for_call(
        conversation: &Arc<Conversation>,
        folder: Folder,
        call: &str,
        mut provenance: Provenance,
    ) -> Result<Self, StoreError> {
        provenance.call.get_or_insert_with(|| call.to_owned());
        Self::begin(conversation, folder, Naming::Call(naming::call_stem(call)), provenance)
    }

    fn begin(
        conversation: &Arc<Conversation>,
        folder: Folder,
        naming: Naming,
        provenance: Provenance,
    ) -> Result<Self, StoreError> {
        let path = RelPath::artifact(folder, &naming.name(false));
        let fault = |error| fault(conversation, &path, error);
        let dir = open_folder(conversation.dir(), folder).map_err(fault)?;
        let lock = conversation.manifest().lock()?;
        check_replaceable(conversation, folder, &naming)?;
        let NewFile { file, name, replaces: found } = NewFile::new(&dir, &naming).map_err(fault)?;
        attributes::set_provenance(&file, &provenance).map_err(fault)?;
        let stat = stat::stat_file(&file).map_err(fault)?;
        let path = RelPath::artifact(folder, &name);
        let earlier = conversation.record(&path)?.map_or(0, |record| record.generation);
        let record = Record {
            generation: earlier + 1,
            state: ArtifactState::Live,
            owner: this_process(),
            provenance,
            ..Conversation::fresh_record(&path, &stat)
        };
        if found.is_empty() {
            lock.append(slice::from_ref(&record))?;
        }
        let conversation = Arc::clone(conversation);
        let analyzer = match folder {
            Folder::Tool => Analyzer::new(),
            Folder::Terminal => Analyzer::of_log(),
        };
        let content = AnalysedFile::new(file, analyzer);
        let closed = false;
        Ok(Self { conversation, folder, dir, content, path, naming, before: found, record, closed })
    }

    /// Makes it write-once: nothing that is complete is replaced, and once this is complete,
    /// nothing replaces it. Fails with `StoreError::WriteOnce` if it was to replace an artifact.
    pub fn write_once(mut self) -> Result<Self, StoreError> {
        if self.replaces() {
            self.closed = true;
            self.dir.unlink(self.path.file_name()).map_err(|error| self.fault(error))?;
            let path = RelPath::artifact(self.folder, &self.naming.name(false));
            return Err(write_once(&self.conversation, &path));
        }
        self.record.once = true;
        Ok(self)
    }

    /// Returns the path in the conversation. `seal` may still change the extension, see
    /// `create_for_call`.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.content.written()
    }

    /// Returns the room of the artifacts that this one replaces when it is complete, in bytes on
    /// the disk, or `None` if it replaces none.
    pub fn replaced_room(&self) -> Option<u64> {
        let mut names = vec![self.naming.name(false), self.naming.name(true)];
        names.dedup();
        let sizes = names.iter().filter_map(|name| self.dir.stat(name.as_os_str()).ok());
        self.replaces().then(|| sizes.map(|stat| room_of(&stat)).sum())
    }

    /// Adds what is known only now, such as an exit code. It is recorded when the artifact is
    /// sealed.
    pub fn say(&mut self, newer: &Provenance) {
        self.record.provenance.update(newer);
    }

    /// Completes the artifact: it is synced, analysed and recorded.
    pub fn seal(mut self) -> Result<Record, StoreError> {
        self.close(ArtifactState::Sealed)
    }

    /// Closes the artifact as incomplete for the reason `why`. One that was to replace another
    /// stays under its scratch name, which is the path of the returned record.
    pub fn seal_incomplete(mut self, why: &str) -> Result<Record, StoreError> {
        self.close(ArtifactState::Incomplete(why.to_owned()))
    }

    fn close(&mut self, state: ArtifactState) -> Result<Record, StoreError> {
        let (analysis, file) = (self.content.analysis(), self.content.file());
        let synced = attributes::set_provenance(file, &self.record.provenance)
            .and_then(|()| file.sync_all());
        synced.map_err(|error| self.fault(error))?;
        let stays_aside = self.replaces() && state != ArtifactState::Sealed;
        self.record.state = state;
        self.record.owner = None;
        if stays_aside {
            self.record = self.measure(analysis)?;
            self.closed = true;
        } else {
            self.put_in_place(analysis)?;
            self.conversation.manifest().compact_if_wasteful();
        }
        self.dir.sync().map_err(|error| self.fault(error))?;
        Ok(self.record.clone())
    }

    /// Gives the file its final name, records it, and removes the earlier output of the call under
    /// its other name. In this order there is a complete output of the call at any moment.
    fn put_in_place(&mut self, analysis: Analysis) -> Result<(), StoreError> {
        let json = naming::is_json(&analysis.json);
        let goal = RelPath::artifact(self.folder, &self.naming.name(json));
        let left = RelPath::artifact(self.folder, &self.naming.name(!json));
        let lock = self.conversation.manifest().lock()?;
        check_replaceable(&self.conversation, self.folder, &self.naming)?;
        let left = Some(left).filter(|left| *left != goal && *left != self.path);
        let left = left.map_or(Ok(None), |left| self.left_by_the_call(left))?;
        let mut records = Vec::with_capacity(3);
        let left = if goal == self.path {
            left
        } else {
            let (renamed, gone) = self.rename(goal, left.as_ref())?;
            records.extend(gone);
            left.filter(|_| renamed)
        };
        if let Some(left) = &left {
            self.dir.sync().map_err(|error| self.fault(error))?;
            let record = self.conversation.record(left)?;
            records.extend(record.map(|record| Record { state: ArtifactState::Gone, ..record }));
        }
        self.record = self.measure(analysis)?;
        records.push(self.record.clone());
        lock.append(&records)?;
        self.closed = true;
        let removed = left.map_or(Ok(()), |left| self.dir.unlink(left.file_name()));
        removed.map_err(|error| self.fault(error))
    }

    /// Returns `path` if an earlier output of the same call is there, and nobody writes it.
    fn left_by_the_call(&self, path: RelPath) -> Result<Option<RelPath>, StoreError> {
        let is_file = self.dir.open_file(path.file_name(), OFlags::RDONLY);
        let is_file = is_file.is_ok_and(|file| lease::settled(&file) != Lease::Held);
        let Some(call) = self.record.provenance.call.as_deref().filter(|_| is_file) else {
            return Ok(None);
        };
        let is_of_call = self.conversation.is_output_of(&path, OsStr::new(call))?;
        Ok(Some(path).filter(|_| is_of_call))
    }

    /// Renames the file to `goal`. Its generation follows those of the artifacts that it replaces.
    /// Returns the record that removes its former name, if that was recorded.
    ///
    /// If somebody has put another file there since this began, or writes it, that stays. Then this
    /// one keeps the name that it has, and false is returned, or it fails if that is a scratch
    /// name.
    fn rename(
        &mut self,
        goal: RelPath,
        left: Option<&RelPath>,
    ) -> Result<(bool, Option<Record>), StoreError> {
        let mut generation = self.record.generation;
        for gives_way in [Some(&goal), left].into_iter().flatten() {
            generation = generation.max(self.generation_of(gives_way)? + 1);
        }
        let names = (self.path.file_name(), goal.file_name());
        let renamed = replacing::take_name(&self.dir, names, &|stat| self.may_replace(&goal, stat));
        let recorded = !self.replaces();
        match renamed.map_err(|error| self.fault(error))? {
            false if recorded => return Ok((false, None)),
            false => return Err(self.taken(&goal)),
            true => {}
        }
        let gone = recorded.then(|| Record { state: ArtifactState::Gone, ..self.record.clone() });
        self.record.generation = generation;
        self.record.path = goal.to_text();
        self.path = goal;
        Ok((true, gone))
    }

    /// Returns true if a file at `goal` with the attributes `stat` gives way: it was there when
    /// this began, or it is recorded as another output of the same call.
    fn may_replace(&self, goal: &RelPath, stat: &Stat) -> bool {
        let is_of_call = |record: Record| {
            let call = record.provenance.call;
            let is_it = (record.size, record.modified) == (stat.size, stat.mtime.as_nanos());
            is_it && call.is_some() && call == self.record.provenance.call
        };
        self.before.iter().any(|before| before.same_file(stat))
            || self.conversation.record(goal).is_ok_and(|record| record.is_some_and(is_of_call))
    }

    /// Returns true if there was an artifact of this name when it began.
    fn replaces(&self) -> bool {
        !self.before.is_empty()
    }

    fn taken(&self, goal: &RelPath) -> StoreError {
        let at = |path: &RelPath| self.conversation.path().join(path.as_os_str());
        StoreError::Taken { path: at(goal), kept: at(&self.path) }
    }

    /// Returns the generation of the artifact at `path`, or 0 if there is none.
    fn generation_of(&self, path: &RelPath) -> Result<u64, StoreError> {
        let unrecorded = u64::from(self.dir.stat(path.file_name()).is_ok());
        Ok(self.conversation.record(path)?.map_or(unrecorded, |record| record.generation))
    }

    /// Returns the record with the current size and time. Leaves out the analysis if it does not
    /// cover the whole file, because another process wrote to it too.
    fn measure(&self, analysis: Analysis) -> Result<Record, StoreError> {
        let stat = stat::stat_file(self.content.file()).map_err(|error| self.fault(error))?;
        Ok(Record {
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            analysis: Some(analysis).filter(|analysis| analysis.bytes == stat.size),
            ..self.record.clone()
        })
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
            // The error has no receiver. The record still says live, and recovery handles that.
            let _closed = self.close(ArtifactState::Incomplete(DROPPED.to_owned()));
        }
    }
}

impl fmt::Debug for ArtifactWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Fails if an artifact that would be replaced is never to change.
fn check_replaceable(
    conversation: &Conversation,
    folder: Folder,
    naming: &Naming,
) -> Result<(), StoreError> {
    for json in [false, true] {
        let path = RelPath::artifact(folder, &naming.name(json));
        if conversation.record(&path)?.is_some_and(|record| record.once)
            && conversation.dir().stat_at(&path).is_ok()
        {
            return Err(write_once(conversation, &path));
        }
    }
    Ok(())
}

fn write_once(conversation: &Conversation, path: &RelPath) -> StoreError {
    StoreError::WriteOnce { path: conversation.path().join(path.as_os_str()) }
}

fn fault(conversation: &Conversation, path: &RelPath, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::ResourceBusy => {
            StoreError::Busy { path: conversation.path().join(path.as_os_str()) }
        }
        _ => conversation.error_at("write", path, error),
    }
}

#[cfg(test)]
mod tests;

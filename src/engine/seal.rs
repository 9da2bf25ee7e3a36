//! Sealing: masking, analysing and recording an artifact after its last writer has closed it.
//! Sealing makes no view. Once there is time, a last step records the sizes of the views that
//! directories list.
//!
//! Secrets are masked in place before the artifact is recorded as sealed. A mask has the same
//! length as its secret. Before it is masked, a secret is on the disk as it was written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::{
    Analysed, Counters, DoorFile, Engine, FileLife, FilePlace, Result, RewriteCount, Source,
    is_message_log, proportion, view_sizes,
};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{
    Amount, Analysis, ArtifactState, Component, Content as _, Counts, LocalFile, Record, is_scratch,
};
use ctxfs_core::redact::{BLOCK, SecretRules, masks, settled};
use ctxfs_store::{Artifact, provenance_of, stat_file};
use ctxfs_view::run_key;

/// Pause before the next attempt to seal a file that may still be written through a mapping.
const MAPPED_RETRY: Duration = Duration::from_millis(100);
/// Pause before the next attempt to seal a file that was truncated, or written by another process,
/// while it was being sealed.
const CHANGED_RETRY: Duration = Duration::from_millis(10);
/// Pause before the next attempt to analyse a file that other processes write.
const OTHERS_RETRY: Duration = Duration::from_millis(100);
/// Number of bytes that one step masks.
const MASKED_AT_ONCE: u64 = 4 * 1024 * 1024;

/// A change of a record: returns the new record, or `None` to leave the record as it is. The life
/// of the file is locked meanwhile.
pub type RecordChange<'a> = dyn FnMut(&mut dyn FileLife, Record) -> Option<Record> + 'a;

/// A file that is being sealed, as its door represents it. The door has the names and the handles
/// of the file, and knows where its record is.
pub trait SealedFile {
    /// Returns the descriptor of a writer, if the file has one. Otherwise opens the file for
    /// reading, without updating the access time. Returns `None` while the file may be written
    /// through a mapping.
    fn open(&self) -> Result<Option<Arc<File>>>;

    fn open_to_mask(&self) -> Result<Arc<File>>;

    /// Calls `change` with the present record, and appends the record that it returns. If `seals`
    /// is true and a record was appended, then calls [`FileLife::sealed`].
    fn record(&self, change: &mut RecordChange<'_>, seals: bool) -> Result<()>;

    /// Returns true if the door is closing. There is then only one attempt to seal the file.
    fn is_ending(&self) -> bool;
}

/// The result of a step of sealing.
///
/// - `Recorded`: the artifact is recorded as sealed, and further steps complete its analysis
/// - `Again`: another step follows
/// - `Idle`: another step follows once nothing else is due
/// - `Later`: another step follows after a pause
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealStep {
    Done,
    Recorded,
    Again,
    Idle,
    Later(Duration),
}

struct Sealing<'a> {
    engine: &'a Engine,
    file: &'a Arc<dyn DoorFile>,
    door: &'a dyn SealedFile,
    ending: bool,
}

impl Source {
    /// Takes the next step in sealing the file: analyses what a writer has written so far, masks
    /// some secrets of a closed file, records it as sealed, continues the analysis of a recorded
    /// artifact, or measures its views. The record includes the analysis if one step completes it.
    pub fn seal(&self, engine: &Engine, door: &dyn SealedFile) -> Result<SealStep> {
        let Self::File(file) = self else { return Ok(SealStep::Done) };
        let sealing = Sealing { engine, file, door, ending: door.is_ending() };
        let (end, has_writers, is_unsealed) = {
            let mut life = file.state().life.lock();
            (life.bytes().size, life.has_writers(), life.is_unsealed())
        };
        match is_unsealed {
            _ if has_writers => sealing.follow(end),
            true => sealing.seal(),
            false => sealing.complete(),
        }
    }
}

impl Engine {
    /// Records that an output of `bytes` bytes was completed. Notifies the retention, and the hosts
    /// that share the conversation `id`.
    pub(crate) fn note_sealed(&self, id: &Component, bytes: u64) {
        self.retention.note_sealed(id, bytes);
        if let Some(others) = &self.options.other_hosts {
            others.changed(id, Some(bytes));
        }
    }
}

impl Sealing<'_> {
    fn follow(&self, end: u64) -> Result<SealStep> {
        let Some(open) = self.door.open()? else { return Ok(SealStep::Done) };
        let goes_on = Analysed::of(self.engine, &**self.file, &open).follow(end)?;
        Ok(if goes_on { SealStep::Again } else { SealStep::Done })
    }

    fn seal(&self) -> Result<SealStep> {
        let Self { engine, file, door, ending } = *self;
        let rules = engine.options.stored_rules();
        let place = file.place();
        let is_artifact = place.as_ref().is_some_and(|(_, path)| path.is_artifact());
        let is_masked = rules.is_some() && place.as_ref().is_some_and(may_be_masked);
        if !is_artifact && !is_masked {
            return Ok(self.settle(place));
        }
        let Some(open) = door.open()? else { return Ok(SealStep::Later(MAPPED_RETRY)) };
        let masked = rules.map_or(Ok(true), |rules| self.mask(rules));
        let masked = masked.unwrap_or_else(|error| {
            let path = place.as_ref().map(|(_, path)| path.to_text());
            tracing::warn!(path, %error, "a file could not be redacted");
            true
        });
        if !masked {
            return Ok(SealStep::Again);
        }
        // The file may have been renamed while it was masked.
        let place = file.place();
        if !place.as_ref().is_some_and(|(_, path)| path.is_artifact()) {
            return Ok(self.settle(place));
        }
        let clock = engine.store.clock();
        let (rewrites, stat) = file.state().rewrites(&open, clock)?;
        // Waits until the modification time of the file would show the next change.
        if let Some(pause) = clock.settles_in(&stat).filter(|_| !ending) {
            return Ok(SealStep::Later(pause));
        }
        let analysis = Analysed::of(engine, &**file, &open).complete(&|| true)?;
        let is_whole = analysis.is_some();
        Ok(match self.record(&open, (rewrites, stat.local_file()), analysis)? {
            false => SealStep::Later(CHANGED_RETRY),
            true if is_whole => SealStep::Idle,
            true => SealStep::Recorded,
        })
    }

    /// Ends the life of a file that has no record.
    fn settle(&self, place: Option<FilePlace>) -> SealStep {
        let mut life = self.file.state().life.lock();
        if life.has_writers() {
            // The file is sealed after its last writer has closed it.
            return SealStep::Done;
        }
        life.sealed();
        drop(life);
        if let Some((id, _)) = place {
            self.engine.changed(&id);
        }
        SealStep::Done
    }

    /// Records the artifact as sealed, unless it has a writer again. If its bytes have changed
    /// since the analysis, records nothing and returns false. If the door closes, records the
    /// artifact without the analysis instead.
    fn record(
        &self,
        open: &Arc<File>,
        (rewrites, local): (RewriteCount, LocalFile),
        mut analysis: Option<Analysis>,
    ) -> Result<bool> {
        let Self { engine, file, ending, .. } = *self;
        let provenance = provenance_of(open)?;
        let tokens = analysis.as_ref().map(|found| (found.tokens, found.bytes));
        let (mut tool, mut changed) = (None, false);
        let mut change = |life: &mut dyn FileLife, mut record: Record| {
            if life.has_writers() {
                return None;
            }
            let speaks = |found: &Analysis| {
                found.bytes == record.size && life.bytes().rewrites() == rewrites
            };
            changed = !analysis.as_ref().is_none_or(speaks);
            if changed && !ending {
                return None;
            }
            if record.state == ArtifactState::Live {
                record.state = ArtifactState::Sealed;
            }
            record.provenance.update(&provenance);
            record.provenance.run = run_key(&record.provenance, "");
            tool = record.provenance.tool_name();
            let once = record.once || engine.options.write_once;
            let (file, analysis) = (Some(local), analysis.take().filter(|_| !changed));
            Some(Record { file, owner: None, analysis, view_sizes: None, once, ..record })
        };
        self.door.record(&mut change, true)?;
        if changed && !ending {
            return Ok(false);
        }
        Counters::add(&engine.counters.sealed, 1);
        let end = file.state().life.lock().bytes().size;
        if let Some((id, _)) = file.place() {
            engine.note_sealed(&id, end);
        }
        self.count(tool, tokens.or(ending.then_some((1, 4))));
        Ok(true)
    }

    /// Continues the analysis of a sealed artifact by one step. Records the analysis when it is
    /// complete. If it is recorded, records the sizes of the views that directories list.
    fn complete(&self) -> Result<SealStep> {
        let Self { engine, file, door, .. } = *self;
        let Some(open) = door.open()? else { return Ok(SealStep::Later(MAPPED_RETRY)) };
        let (state, clock) = (file.state(), engine.store.clock());
        let (rewrites, _) = state.rewrites(&open, clock)?;
        let Some((id, path)) = file.place() else { return Ok(SealStep::Done) };
        let record = engine.conversation(&id)?.record(&path)?;
        if record.is_some_and(|record| record.analysis.is_some()) {
            let mut sizes = view_sizes(engine, file, &open);
            let mut change = |life: &mut dyn FileLife, record: Record| {
                let is_same = !life.is_unsealed() && life.bytes().rewrites() == rewrites;
                sizes.take().filter(|_| is_same).map(|it| Record { view_sizes: Some(it), ..record })
            };
            door.record(&mut change, false)?;
            return Ok(SealStep::Done);
        }
        // If the analysis state was evicted in the meantime, it would be evicted again. This call
        // therefore continues to the end.
        let was_pushed_out = state.tracker.read(Analyzer::seen) == 0;
        let expired = || !was_pushed_out || door.is_ending();
        let mut analysis = Analysed::of(engine, &**file, &open).complete(&expired)?;
        let Some((tokens, bytes)) = analysis.as_ref().map(|found| (found.tokens, found.bytes))
        else {
            let unchanged = state.rewrites(&open, clock)?.0 == rewrites;
            return Ok(if unchanged { SealStep::Again } else { SealStep::Later(OTHERS_RETRY) });
        };
        let mut tool = None;
        let mut change = |life: &mut dyn FileLife, record: Record| {
            let unchanged = !life.is_unsealed() && life.bytes().rewrites() == rewrites;
            let same = unchanged && record.size == bytes;
            tool = record.provenance.tool_name();
            same.then(|| Record { analysis: analysis.take(), ..record })
        };
        door.record(&mut change, false)?;
        self.count(tool, Some((tokens, bytes)));
        Ok(SealStep::Done)
    }

    /// Counts the bytes that were stored since the file was last counted. `tokens` is a ratio:
    /// `tokens.0` tokens for `tokens.1` bytes. Without `tokens`, the bytes are counted later.
    fn count(&self, tool: Option<String>, tokens: Option<(u64, u64)>) {
        let (Some((id, _)), Some(tokens)) = (self.file.place(), tokens) else { return };
        let bytes = self.file.state().life.lock().take_uncounted();
        if bytes > 0 {
            let stored = Amount::once(bytes, proportion(tokens.0, bytes, tokens.1));
            let counts = Counts { stored, ..Counts::default() };
            self.engine.counting.add(id, tool.unwrap_or_default(), &counts);
        }
    }

    /// Masks secrets in the stored bytes of a file without writers. Does one step, or everything if
    /// the door closes. Returns true once the whole file is masked.
    fn mask(&self, rules: &SecretRules) -> Result<bool> {
        let open = self.door.open_to_mask()?;
        let mut steps = MASKED_AT_ONCE / BLOCK;
        while self.ending || steps > 0 {
            if mask_block(&**self.file, &open, rules)? {
                return Ok(true);
            }
            steps = steps.saturating_sub(1);
        }
        Ok(false)
    }
}

/// Returns true if secrets in a file at this place must be masked. Scratch files are not masked,
/// and the message log accepts only masked messages.
fn may_be_masked((_, path): &FilePlace) -> bool {
    !is_message_log(path) && !is_scratch(path.file_name())
}

/// Masks the next block, with the life of the file locked so that no client can write. Returns true
/// if it was the last block.
fn mask_block(file: &dyn DoorFile, open: &Arc<File>, rules: &SecretRules) -> Result<bool> {
    let mut life = file.state().life.lock();
    let content = Artifact::new(Arc::clone(open), stat_file(open)?.size);
    if life.has_writers() {
        return Ok(true);
    }
    let number = life.bytes().redacted / BLOCK;
    let read = |offset, length| content.bytes(offset, length);
    let masks = masks(rules, number, content.len(), read)?;
    for (offset, mask) in &masks {
        open.write_all_at(mask, *offset)?;
    }
    let changed = if masks.is_empty() { None } else { Some(stat_file(open)?) };
    let skipped = if masks.is_empty() { after_hole(open, number, content.len()) } else { 0 };
    let end = skipped.max(number + 1) * BLOCK;
    let done = end >= content.len();
    let masked = if done { settled(content.len()) } else { end };
    life.bytes().masked(masked, changed.as_ref());
    Ok(done)
}

/// Returns the number of the block at which to continue after block `number` needed no mask. Skips
/// the blocks in the middle of a hole, which are all alike. `length` is the file length in bytes.
///
/// The masks of a block depend on bytes up to one block away. Only blocks with a hole on both sides
/// are therefore skipped.
fn after_hole(open: &File, number: u64, length: u64) -> u64 {
    let from = number.saturating_sub(1) * BLOCK;
    let data = match rustix::fs::seek(open, SeekFrom::Data(from)) {
        Err(Errno::NXIO) => length,
        found => found.unwrap_or(from),
    };
    (data / BLOCK).saturating_sub(1)
}

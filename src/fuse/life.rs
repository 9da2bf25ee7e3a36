//! The life of a file while this mount serves it: opened, written, closed, sealed, renamed.
//!
//! ```text
//! opened for writing -> live: each write is a change -> last writer closed -> sealed
//! sealed -> opened for writing, or resized: live again, as the next generation
//! live or sealed -> renamed: its record follows, and counts on from the record of the new name
//! ```

use std::fs::File;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::process::ClosingThread;
use ctxfs_core::model::{ArtifactState, Component, Record, RelPath};
use ctxfs_engine::RewriteCount;
use ctxfs_engine::identity::LastSeen;
use ctxfs_store::{FileClock, Stat, Time, this_process};

/// The life of a file, as far as this mount has seen it: how often its bytes changed, and what the
/// manifest lacks.
///
/// A mount holds one for each file that the kernel knows, so rare parts are in [`LifeInUse`]. A
/// life does no input or output. Its owner holds it locked while bytes are written, so that a
/// length read under the lock is never one in the middle of a write.
#[derive(Debug, Default)]
pub(crate) struct Life {
    writers: u32,
    unsealed: bool,
    mapped: bool,
    rewrites: u64,
    /// All changes, and views that ran out of time: either makes a new version.
    changes: u64,
    seen: LastSeen,
    /// The length that existed before the last life began and has not been cut since.
    kept: u64,
    paged: Option<Time>,
    /// Length of the prefix without secrets, if stored bytes are redacted.
    redacted: u64,
    in_use: Option<Box<LifeInUse>>,
}

/// The pages of a file that the kernel may have cached: those of earlier opens, too; only new ones,
/// as the file may have changed; or none, as a change by another process would not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Kept,
    New,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) conversation: Component,
    pub(crate) path: RelPath,
    pub(crate) noted: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRename {
    Nothing,
    NoteLive,
    Seal,
}

impl Life {
    pub(crate) fn at_rest(stat: &Stat) -> Self {
        Self { seen: LastSeen::new(stat), ..Self::default() }
    }

    /// Records that a writer opened it, at `home` if that is an artifact's name. `can_map` is true
    /// if the writer may also map it for writing. Returns true for the first writer, which begins a
    /// life.
    pub(crate) fn opened(&mut self, can_map: bool, home: Option<(Component, RelPath)>) -> bool {
        self.writers += 1;
        self.mapped |= can_map;
        let first = self.writers == 1;
        if first {
            self.begin();
            let own = &mut self.in_use().home;
            *own = own.take().or_else(|| home.map(Box::new));
        }
        first
    }

    fn begin(&mut self) {
        // The loss was of the last generation, sealed or not.
        self.in_use().trouble = None;
        if !std::mem::replace(&mut self.unsealed, true) {
            self.kept = self.end();
        }
        self.in_use().lives += 1;
    }

    fn in_use(&mut self) -> &mut LifeInUse {
        self.in_use.get_or_insert_default()
    }

    /// Records a change by another process: length or time differ from what this mount last saw, or
    /// could not differ by the `clock` of the disk. Must be called before the file is changed, and
    /// before its bytes are relied upon.
    ///
    /// Which bytes changed is unknown: even a file that only grew may have been rewritten from its
    /// start.
    pub(crate) fn noticed(&mut self, stat: &Stat, clock: FileClock) {
        if self.seen.notice(stat, clock, self.writers > 0) {
            self.redacted = 0;
        }
    }

    /// Records that it is opened for reading with the attributes `stat`. Returns which pages the
    /// kernel may have.
    pub(crate) fn opened_to_read(&mut self, stat: &Stat, clock: FileClock) -> Pages {
        if clock.is_recent(stat) {
            return Pages::None;
        }
        let before = self.paged.replace(stat.ctime);
        if before == Some(stat.ctime) { Pages::Kept } else { Pages::New }
    }

    pub(crate) fn forget_pages(&mut self) {
        self.paged = None;
    }

    pub(crate) fn left_as(&mut self, stat: &Stat) {
        self.seen.left_as(stat);
    }

    /// Records that bytes were written at `offset`, which left the file with the attributes `stat`.
    pub(crate) fn written(&mut self, offset: u64, stat: &Stat) {
        self.changes += 1;
        if offset < self.end() {
            self.rewrites += 1;
        }
        self.redacted = self.redacted.min(offset);
        self.left_as(stat);
    }

    pub(crate) fn rewritten(&mut self) {
        self.changes += 1;
        self.rewrites += 1;
        self.redacted = 0;
    }

    /// Records that it was truncated or extended, which left it with the attributes `stat`. Without
    /// a writer this is a life of its own. Returns true if the file is then to be sealed.
    pub(crate) fn resized(&mut self, stat: &Stat) -> bool {
        self.changes += 1;
        if stat.size < self.end() {
            self.rewrites += 1;
        }
        self.redacted = self.redacted.min(stat.size);
        self.left_as(stat);
        if self.writers == 0 {
            self.begin();
        }
        self.kept = self.kept.min(stat.size);
        if stat.size == 0 {
            // An empty file lacks nothing.
            self.in_use().trouble = None;
        }
        self.writers == 0
    }

    /// Records that a view ran out of time, so that the next look-up finds another version.
    pub(crate) fn view_was_late(&mut self) {
        self.changes += 1;
    }

    pub(crate) fn failed(&mut self, why: String) {
        self.in_use().trouble = Some(why.into_boxed_str());
    }

    pub(crate) fn closing(&mut self, now: Instant) {
        self.in_use().last_close = Some(now);
    }

    /// Records that a writer closed it, on the thread that `closed_by` gives. Returns true for the
    /// last writer: the file is then to be sealed.
    pub(crate) fn closed(&mut self, closed_by: impl FnOnce() -> Option<ClosingThread>) -> bool {
        self.writers = self.writers.saturating_sub(1);
        let last = self.writers == 0;
        if last {
            self.in_use().closed_by = closed_by().map(Box::new);
        }
        last
    }

    pub(crate) fn unmapped(&mut self) {
        self.rewritten();
        // A later mapping has to open it again.
        self.mapped = false;
    }

    /// Records that no secret is left in the first `bytes` bytes. `changed` has the new attributes
    /// if masks were written.
    pub(crate) fn masked(&mut self, bytes: u64, changed: Option<&Stat>) {
        if let Some(stat) = changed {
            self.rewritten();
            self.left_as(stat);
        }
        self.redacted = bytes;
    }

    /// Returns `record` marked as live, for the manifest, or `None` if the file was closed
    /// meanwhile.
    pub(crate) fn noted_live(&mut self, record: Record) -> Option<Record> {
        if self.writers == 0 {
            return None;
        }
        let (generation, in_use) = (record.generation, self.in_use());
        in_use.noted = Some(NotedGeneration { generation, lives: in_use.lives });
        let owner = this_process();
        Some(Record { state: ArtifactState::Live, owner, file: None, analysis: None, ..record })
    }

    pub(crate) fn sealed(&mut self) {
        let more = self.end().saturating_sub(self.kept);
        self.kept = self.end();
        self.unsealed = false;
        self.mapped = false;
        let in_use = self.in_use();
        in_use.uncounted += more;
        (in_use.lives, in_use.noted, in_use.home) = (0, None, None);
        self.rest();
    }

    /// Records that it was renamed to a name that has this record. Its generations count on from
    /// there.
    pub(crate) fn renamed(&mut self, record: Option<&Record>) -> AfterRename {
        let has_writers = self.has_writers();
        if let Some(in_use) = &mut self.in_use {
            in_use.noted = None;
            in_use.lives = in_use.lives.min(u64::from(has_writers));
        }
        self.unsealed |= record.is_none_or(|record| record.state == ArtifactState::Live);
        match (self.unsealed, has_writers) {
            (false, _) => AfterRename::Nothing,
            (true, false) => AfterRename::Seal,
            (true, true) => AfterRename::NoteLive,
        }
    }

    /// Records that another process has moved it to `home`, if that is an artifact's name.
    /// `generation` is from its record, if one has followed.
    pub(crate) fn moved(&mut self, home: Option<(Component, RelPath)>, generation: Option<u64>) {
        let in_use = self.in_use();
        in_use.home = home.map(Box::new);
        if let (Some(noted), Some(generation)) = (&mut in_use.noted, generation) {
            noted.generation = generation;
        }
    }

    /// Records that the manifest lacks its record. Returns true if the file is to be sealed for
    /// that now.
    pub(crate) fn needs_record(&mut self) -> bool {
        self.unsealed = true;
        self.in_use().noted = None;
        self.writers == 0
    }

    /// Records that it lost its name in `conversation`. Returns the open descriptors, the last way
    /// to reach it.
    pub(crate) fn lost_name(&mut self, conversation: Component) -> Vec<Weak<File>> {
        let in_use = self.in_use();
        in_use.charged_to = Some(Box::new(conversation));
        in_use.drop_closed();
        in_use.open.clone()
    }

    pub(crate) fn remember(&mut self, file: &Arc<File>) {
        let in_use = self.in_use();
        in_use.drop_closed();
        in_use.open.push(Arc::downgrade(file));
    }

    /// Drops what only a file in use has, if it is at rest by now.
    pub(crate) fn rest(&mut self) {
        if self.unsealed || self.has_writers() {
            return;
        }
        self.in_use.take_if(|in_use| {
            in_use.drop_closed();
            in_use.is_over()
        });
    }
}

impl Life {
    pub(crate) fn has_writers(&self) -> bool {
        self.writers > 0
    }

    pub(crate) fn last_close(&self) -> Option<Instant> {
        self.in_use.as_ref()?.last_close
    }

    pub(crate) fn is_unsealed(&self) -> bool {
        self.unsealed
    }

    pub(crate) fn home(&self) -> Option<RecordPlace> {
        let in_use = self.in_use.as_ref()?;
        let (conversation, path) = in_use.home.as_deref().cloned()?;
        let noted = in_use.noted.map(|noted| noted.generation);
        Some(RecordPlace { conversation, path, noted })
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Returns true if manifest and extended attributes have all that is known about it.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.unsealed && self.in_use.as_ref().is_none_or(|in_use| in_use.trouble.is_none())
    }

    pub(crate) fn end(&self) -> u64 {
        self.seen.size()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn rewrites(&self) -> RewriteCount {
        RewriteCount { own: self.rewrites, others: self.seen.changes() }
    }

    pub(crate) fn redacted(&self) -> u64 {
        self.redacted
    }

    pub(crate) fn any_open(&self) -> Option<Arc<File>> {
        self.in_use.as_ref()?.open.iter().find_map(Weak::upgrade)
    }

    pub(crate) fn charged_to(&self) -> Option<Component> {
        self.in_use.as_ref()?.charged_to.as_deref().cloned()
    }

    pub(crate) fn take_uncounted(&mut self) -> u64 {
        let bytes = self.in_use.as_mut().map(|in_use| std::mem::take(&mut in_use.uncounted));
        self.rest();
        bytes.unwrap_or(0)
    }

    pub(crate) fn take_closing_thread(&mut self) -> Option<ClosingThread> {
        self.in_use.as_mut()?.closed_by.take().map(|thread| *thread)
    }

    /// Returns `record` brought up to date. `recorded` is true if the manifest has it.
    pub(crate) fn bring_up(&self, mut record: Record, recorded: bool) -> Record {
        if self.unsealed {
            record.generation = generation(self, Some(&record).filter(|_| recorded));
            record.state = ArtifactState::Live;
        }
        if let Some(why) = self.in_use.as_ref().and_then(|in_use| in_use.trouble.as_deref()) {
            record.state = ArtifactState::Incomplete(why.to_owned());
        }
        record
    }
}

fn generation(life: &Life, recorded: Option<&Record>) -> u64 {
    let (noted, lives) = life.in_use.as_ref().map_or((None, 0), |of| (of.noted, of.lives));
    let later = match (noted, recorded) {
        (Some(noted), _) => noted.generation + lives.saturating_sub(noted.lives),
        (None, Some(Record { generation, state: ArtifactState::Live, .. })) => {
            generation + lives.saturating_sub(1)
        }
        (None, Some(Record { generation, .. })) => generation + lives,
        (None, None) => lives,
    };
    later.max(1)
}

#[cfg(test)]
mod tests;

/// The part of a life that only a file in use has: one that is open, unsealed, or without a name.
#[derive(Debug, Default)]
pub(super) struct LifeInUse {
    /// The number of lives that began since it was last sealed. Each is a generation, even if it
    /// was not sealed in between.
    pub(super) lives: u64,
    pub(super) noted: Option<NotedGeneration>,
    pub(super) home: Option<Box<(Component, RelPath)>>,
    pub(super) uncounted: u64,
    pub(super) last_close: Option<Instant>,
    pub(super) closed_by: Option<Box<ClosingThread>>,
    pub(super) trouble: Option<Box<str>>,
    pub(super) open: Vec<Weak<File>>,
    pub(super) charged_to: Option<Box<Component>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct NotedGeneration {
    pub(super) generation: u64,
    pub(super) lives: u64,
}

impl LifeInUse {
    pub(super) fn drop_closed(&mut self) {
        self.open.retain(|open| open.strong_count() > 0);
    }

    pub(super) fn is_over(&self) -> bool {
        self.uncounted == 0
            && self.closed_by.is_none()
            && self.trouble.is_none()
            && self.open.is_empty()
            && self.charged_to.is_none()
    }
}

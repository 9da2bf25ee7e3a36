//! The life of a file while this mount serves it: opened, written, closed, sealed, renamed.
//!
//! ```text
//! opened for writing -> live: each write is a change -> last writer closed -> sealed
//! sealed -> opened for writing, or resized: live again, as the next generation
//! live or sealed -> renamed: its record moves too; generations count on from the new name's record
//! ```

use std::fs::File;
use std::sync::{Arc, Weak};
use std::time::Instant;

use ctxfs_core::model::{ArtifactState, Component, Record, RelPath};
use ctxfs_engine::{ByteHistory, FileLife};
use ctxfs_store::{FileClock, Stat, Time, this_process};

/// The state of a file as this mount has seen it: the number of changes of its bytes, and the facts
/// that the manifest lacks.
///
/// A mount holds one `Life` for each file in its inode table, so fields that few files need are in
/// [`LifeInUse`]. A `Life` does no input or output. The filesystem keeps it locked while bytes are
/// written, so that a length read under the lock never falls in the middle of a write.
#[derive(Debug, Default)]
pub(crate) struct Life {
    writers: u32,
    unsealed: bool,
    /// True if a handle may have mapped the file for writing. The server does not see mappings.
    mapped: bool,
    pub(crate) bytes: ByteHistory,
    /// Length of the prefix that existed when the file last became live and has not been truncated
    /// since.
    kept: u64,
    /// The change time at the last open for reading. The kernel may still cache pages from then.
    paged: Option<Time>,
    in_use: Option<Box<LifeInUse>>,
}

/// The pages of a file that the kernel may use from its cache:
///
/// - `Kept`: also pages from earlier opens.
/// - `New`: only pages read from now on, because the file may have changed.
/// - `None`: no pages, because cached pages would hide a change by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Kept,
    New,
    None,
}

/// The name under which the manifest has the record of a live file. `noted` is the generation that
/// is recorded there as live.
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
        Self { bytes: ByteHistory::new(stat), ..Self::default() }
    }

    /// Records that a writer opened the file. `home` is the file's name if that is the name of an
    /// artifact. `can_map` is true if the writer may also map the file for writing. Returns true
    /// for the first writer, which begins a life.
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
        // The loss in `trouble` belongs to the previous generation, whether sealed or not.
        self.in_use().trouble = None;
        if !std::mem::replace(&mut self.unsealed, true) {
            self.kept = self.end();
        }
        self.in_use().lives += 1;
    }

    fn in_use(&mut self) -> &mut LifeInUse {
        self.in_use.get_or_insert_default()
    }

    /// Records that the file was opened for reading with the attributes `stat`. Returns which
    /// cached pages the kernel may use.
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

    /// Records that the file was truncated or extended. `stat` has the attributes after the change.
    /// Begins a life if there is no writer, and returns true in this case: the caller must then
    /// seal the file.
    pub(crate) fn resized(&mut self, stat: &Stat) -> bool {
        self.bytes.written(stat.size, stat);
        if self.writers == 0 {
            self.begin();
        }
        self.kept = self.kept.min(stat.size);
        if stat.size == 0 {
            // An empty file cannot have lost bytes.
            self.in_use().trouble = None;
        }
        self.writers == 0
    }

    pub(crate) fn failed(&mut self, why: String) {
        self.in_use().trouble = Some(why.into_boxed_str());
    }

    pub(crate) fn closing(&mut self, now: Instant) {
        self.in_use().last_close = Some(now);
    }

    /// Records that a writer closed the file. `killed_by` is the signal that killed the writer. If
    /// the last writer was killed, the file may lack bytes. Returns true for the last writer: the
    /// caller must then seal the file.
    pub(crate) fn closed(&mut self, killed_by: Option<i32>) -> bool {
        self.writers = self.writers.saturating_sub(1);
        let last = self.writers == 0;
        if let Some(signal) = killed_by.filter(|_| last) {
            self.failed(format!("its writer was killed by signal {signal}"));
        }
        last
    }

    pub(crate) fn unmapped(&mut self) {
        self.bytes.rewritten();
        // A later mapping needs a new open.
        self.mapped = false;
    }

    /// Returns `record` marked as live, for the manifest. Returns `None` if the file has been
    /// closed in the meantime.
    pub(crate) fn noted_live(&mut self, record: Record) -> Option<Record> {
        if self.writers == 0 {
            return None;
        }
        let (generation, in_use) = (record.generation, self.in_use());
        in_use.noted = Some(NotedGeneration { generation, lives: in_use.lives });
        let owner = this_process();
        Some(Record { state: ArtifactState::Live, owner, file: None, analysis: None, ..record })
    }

    /// Records that the file was renamed. `record` is the record under its new name, if there is
    /// one. The generation count of the file continues from that record.
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

    /// Records that another process has moved the file. `home` is the new name if that is the name
    /// of an artifact. `generation` is the generation in the file's record, if the record has
    /// already moved to the new name.
    pub(crate) fn moved(&mut self, home: Option<(Component, RelPath)>, generation: Option<u64>) {
        let in_use = self.in_use();
        in_use.home = home.map(Box::new);
        if let (Some(noted), Some(generation)) = (&mut in_use.noted, generation) {
            noted.generation = generation;
        }
    }

    /// Records that the manifest has no record of the file. Returns true if the caller must seal
    /// the file now to add the record.
    pub(crate) fn needs_record(&mut self) -> bool {
        self.unsealed = true;
        self.in_use().noted = None;
        self.writers == 0
    }

    /// Records that the file lost its name in `conversation`. Returns its open descriptors, which
    /// are the only remaining way to reach it.
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

    /// Drops the state that only a file in use needs, if the file is at rest.
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

impl FileLife for Life {
    fn bytes(&mut self) -> &mut ByteHistory {
        &mut self.bytes
    }

    fn has_writers(&self) -> bool {
        self.writers > 0
    }

    fn is_unsealed(&self) -> bool {
        self.unsealed
    }

    fn is_at_rest(&self) -> bool {
        !self.unsealed && self.in_use.as_ref().is_none_or(|in_use| in_use.trouble.is_none())
    }

    fn sealed(&mut self) {
        let more = self.end().saturating_sub(self.kept);
        self.kept = self.end();
        self.unsealed = false;
        self.mapped = false;
        let in_use = self.in_use();
        in_use.uncounted += more;
        (in_use.lives, in_use.noted, in_use.home) = (0, None, None);
        self.rest();
    }

    fn take_uncounted(&mut self) -> u64 {
        let bytes = self.in_use.as_mut().map(|in_use| std::mem::take(&mut in_use.uncounted));
        self.rest();
        bytes.unwrap_or(0)
    }

    fn bring_up(&self, mut record: Record, recorded: bool) -> Record {
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

impl Life {
    pub(crate) fn last_close(&self) -> Option<Instant> {
        self.in_use.as_ref()?.last_close
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

    pub(crate) fn end(&self) -> u64 {
        self.bytes.size
    }

    pub(crate) fn any_open(&self) -> Option<Arc<File>> {
        self.in_use.as_ref()?.open.iter().find_map(Weak::upgrade)
    }

    pub(crate) fn charged_to(&self) -> Option<Component> {
        self.in_use.as_ref()?.charged_to.as_deref().cloned()
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

/// The state that a file needs only while it is open, unsealed, or without a name.
#[derive(Debug, Default)]
struct LifeInUse {
    /// Number of lives that began since the file was last sealed. Each life is a generation, even
    /// if the file was not sealed between two lives.
    lives: u64,
    noted: Option<NotedGeneration>,
    home: Option<Box<(Component, RelPath)>>,
    /// Number of sealed bytes that the counters of the engine do not include yet.
    uncounted: u64,
    last_close: Option<Instant>,
    trouble: Option<Box<str>>,
    open: Vec<Weak<File>>,
    charged_to: Option<Box<Component>>,
}

/// The generation that the manifest has recorded as live, and the value of [`LifeInUse::lives`] at
/// that time.
#[derive(Debug, Clone, Copy)]
struct NotedGeneration {
    generation: u64,
    lives: u64,
}

impl LifeInUse {
    fn drop_closed(&mut self) {
        self.open.retain(|open| open.strong_count() > 0);
    }

    fn is_over(&self) -> bool {
        self.uncounted == 0
            && self.trouble.is_none()
            && self.open.is_empty()
            && self.charged_to.is_none()
    }
}

#[cfg(test)]
mod tests;

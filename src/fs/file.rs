//! A regular file on disk, and what the filesystem knows of it beyond the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;

use rustix::fs::OFlags;

use crate::fs::Counters;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::closer::Closer;
use crate::fs::facts::KnownFacts;
use crate::fs::inode::FileId;
use crate::fs::node::Link;
use crate::fs::node::Linked;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::materialize::Analyzer;
use crate::materialize::Checkpoints;
use crate::model::Analysis;
use crate::store::Stat;
use crate::store::Time;
use crate::store::stat_file;

/// Bytes that one step of analysis reads: at hundreds of megabytes a second some milliseconds, so
/// that a waiting reader or a due deadline is seen soon.
pub(crate) const STEP: u64 = 4 * 1024 * 1024;
/// Bytes that one read of a step takes.
const BLOCK: usize = 256 * 1024;

/// A regular file on disk.
pub(crate) struct FileNode {
    pub(crate) link: Linked,
    pub(crate) id: FileId,
    pub(crate) facts: KnownFacts,
    writing: Mutex<Writing>,
    tracker: Mutex<Tracker>,
}

/// Who writes, and what has changed. Held while bytes are written, so that whoever looks at the
/// length under it sees whole writes only.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// Open handles that can write.
    pub(crate) writers: u32,
    /// Opened for writing, or changed, since it was last sealed.
    pub(crate) unsealed: bool,
    /// Lives begun since it was last sealed: each is a generation, sealed in between or not.
    pub(crate) lives: u64,
    /// The generation that the manifest has recorded as live in this life, and when.
    pub(crate) noted: Option<Noted>,
    /// Some handle can have mapped it for writing, which the daemon does not see.
    pub(crate) mapped: bool,
    /// Changes of bytes that stood before: overwriting, truncation.
    pub(crate) rewrites: u64,
    /// Changes in all, and results of views that ran out of time: either makes a new generation.
    pub(crate) changes: u64,
    /// Changes that were made by others than this mount, as far as it has met them.
    pub(crate) others: u64,
    /// The end, as far as this mount has seen.
    pub(crate) end: u64,
    /// First bytes that were there before the last life began, and have not been cut since.
    kept: u64,
    /// Bytes that are sealed and not counted yet.
    pub(crate) uncounted: u64,
    /// The time of the last change of the bytes, as far as this mount has seen.
    modified: Time,
    /// First bytes in which no secret is left, where what is stored is redacted.
    pub(crate) redacted: u64,
    /// Who closed it, until sealing has asked how that one ended.
    pub(crate) closer: Option<Closer>,
    /// Why the artifact may lack its end.
    pub(crate) trouble: Option<String>,
    /// What is open, for a file that has lost its name.
    open: Vec<Weak<File>>,
}

/// The analysis of the first bytes, to be carried on.
#[derive(Default)]
struct Tracker {
    analyzer: Option<Box<Analyzer>>,
    /// When the analysis began: a later change of what stood before makes it void.
    began: Past,
}

/// How often bytes that stood before may have changed: while it is the same, they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) rewrites: u64,
    others: u64,
}

impl FileNode {
    pub(crate) fn new(link: Link, stat: &Stat) -> Self {
        let writing = Writing { end: stat.size, modified: stat.mtime, ..Writing::default() };
        Self {
            link: Linked::new(link),
            id: FileId::of(stat),
            facts: KnownFacts::default(),
            writing: Mutex::new(writing),
            tracker: Mutex::default(),
        }
    }

    pub(crate) fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file as it is now: by its name, or, where it has lost that, by what is still open.
    pub(crate) fn stat(&self) -> Result<Stat> {
        if let Some(link) = self.link.get() {
            match link.dir()?.stat(&link.name) {
                Ok(stat) if FileId::of(&stat) == self.id => return Ok(stat),
                Ok(_) | Err(_) => {}
            }
        }
        let file = self.any_open().ok_or(FsError::Stale)?;
        Ok(stat_file(&file)?)
    }

    /// Opens it anew. A name that leads elsewhere by now, or nowhere, gives [`FsError::Stale`]: the
    /// kernel then looks the name up again, and makes a file where it was told to.
    pub(crate) fn open(&self, flags: OFlags) -> Result<File> {
        let link = self.link.get().ok_or(FsError::Stale)?;
        let file = match link.dir()?.open_file(&link.name, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FsError::Stale),
            opened => opened?,
        };
        let stat = stat_file(&file)?;
        // Without a name it is being removed: who writes it now would write for nobody.
        let is_it = FileId::of(&stat) == self.id && stat.nlink > 0;
        if is_it { Ok(file) } else { Err(FsError::Stale) }
    }

    /// A descriptor to read it by.
    pub(crate) fn reader(&self) -> Result<Arc<File>> {
        match self.open(OFlags::RDONLY) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => self.any_open().ok_or(error),
        }
    }

    /// Some open descriptor of it.
    pub(crate) fn any_open(&self) -> Option<Arc<File>> {
        self.writing().open.iter().find_map(Weak::upgrade)
    }

    /// Remembers an open descriptor.
    pub(crate) fn opened(&self, file: &Arc<File>) {
        let mut writing = self.writing();
        writing.open.retain(|open| open.strong_count() > 0);
        writing.open.push(Arc::downgrade(file));
    }

    /// The first `at_least` bytes or more, analysed, carrying on from where it stopped.
    ///
    /// Returns the facts of the bytes seen, and whether that is all that was asked: `expired` is
    /// asked between steps. What others did to the file is looked at once, before: while they write
    /// on, the analysis comes to an end all the same. Adds the bytes that it reads to `read`.
    pub(crate) fn analyse(
        &self,
        file: &File,
        at_least: u64,
        expired: &dyn Fn() -> bool,
        read: &AtomicU64,
    ) -> Result<(Analysis, bool)> {
        let (past, _) = self.meet(file)?;
        loop {
            let (seen, ended, facts) = self.step(file, at_least, past.others, read)?;
            if let Some(facts) = facts {
                return Ok((facts, seen >= at_least || ended));
            }
            if expired() {
                return Ok((self.so_far(), false));
            }
        }
    }

    /// Carries the analysis on by one step; gives the facts where the step reaches `at_least` or
    /// the end of the file.
    fn step(
        &self,
        file: &File,
        at_least: u64,
        others: u64,
        read: &AtomicU64,
    ) -> Result<(u64, bool, Option<Analysis>)> {
        let is_log = self.is_terminal_log();
        let rewrites = self.writing().rewrites;
        let mut tracker = self.tracker();
        // Who met the file later has begun anew for all.
        let past = Past { rewrites, others: others.max(tracker.began.others) };
        let kind = tracker.analyzer.as_ref().is_none_or(|known| known.is_of_log() == is_log);
        if tracker.began != past || !kind {
            tracker.analyzer = None;
            tracker.began = past;
        }
        let new = || Box::new(if is_log { Analyzer::of_log() } else { Analyzer::new() });
        let analyzer = tracker.analyzer.get_or_insert_with(new);
        let stop = at_least.min(analyzer.seen() + STEP);
        let mut buffer = vec![0; BLOCK.min(usize::try_from(at_least).unwrap_or(BLOCK))];
        while analyzer.seen() < stop {
            let most = buffer.len().min((stop - analyzer.seen()) as usize);
            let count = file.read_at(&mut buffer[..most], analyzer.seen())?;
            if count == 0 {
                return Ok((analyzer.seen(), true, Some(analyzer.finish())));
            }
            analyzer.push(&buffer[..count]);
            Counters::add(read, count as u64);
        }
        let seen = analyzer.seen();
        Ok((seen, false, (seen >= at_least).then(|| analyzer.finish())))
    }

    /// Takes in what others did to it, and says how it is now.
    pub(crate) fn meet(&self, file: &File) -> Result<(Past, Stat)> {
        let mut writing = self.writing();
        let stat = stat_file(file)?;
        writing.meet(&stat);
        Ok((writing.past(), stat))
    }

    fn so_far(&self) -> Analysis {
        self.tracker().analyzer.get_or_insert_default().finish()
    }

    /// Whether it is the log of a terminal, as its name says.
    pub(crate) fn is_terminal_log(&self) -> bool {
        self.link.get().and_then(|link| link.place()).is_some_and(|(_, path)| path.is_terminal())
    }

    /// Where the text of the log stands, as far as it has been analysed.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        self.tracker().analyzer.as_ref().map(|analyzer| analyzer.checkpoints()).unwrap_or_default()
    }

    /// Bytes that are analysed already.
    pub(crate) fn analysed(&self) -> u64 {
        self.tracker().analyzer.as_ref().map_or(0, |analyzer| analyzer.seen())
    }

    /// Frees the state of the analysis; the next one begins at the first byte.
    pub(crate) fn drop_analysis(&self) {
        self.tracker().analyzer = None;
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A generation, and the value of `Writing::lives` when it was recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) generation: u64,
    pub(crate) lives: u64,
}

impl Writing {
    /// The generation that it is in, where the manifest knows it as `recorded`: its generation
    /// and whether that one is live still.
    pub(crate) fn generation(&self, recorded: Option<(u64, bool)>) -> u64 {
        let later = match (self.noted, recorded) {
            (Some(noted), _) => noted.generation + self.lives.saturating_sub(noted.lives),
            (None, Some((generation, true))) => generation + self.lives.saturating_sub(1),
            (None, Some((generation, false))) => generation + self.lives,
            (None, None) => self.lives,
        };
        later.max(1)
    }

    /// Whether what is known of it is what manifest and attributes say, and nothing here adds to
    /// it.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.unsealed && self.trouble.is_none()
    }

    /// Notes that a writer has come, or that it is changed without one.
    pub(crate) fn begin_life(&mut self) {
        // What stood in the way of the last generation is no more, sealed or not.
        self.trouble = None;
        if !std::mem::replace(&mut self.unsealed, true) {
            self.kept = self.end;
        }
        self.lives += 1;
    }

    /// Notes that its record is to be written again; whether that is now, as nobody writes.
    pub(crate) fn record_again(&mut self) -> bool {
        self.unsealed = true;
        self.noted = None;
        self.writers == 0
    }

    /// Takes in what others did to the file, which is as `stat` says: to be called before it is
    /// changed, and before the bytes that stood there are relied upon.
    ///
    /// What they did where is not known. Even where the file has only grown, it may have been
    /// written from its start.
    pub(crate) fn meet(&mut self, stat: &Stat) {
        if (stat.size, stat.mtime) != (self.end, self.modified) {
            self.others += 1;
            self.redacted = 0;
            self.leave(stat);
        }
    }

    /// Notes that this mount leaves the file as `stat` says.
    pub(crate) fn leave(&mut self, stat: &Stat) {
        self.end = stat.size;
        self.modified = stat.mtime;
    }

    pub(crate) fn past(&self) -> Past {
        Past { rewrites: self.rewrites, others: self.others }
    }

    /// Notes that bytes were written from `offset` on, and that the file is as `stat` says now.
    pub(crate) fn wrote(&mut self, offset: u64, stat: &Stat) {
        self.changes += 1;
        if offset < self.end {
            self.rewrites += 1;
        }
        self.redacted = self.redacted.min(offset);
        self.leave(stat);
    }

    /// Notes that the file was cut or extended, and is as `stat` says now.
    pub(crate) fn resized(&mut self, stat: &Stat) {
        self.changes += 1;
        if stat.size < self.end {
            self.rewrites += 1;
        }
        self.redacted = self.redacted.min(stat.size);
        self.leave(stat);
        if self.writers == 0 {
            self.begin_life();
        }
        self.kept = self.kept.min(stat.size);
    }

    /// Notes that the artifact is recorded as it is now.
    pub(crate) fn sealed(&mut self) {
        self.uncounted += self.end.saturating_sub(self.kept);
        self.kept = self.end;
        self.unsealed = false;
        self.mapped = false;
        self.lives = 0;
        self.noted = None;
    }

    /// Notes a change of bytes that the daemon cannot place.
    pub(crate) fn rewritten(&mut self) {
        self.changes += 1;
        self.rewrites += 1;
        self.redacted = 0;
    }
}

//! The analysis of a file: taken from memory or the manifest, or computed.

use std::fs::File;
use std::sync::Arc;

use crate::{
    AnalysisGoal, AnalysisSoFar, ByteState, DoorFile, Engine, FileId, FileRef, Identity, Result,
    RewriteCount, STEP, Snapshot, Source, SourceState,
};
use ctxfs_core::materialize::{Analyzer, SNIFFED, reading};
use ctxfs_core::model::{Analysis, Component, Reading, Record};
use ctxfs_store::Stat;

/// An open file to analyse. Without a `record`, no recorded analysis is used.
///
/// - `is_log`: true for the log of a terminal, whose text has no escape sequences
/// - `is_fixed`: true for remote bytes and for a shared log, which do not change
pub(crate) struct Analysed<'a> {
    engine: &'a Engine,
    state: &'a SourceState,
    file: FileRef<'a>,
    conversation: Option<Component>,
    is_log: bool,
    is_fixed: bool,
    record: Option<&'a Record>,
}

impl Snapshot {
    /// Returns the analysis of the current bytes. If `expired` returns true before all bytes are
    /// analysed, the analysis covers only the first bytes.
    pub(crate) fn analysis(
        &self,
        engine: &Engine,
        expired: &dyn Fn() -> bool,
    ) -> Result<AnalysisSoFar> {
        self.to_analyse(engine).current(expired)
    }

    /// Returns the analysis of the current bytes, or `None` if they would have to be analysed now.
    pub(crate) fn known_analysis(&self, engine: &Engine) -> Result<Option<Arc<Analysis>>> {
        let file = self.to_analyse(engine);
        file.known(&file.byte_state()?)
    }

    /// Analyses at least the first `goal` bytes, but stops as soon as `expired` returns true.
    pub(crate) fn analyse(
        &self,
        engine: &Engine,
        goal: u64,
        expired: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.to_analyse(engine).analyse(goal, expired).map(drop)
    }

    /// Returns how the bytes of the file are read as text, or `None` if they are binary.
    pub(crate) fn reading(&self) -> Result<Option<Reading>> {
        reading_of(self.file.as_ref(), self.at.1.is_terminal())
    }

    fn to_analyse<'a>(&'a self, engine: &'a Engine) -> Analysed<'a> {
        Analysed {
            engine,
            state: self.source.state(),
            file: self.file.as_ref(),
            conversation: Some(self.at.0.clone()),
            is_log: self.at.1.is_terminal(),
            is_fixed: self.file.is_far() || matches!(self.source, Source::Log(_)),
            record: Some(&self.record),
        }
    }
}

impl<'a> Analysed<'a> {
    /// Returns the local file `file`, which is open as `open`.
    pub(crate) fn of(engine: &'a Engine, file: &'a dyn DoorFile, open: &'a File) -> Self {
        let place = file.place();
        Self {
            engine,
            state: file.state(),
            file: FileRef::Here(open),
            is_log: place.as_ref().is_some_and(|(_, path)| path.is_terminal()),
            conversation: place.map(|(id, _)| id),
            is_fixed: false,
            record: None,
        }
    }

    /// Analyses by at least one step and until `expired` returns true. Returns the analysis once it
    /// is complete. Continues from an earlier call.
    pub(crate) fn complete(&self, expired: &dyn Fn() -> bool) -> Result<Option<Analysis>> {
        let found = self.current(expired)?;
        Ok(found.whole.then(|| (*found.analysis).clone()))
    }

    /// Analyses the next step of a file that is being written and ends at `end`. Returns true if
    /// another step should follow at once.
    ///
    /// Does nothing if less than a quarter of a step is left. Also does nothing if keeping the
    /// state of this analysis would evict the state of another file of the conversation, because
    /// each step would then start over. Sealing analyses such a file once.
    pub(crate) fn follow(&self, end: u64) -> Result<bool> {
        let seen = self.state.tracker.read(Analyzer::seen);
        let kept = &self.engine.kept_analyses;
        let can_be_kept = || seen > 0 || kept.has_room(self.conversation.as_ref());
        if end.saturating_sub(seen) < STEP / 4 || !can_be_kept() {
            return Ok(false);
        }
        let (rewrites, _) = self.rewrites()?;
        let (_, whole) = self.analyse(end, &|| true)?;
        // If other processes write too, each step starts over, so no step follows.
        Ok(!whole && self.rewrites()?.0 == rewrites)
    }

    fn current(&self, expired: &dyn Fn() -> bool) -> Result<AnalysisSoFar> {
        let state = self.byte_state()?;
        if let Some(analysis) = self.known(&state)? {
            return Ok(AnalysisSoFar { analysis, whole: true });
        }
        let (analysis, whole) = self.analyse(state.size, expired)?;
        let analysis = Arc::new(analysis);
        let after = self.byte_state()?;
        if whole && after.rewrites == state.rewrites && after.is_of(&analysis) {
            self.engine.analyses.insert(after, &analysis);
        }
        Ok(AnalysisSoFar { analysis, whole })
    }

    fn known(&self, state: &ByteState) -> Result<Option<Arc<Analysis>>> {
        let recorded = || recorded(self.record, state, self.file.is_far());
        let Some(analysis) = self.engine.analyses.get(state).or_else(recorded) else {
            return Ok(None);
        };
        // The analysis may have been made before a rename.
        let strips = analysis.text_reading().strips;
        let is_same = if self.is_log {
            strips || analysis.is_binary()
        } else {
            !strips || reading_of(self.file, false)?.is_some_and(|it| it.strips)
        };
        Ok(is_same.then_some(analysis))
    }

    /// Analyses at least the first `goal` bytes. Returns the analysis of the bytes read, and true
    /// if it reaches `goal` or the end of the file.
    ///
    /// Calls `expired` between steps. Checks for changes by other processes only once, before the
    /// first step, so that the analysis ends even if they keep writing.
    fn analyse(&self, goal: u64, expired: &dyn Fn() -> bool) -> Result<(Analysis, bool)> {
        let Self { engine, state, file, is_log, .. } = *self;
        let tracker = &state.tracker;
        let _used = tracker.in_use(&engine.kept_analyses, self.conversation.clone());
        let (RewriteCount { others, .. }, _) = self.rewrites()?;
        loop {
            let rewrites = RewriteCount { own: self.own_rewrites(), others };
            let wanted = AnalysisGoal { file, is_log, rewrites, bytes: goal };
            let step = tracker.step(&engine.counters, wanted)?;
            if let Some(analysis) = step.analysis {
                return Ok((analysis, step.seen >= goal || step.ended));
            }
            if expired() {
                return Ok((tracker.so_far(), false));
            }
        }
    }

    fn rewrites(&self) -> Result<(RewriteCount, Stat)> {
        Ok(match self.file {
            FileRef::Here(file) if !self.is_fixed => {
                self.state.rewrites(file, self.engine.store.clock())?
            }
            file => (RewriteCount { own: self.own_rewrites(), others: 0 }, file.stat()?),
        })
    }

    fn own_rewrites(&self) -> u64 {
        self.state.life.lock().bytes().own_rewrites
    }

    fn byte_state(&self) -> Result<ByteState> {
        let (rewrites, stat) = self.rewrites()?;
        let identity = match self.record {
            Some(record) => Identity::of(record, &stat),
            None => Identity::Local(FileId::of(&stat)),
        };
        Ok(ByteState { identity, rewrites, size: stat.size, modified: stat.mtime.as_nanos() })
    }
}

impl ByteState {
    fn is_of(&self, analysis: &Analysis) -> bool {
        let is_other = matches!(&self.identity, Identity::Sealed(of) if *of != analysis.digest);
        self.size == analysis.bytes && !is_other
    }
}

fn reading_of(file: FileRef<'_>, is_log: bool) -> Result<Option<Reading>> {
    let mut start = vec![0; SNIFFED];
    let count = file.read_at(0, &mut start)?;
    Ok(reading(&start[..count], is_log))
}

/// Returns the analysis in the manifest if it is still valid. It is valid for sealed bytes, and for
/// a file that has the recorded length and modification time and was not rewritten by this process.
/// An analysis by another version of ctxfs is used only for remote bytes, because a new analysis
/// would have to fetch all of them.
fn recorded(record: Option<&Record>, state: &ByteState, is_far: bool) -> Option<Arc<Analysis>> {
    let record = record?;
    let same = match state.identity {
        Identity::Sealed(_) => true,
        Identity::Local(_) => {
            (record.size, record.modified, 0) == (state.size, state.modified, state.rewrites.own)
        }
    };
    let analysis = record.analysis.as_ref().filter(|_| same)?;
    (is_far || analysis.version == Analysis::VERSION).then(|| Arc::new(analysis.clone()))
}

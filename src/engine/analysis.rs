//! The analysis of a file: taken from memory or the manifest, or computed.

use std::sync::Arc;

use crate::tracker::{AnalysisGoal, ByteState};
use crate::{Engine, FileId, FileRef, Identity, Result, RewriteCount, SourceFile, Tracker};
use ctxfs_core::materialize::{Analyzer, SNIFFED, is_for_terminal};
use ctxfs_core::model::{Analysis, Content, Record};
use ctxfs_store::Stat;

/// The analysis of a file, or of its beginning.
#[derive(Debug, Clone)]
pub struct AnalysisSoFar {
    /// The analysis of the bytes covered.
    pub analysis: Arc<Analysis>,
    /// True if the analysis covers the whole file.
    pub whole: bool,
}

impl Engine {
    /// Returns the analysis of the current bytes of `of`, which is open as `file`. If `expired`
    /// returns true before all bytes are analysed, the analysis covers only the first bytes.
    pub fn analysis(
        &self,
        of: &dyn SourceFile,
        file: FileRef<'_>,
        record: Option<&Record>,
        expired: &dyn Fn() -> bool,
    ) -> Result<AnalysisSoFar> {
        let state = ByteState::now(self, of, file, record)?;
        if let Some(analysis) = known_of(self, (of, file), record, &state)? {
            return Ok(AnalysisSoFar { analysis, whole: true });
        }
        let (analysis, whole) = analyse(self, of, file, state.size, expired)?;
        let analysis = Arc::new(analysis);
        let after = ByteState::now(self, of, file, record)?;
        if whole && after.rewrites == state.rewrites && after.is_of(&analysis) {
            self.analyses.insert(after, &analysis);
        }
        Ok(AnalysisSoFar { analysis, whole })
    }
}

pub(crate) fn known(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
    record: &Record,
) -> Result<Option<Arc<Analysis>>> {
    let state = ByteState::now(engine, of, file, Some(record))?;
    known_of(engine, (of, file), Some(record), &state)
}

fn known_of(
    engine: &Engine,
    (of, file): (&dyn SourceFile, FileRef<'_>),
    record: Option<&Record>,
    state: &ByteState,
) -> Result<Option<Arc<Analysis>>> {
    let known = engine.analyses.get(state).or_else(|| recorded(record, state, file.is_far()));
    let Some(analysis) = known else { return Ok(None) };
    let is_right = analysis.plain.is_some() == is_text(of, file, analysis.plain)?;
    Ok(is_right.then_some(analysis))
}

/// Analyses at least the first `goal` bytes of `of`, which is open as `file`.
///
/// Returns the analysis of the bytes read, and true if it reaches `goal` or the end of the file.
/// Calls `expired` between steps. Checks for changes by other processes only once, before the first
/// step, so that the analysis ends even if they keep writing.
pub fn analyse(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
    goal: u64,
    expired: &dyn Fn() -> bool,
) -> Result<(Analysis, bool)> {
    let tracker = of.tracker();
    let _used = tracker.in_use(&engine.kept_analyses, of.conversation());
    let (RewriteCount { others, .. }, _) = rewrites(engine, of, file)?;
    loop {
        let rewrites = RewriteCount { own: of.own_rewrites(), others };
        let wanted = AnalysisGoal { file, is_log: of.is_log(), rewrites, bytes: goal };
        let step = tracker.step(&engine.counters, wanted)?;
        if let Some(analysis) = step.analysis {
            return Ok((analysis, step.seen >= goal || step.ended));
        }
        if expired() {
            return Ok((tracker.so_far(), false));
        }
    }
}

/// Detects changes by other processes to `of`, which is open as `file`. Returns the number of times
/// that the bytes were rewritten, and the attributes of the file. Remote bytes do not change.
pub(crate) fn rewrites(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
) -> Result<(RewriteCount, Stat)> {
    match file {
        FileRef::Here(file) => of.rewrites(engine, file),
        FileRef::Far(far) => Ok((RewriteCount { own: of.own_rewrites(), others: 0 }, far.stat)),
    }
}

impl Tracker {
    /// Returns true if the analysis of `of` has begun, or if its state can be kept without evicting
    /// the state of another file of the same conversation.
    pub fn can_be_kept(&self, engine: &Engine, of: &dyn SourceFile) -> bool {
        self.seen() > 0 || engine.kept_analyses.has_room(of.conversation().as_ref())
    }
}

/// Returns true if views show the text of a file without escape sequences. This holds for the log
/// of a terminal, and for a file whose first bytes look like terminal output. `plain` comes from an
/// analysis, which may have been made before a rename.
fn is_text(of: &dyn SourceFile, file: FileRef<'_>, plain: Option<u64>) -> Result<bool> {
    Ok(of.is_log() || (plain.is_some() && begins_for_terminal(file)?))
}

pub(crate) fn begins_for_terminal(file: FileRef<'_>) -> Result<bool> {
    let mut start = vec![0; SNIFFED];
    let count = file.read_at(0, &mut start)?;
    Ok(is_for_terminal(&start[..count]))
}

impl ByteState {
    fn now(
        engine: &Engine,
        of: &dyn SourceFile,
        file: FileRef<'_>,
        record: Option<&Record>,
    ) -> Result<Self> {
        let (rewrites, stat) = rewrites(engine, of, file)?;
        let local = || Identity::Local(FileId::of(&stat));
        let identity = record.map_or_else(local, |record| Identity::of(record, &stat));
        Ok(Self { identity, rewrites, size: stat.size, modified: stat.mtime.as_nanos() })
    }

    fn is_of(&self, analysis: &Analysis) -> bool {
        let is_other = matches!(&self.identity, Identity::Sealed(of) if *of != analysis.digest);
        self.size == analysis.bytes && !is_other
    }
}

/// Returns the analysis in the manifest if it is still valid. It is valid for sealed bytes, and for
/// a file that has the recorded length and modification time and was not rewritten by this process.
/// An analysis by another version of ctxfs is used only for remote bytes, because a new one would
/// have to fetch all of them.
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

/// Returns the analysis of the first bytes only. This is enough to tell text from binary, and the
/// result is the same before and after the artifact is sealed.
pub(crate) fn sniff(content: &dyn Content) -> Result<AnalysisSoFar> {
    let length = content.len().min(SNIFFED as u64);
    let mut analyzer = Analyzer::new();
    analyzer.push(&content.bytes(0, length as usize)?);
    let whole = analyzer.seen() == content.len();
    Ok(AnalysisSoFar { analysis: Arc::new(analyzer.finish()), whole })
}

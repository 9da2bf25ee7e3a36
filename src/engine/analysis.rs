//! The analysis of a file: from memory, from the manifest, or computed now.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::recent::recent_cache;
use crate::tracker::RewriteCount;
use crate::{Engine, FileId, FileRef, Identity, Result, SourceFile, tracker};
use ctxfs_core::materialize::{Analyzer, SNIFFED, is_for_terminal};
use ctxfs_core::model::{Analysis, Content, Record};

/// The analyses kept in memory for later views. The manifest has the others.
const REMEMBERED: usize = 256;

/// The state of the bytes that an analysis describes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ByteState {
    identity: Identity,
    rewrites: RewriteCount,
    size: u64,
    modified: i64,
}

/// The analyses of recent files.
pub(super) struct Analyses(Cache<Identity, (ByteState, Arc<Analysis>)>);

impl Analyses {
    pub(super) fn new() -> Self {
        Self(recent_cache(REMEMBERED))
    }

    fn get(&self, state: &ByteState) -> Option<Arc<Analysis>> {
        let (then, analysis) = self.0.get(&state.identity)?;
        state.has_bytes_of(&then).then_some(analysis)
    }
}

/// The analysis of a file, or of its beginning.
#[derive(Debug, Clone)]
pub struct AnalysisSoFar {
    pub analysis: Arc<Analysis>,
    /// True if it covers the whole file.
    pub whole: bool,
}

/// Returns the analysis of the present bytes of `of`, which is open as `file`. Covers only the
/// first bytes if `expired` reports that time has run out.
pub(super) fn analysis(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
    record: Option<&Record>,
    expired: &dyn Fn() -> bool,
) -> Result<AnalysisSoFar> {
    let state = ByteState::now(engine, of, file, record)?;
    let known = engine.analyses.get(&state).or_else(|| recorded(record, &state, file.is_far()));
    if let Some(analysis) = known
        && analysis.plain.is_some() == is_text(of, file, analysis.plain)?
    {
        return Ok(AnalysisSoFar { analysis, whole: true });
    }
    let (analysis, whole) = tracker::analyse(engine, of, file, state.size, expired)?;
    let analysis = Arc::new(analysis);
    let after = ByteState::now(engine, of, file, record)?;
    if whole && after.rewrites == state.rewrites && after.is_of(&analysis) {
        engine.analyses.0.insert(after.identity.clone(), (after, Arc::clone(&analysis)));
    }
    Ok(AnalysisSoFar { analysis, whole })
}

/// Returns the analysis of the present bytes of `of`, if that is known already.
pub(super) fn known(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
    record: &Record,
) -> Result<Option<Arc<Analysis>>> {
    let state = ByteState::now(engine, of, file, Some(record))?;
    let known =
        engine.analyses.get(&state).or_else(|| recorded(Some(record), &state, file.is_far()));
    let Some(analysis) = known else { return Ok(None) };
    let is_right = analysis.plain.is_some() == is_text(of, file, analysis.plain)?;
    Ok(is_right.then_some(analysis))
}

/// Returns the analysis of no bytes.
pub(super) fn nothing() -> Analysis {
    Analyzer::new().finish()
}

/// Returns true if views show the text of a file without its escape sequences: that of a terminal's
/// log, and of what begins as made for a terminal. `plain` is what an analysis says, which may be
/// from before a rename.
fn is_text(of: &dyn SourceFile, file: FileRef<'_>, plain: Option<u64>) -> Result<bool> {
    Ok(of.is_log() || (plain.is_some() && begins_for_terminal(file)?))
}

/// Returns true if the first bytes of `file` were made for a terminal.
pub(super) fn begins_for_terminal(file: FileRef<'_>) -> Result<bool> {
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
        let (rewrites, stat) = tracker::rewrites(engine, of, file)?;
        let local = || Identity::Local(FileId::of(&stat));
        let identity = record.map_or_else(local, |record| Identity::of(record, &stat));
        Ok(Self { identity, rewrites, size: stat.size, modified: stat.mtime.as_nanos() })
    }

    /// Returns true if the bytes are those of `then`, a state with the same identity.
    fn has_bytes_of(&self, then: &Self) -> bool {
        matches!(self.identity, Identity::Sealed(_)) || self == then
    }

    /// Returns true if `analysis` can be that of all these bytes.
    fn is_of(&self, analysis: &Analysis) -> bool {
        let is_other = matches!(&self.identity, Identity::Sealed(of) if *of != analysis.digest);
        self.size == analysis.bytes && !is_other
    }
}

/// Returns the analysis in the manifest if it still holds: it is that of the sealed bytes, or the
/// file has the recorded length and time and this process has not rewritten it since. And this
/// version of ctxfs would find the same, or would have to fetch all bytes for that.
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

/// Returns the analysis of the first bytes alone: enough to tell text from binary. It is the same
/// before and after the artifact is sealed.
pub(crate) fn sniff(content: &dyn Content) -> Result<AnalysisSoFar> {
    let length = content.len().min(SNIFFED as u64);
    let mut analyzer = Analyzer::new();
    analyzer.push(&content.bytes(0, length as usize)?);
    let whole = analyzer.seen() == content.len();
    Ok(AnalysisSoFar { analysis: Arc::new(analyzer.finish()), whole })
}

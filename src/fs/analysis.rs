//! Finding the analysis of an artifact: kept, recorded, or made now.

use std::fs::File;
use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::file::FileNode;
use crate::fs::file::Past;
use crate::fs::node::Node;
use crate::model::Analysis;
use crate::model::Record;

/// Analyses that are kept for the next view; the manifest has the others.
const KEPT: usize = 256;

/// The state of the bytes that an analysis speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    past: Past,
    size: u64,
    modified: i64,
}

/// The analyses of recent artifacts.
pub(crate) struct Analyses(Cache<Ino, (Moment, Arc<Analysis>)>);

impl Analyses {
    pub(crate) fn new() -> Self {
        Self(Cache::new(KEPT))
    }
}

/// An analysis, and whether it speaks of the whole file.
pub(crate) struct Found {
    pub(crate) analysis: Arc<Analysis>,
    pub(crate) whole: bool,
}

impl Shared {
    /// The analysis of `node` as it is now; of its first bytes only where `expired` says that
    /// there is no time for more.
    pub(crate) fn analysis(
        &self,
        node: &Node,
        file: &File,
        record: Option<&Record>,
        expired: &dyn Fn() -> bool,
    ) -> Result<Found> {
        let known = node.as_file()?;
        let moment = Moment::now(known, file)?;
        let is_log = known.is_terminal_log();
        let found = self.kept(node.ino, moment).or_else(|| recorded(record, moment));
        // A file that has come here by another name may have been no log.
        if let Some(analysis) = found.filter(|found| found.plain.is_some() == is_log) {
            return Ok(Found { analysis, whole: true });
        }
        let (analysis, whole) =
            known.analyse(file, moment.size, expired, &self.counters.bytes_analysed)?;
        let analysis = Arc::new(analysis);
        let after = Moment::now(known, file)?;
        if whole && after.size == analysis.bytes && after.past == moment.past {
            self.analyses.0.insert(node.ino, (after, Arc::clone(&analysis)));
        }
        Ok(Found { analysis, whole })
    }

    fn kept(&self, ino: Ino, moment: Moment) -> Option<Arc<Analysis>> {
        let (then, analysis) = self.analyses.0.get(&ino)?;
        (then == moment).then_some(analysis)
    }
}

impl Moment {
    fn now(known: &FileNode, file: &File) -> Result<Self> {
        let (past, stat) = known.meet(file)?;
        Ok(Self { past, size: stat.size, modified: stat.mtime.as_nanos() })
    }
}

/// What the manifest has, where the file is as it was recorded, nobody has touched it since, and
/// this version of ctxfs would find the same.
fn recorded(record: Option<&Record>, moment: Moment) -> Option<Arc<Analysis>> {
    let record = record?;
    let same = record.size == moment.size
        && record.modified == moment.modified
        && moment.past.rewrites == 0;
    let analysis = record.analysis.as_ref().filter(|_| same)?;
    (analysis.version == Analysis::VERSION).then(|| Arc::new(analysis.clone()))
}

//! The recorded sizes of the views of a file at rest.

use crate::keyed_hash::keyed_hash;
use ctxfs_core::model::ViewSizes;
use ctxfs_engine::Version;
use ctxfs_engine::sync::Mutex;
use ctxfs_view::View;

/// The recorded sizes of a file's views, and the version of the file that they belong to.
#[derive(Debug, Default)]
pub(crate) struct KnownSizes(Mutex<Option<SizesAt>>);

#[derive(Debug)]
struct SizesAt {
    /// A hash of the parts of the version that count.
    of: u64,
    summary: u64,
    tail: u64,
}

/// Returns a hash of the parts of a version that count: the facts, the changes, the length and the
/// time of modification.
fn hash_of(version: &Version) -> u64 {
    keyed_hash((version.facts, version.changes, version.size, version.modified))
}

impl KnownSizes {
    /// Keeps the `sizes` at `version`, of which only the facts, the changes, the length and the
    /// time of modification count.
    pub(super) fn keep(&self, version: Version, sizes: Option<&ViewSizes>) {
        let of = hash_of(&version);
        let kept = sizes.map(|sizes| SizesAt { of, summary: sizes.summary, tail: sizes.tail });
        *self.0.lock() = kept;
    }

    /// Returns the size of `view` at `version`, if it is known.
    pub(super) fn of(&self, view: &View, version: &Version) -> Option<u64> {
        let known = self.0.lock();
        let known = known.as_ref()?;
        match view {
            View::Summary | View::Tail if version.bytes != 0 || known.of != hash_of(version) => {
                None
            }
            View::Summary => Some(known.summary),
            View::Tail => Some(known.tail),
            _ => None,
        }
    }
}

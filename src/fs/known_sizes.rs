//! The recorded sizes of the views of a file at rest.

use crate::engine::Version;
use crate::engine::sync::Mutex;
use crate::model::ViewSizes;
use crate::view::View;

/// The recorded sizes of a file's views, and the version of the file that they belong to.
#[derive(Debug, Default)]
pub(crate) struct KnownSizes(Mutex<Option<Box<(Version, u64, u64)>>>);

impl KnownSizes {
    /// Keeps the `sizes` at `version`, of which only the facts, the changes, the length and the
    /// time of modification count.
    pub(super) fn keep(&self, version: Version, sizes: Option<&ViewSizes>) {
        let kept = sizes.map(|sizes| Box::new((version, sizes.summary, sizes.tail)));
        *self.0.lock() = kept;
    }

    /// Returns the size of `view` at `version`, if it is known.
    pub(super) fn of(&self, view: &View, version: &Version) -> Option<u64> {
        let known = self.0.lock();
        let (then, summary, tail) = known.as_deref()?;
        let parts = |of: &Version| (of.facts, of.changes, of.size, of.modified);
        match view {
            _ if parts(then) != parts(version) || version.bytes != 0 => None,
            View::Summary => Some(*summary),
            View::Tail => Some(*tail),
            _ => None,
        }
    }
}

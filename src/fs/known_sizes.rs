//! The recorded sizes of the views of a file at rest.

use crate::engine::Version;
use crate::engine::sync::Mutex;
use crate::model::ViewSizes;
use crate::view::View;

/// The recorded sizes of a file's views, and the version of the file that they belong to.
#[derive(Debug, Default)]
pub(crate) struct KnownSizes(Mutex<Option<Box<SizesAt>>>);

#[derive(Debug)]
struct SizesAt {
    /// The parts of the version that count.
    of: (u64, u64, u64, i64),
    summary: u64,
    tail: u64,
}

fn parts(of: &Version) -> (u64, u64, u64, i64) {
    (of.facts, of.changes, of.size, of.modified)
}

impl KnownSizes {
    /// Keeps the `sizes` at `version`, of which only the facts, the changes, the length and the
    /// time of modification count.
    pub(super) fn keep(&self, version: Version, sizes: Option<&ViewSizes>) {
        let of = parts(&version);
        let kept = sizes.map(|sizes| SizesAt { of, summary: sizes.summary, tail: sizes.tail });
        *self.0.lock() = kept.map(Box::new);
    }

    /// Returns the size of `view` at `version`, if it is known.
    pub(super) fn of(&self, view: &View, version: &Version) -> Option<u64> {
        let known = self.0.lock();
        let known = known.as_deref()?;
        match view {
            _ if known.of != parts(version) || version.bytes != 0 => None,
            View::Summary => Some(known.summary),
            View::Tail => Some(known.tail),
            _ => None,
        }
    }
}

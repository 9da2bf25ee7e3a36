//! A bound on the memory that long paths take.

use crate::unread::UnreadPlaces;
use ctxfs_core::model::RelPath;

/// The bytes of a path that is long. Trees of programs stay far below.
const LONG: usize = 1024;
/// The bytes that the long paths of a list take together.
const MOST_BYTES: usize = 64 << 20;

/// The long paths of a list that is being made.
///
/// A path may have 64 KiB, and a directory at the end of one may hold any number of files. So a
/// list takes long paths only as far as they have 64 MiB together, and names what it does not take.
/// All other paths are taken.
#[derive(Debug)]
pub(super) struct PathBudget {
    left: usize,
    unread: UnreadPlaces,
}

impl PathBudget {
    pub(super) fn new() -> Self {
        Self { left: MOST_BYTES, unread: UnreadPlaces::default() }
    }

    /// Returns true if the list takes `path`.
    pub(super) fn takes(&mut self, path: &RelPath) -> bool {
        let bytes = path.as_os_str().len();
        if bytes < LONG {
            return true;
        }
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None if self.unread.is_empty() => {
                let why = "there are too many paths of more than a KiB: move it further up";
                self.unread.add(path.to_text(), why);
            }
            None => self.unread.add_unnamed(1),
        }
        self.unread.is_empty()
    }

    /// Ends the list. Returns what it did not take.
    pub(super) fn finish(self) -> UnreadPlaces {
        self.unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_paths_are_taken_and_long_ones_as_far_as_they_fit() {
        let path = |length: usize| RelPath::new(vec!["n"; length / 2].join("/")).unwrap();
        let (short, long) = (path(1000), path(64 << 10));
        let mut budget = PathBudget::new();
        assert!((0..100_000).all(|_| budget.takes(&short)));
        assert_eq!((0..2000).filter(|_| budget.takes(&long)).count(), 1024);
        assert!(budget.takes(&short));
        let unread = budget.finish();
        assert_eq!((unread.count(), unread.named().len()), (2000 - 1024, 1));
    }
}

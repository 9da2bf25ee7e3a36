//! The places of a store that could not be read.

use std::fmt;
use std::path::Path;

use crate::error::StoreError;

/// The places that are kept with their names. Further ones are counted.
const NAMED: usize = 64;

/// The places that a walk passed over because they could not be read: the first 64, and the number
/// of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadPlaces {
    named: Vec<UnreadPlace>,
    count: u64,
}

/// A place that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadPlace {
    /// Its path as text, relative to where the walk began.
    pub path: String,
    /// The error.
    pub why: String,
}

impl UnreadPlaces {
    /// Adds the place at `path`.
    pub fn add(&mut self, path: impl Into<String>, why: impl fmt::Display) {
        self.push(UnreadPlace { path: path.into(), why: why.to_string() });
    }

    /// Adds so many places without their names.
    pub(super) fn add_unnamed(&mut self, count: u64) {
        self.count += count;
    }

    /// Adds the place that an error is about, by its path relative to `dir`. Fails with the error
    /// if it is not about one place.
    pub(super) fn pass_over(&mut self, dir: &Path, error: StoreError) -> Result<(), StoreError> {
        if !error.is_of_place() {
            return Err(error);
        }
        let path = error.path().strip_prefix(dir).unwrap_or(error.path()).display().to_string();
        match error {
            StoreError::Io { source, .. } => self.add(path, source),
            other => self.add(path, other),
        }
        Ok(())
    }

    /// Adds other places.
    pub fn extend(&mut self, others: Self) {
        let unnamed = others.count - others.named.len() as u64;
        others.named.into_iter().for_each(|place| self.push(place));
        self.count += unnamed;
    }

    /// Returns the same places, with paths relative to the directory that contains `dir`.
    #[must_use]
    pub fn below(mut self, dir: &str) -> Self {
        for place in &mut self.named {
            place.path = format!("{dir}/{}", place.path);
        }
        self
    }

    /// Returns the number of places.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if everything could be read.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first places.
    pub fn named(&self) -> &[UnreadPlace] {
        &self.named
    }

    /// Returns `and 3 more places`, if not all are named.
    pub fn more(&self) -> Option<String> {
        let more = self.count - self.named.len() as u64;
        let plural = if more == 1 { "" } else { "s" };
        (more > 0).then(|| format!("and {more} more place{plural}"))
    }

    fn push(&mut self, place: UnreadPlace) {
        if self.named.contains(&place) {
            return;
        }
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(place);
        }
    }
}

/// `path: error`.
impl fmt::Display for UnreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_counts_once_and_the_first_are_named() {
        let mut all = UnreadPlaces::default();
        assert!(all.is_empty());
        for number in 0..100 {
            all.add(format!("d{number}"), "no");
        }
        all.add("d7", "no");
        assert_eq!((all.count(), all.named().len()), (100, NAMED));
        let mut above = UnreadPlaces::default();
        above.add("c7", "no");
        above.extend(all.below("c8"));
        assert_eq!((above.count(), above.named().len()), (101, NAMED));
        assert_eq!(above.more().as_deref(), Some("and 37 more places"));
        assert_eq!(above.named()[1].to_string(), "c8/d0: no");
    }
}

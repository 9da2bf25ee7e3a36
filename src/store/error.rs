//! The errors of the store, each with its path, and the list of places that a walk could not read.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::io::Errno;

/// Maximum number of places that are kept by name. Further places are only counted.
const NAMED: usize = 64;

/// Returns `None` for an error of the kind `NotFound`, so that a missing file is not a failure.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// A failure of the store. Every variant has a path. If the user can do something about the
/// failure, the text names the next step.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each error describes it")]
pub enum StoreError {
    #[error("cannot {action} `{path}`: {source}{}", next_step(source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the store `{path}` has format {found}, and this ctxfs knows formats up to {known}: \
         use the ctxfs that made it, or another store"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "`{path}` does not hold a format number, so this may not be a store of ctxfs: \
         choose another directory, or write `1` into that file if you know it is one"
    )]
    NotAStore { path: PathBuf },
    #[error("`{path}` is there already: use another id")]
    Exists { path: PathBuf },
}

impl StoreError {
    /// Returns the error of `action` on `path`. The text begins with "cannot `action` `path`".
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// Returns the path of the file or directory that caused the error.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Newer { path, .. }
            | Self::NotAStore { path }
            | Self::Exists { path } => path,
        }
    }

    /// Returns true if the error concerns only one place of the store. A walk can then skip the
    /// place and continue. A lack of descriptors, memory or disk space affects all places, and so
    /// does a read-only disk.
    pub fn is_of_place(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_of_place(source),
            Self::Exists { .. } => true,
            Self::Newer { .. } | Self::NotAStore { .. } => false,
        }
    }

    /// Returns the errno, or `None` if the error has none.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } => source.raw_os_error(),
            Self::Exists { .. } => Some(Errno::EXIST.raw_os_error()),
            Self::Newer { .. } | Self::NotAStore { .. } => None,
        }
    }
}

pub(super) fn is_of_place(error: &io::Error) -> bool {
    let of_all =
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT, Errno::ROFS];
    Errno::from_io_error(error).is_none_or(|errno| !of_all.contains(&errno))
}

/// Returns true if `error` means that the required name is taken, or that a file is in the place of
/// one of its parent directories.
pub(super) fn is_in_the_way(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::EXIST | Errno::NOTDIR | Errno::ISDIR))
}

fn next_step(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => "; free some space on that disk and try again",
        Some(Errno::DQUOT) => "; raise the disk quota or remove something",
        Some(Errno::ACCESS | Errno::PERM) => "; check who owns it, or use another store",
        Some(Errno::ROFS) => "; use a store on a disk that can be written",
        Some(Errno::LOOP | Errno::NOTDIR) => {
            "; a store has no symbolic links: replace it by a plain directory or file"
        }
        _ => "",
    }
}

/// The places that a walk skipped because they could not be read: the first 64 by name, and the
/// total number. A named place is counted only once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadPlaces {
    named: Vec<UnreadPlace>,
    count: u64,
}

/// A place that could not be read: its path as text, relative to the start of the walk, and the
/// text of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct UnreadPlace {
    pub path: String,
    pub why: String,
}

impl UnreadPlaces {
    /// Adds the place at `path`. Does nothing if the same place with the same reason is already in
    /// the list of named places.
    pub fn add(&mut self, path: impl Into<String>, why: impl fmt::Display) {
        self.push(UnreadPlace { path: path.into(), why: why.to_string() });
    }

    pub(super) fn add_unnamed(&mut self, count: u64) {
        self.count += count;
    }

    /// Adds the place of `error`, by its path relative to `dir`. Fails with `error` if `error`
    /// concerns more than one place; see [`StoreError::is_of_place`].
    pub fn pass_over(&mut self, dir: &Path, error: StoreError) -> Result<(), StoreError> {
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

    /// Adds the places in `others`, which come from another walk.
    pub fn extend(&mut self, others: Self) {
        let unnamed = others.count - others.named.len() as u64;
        others.named.into_iter().for_each(|place| self.push(place));
        self.count += unnamed;
    }

    /// Returns the same places with `dir` prepended to each path.
    #[must_use]
    pub fn below(mut self, dir: &str) -> Self {
        for place in &mut self.named {
            place.path = format!("{dir}/{}", place.path);
        }
        self
    }

    /// Returns the total number of places.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if everything could be read.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first 64 places.
    pub fn named(&self) -> &[UnreadPlace] {
        &self.named
    }

    /// Returns a text such as `and 3 more places` for the places that are not named, or `None` if
    /// all are named.
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

impl fmt::Display for UnreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_where_and_what_next() {
        let error = StoreError::io("append to", Path::new("/s/x"), Errno::NOSPC);
        assert_eq!(
            error.to_string(),
            "cannot append to `/s/x`: No space left on device (os error 28); \
             free some space on that disk and try again"
        );
        assert_eq!(error.raw_os_error(), Some(28));
    }

    #[test]
    fn a_process_or_disk_at_its_limits_is_no_place() {
        let of_place = |errno: Errno| is_of_place(&errno.into());
        assert!(of_place(Errno::ACCESS) && of_place(Errno::IO) && of_place(Errno::LOOP));
        assert!(!of_place(Errno::MFILE) && !of_place(Errno::NOMEM) && !of_place(Errno::NOSPC));
    }

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

//! The artifacts below a directory as seen by searches, and the notice about artifacts that a
//! search leaves out.

use std::io;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::number::counted;
use ctxfs_core::model::{Content, Place, RelPath};
use ctxfs_core::redact::SecretRules;

// Maximum size in bytes of the names of artifacts in one notice.
const NAMES_BYTES: usize = 1000;

/// The artifacts below a directory, in display order. Several threads load them, one by one.
pub trait Corpus: Sync {
    /// Returns the number of artifacts.
    fn len(&self) -> usize;

    /// Returns true if there are no artifacts.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of directories that are left out because the reader has no permission to
    /// read them. The default implementation returns 0.
    fn closed_directories(&self) -> u64 {
        0
    }

    /// Returns the path of an artifact relative to the directory. No two paths are equal.
    fn path(&self, number: usize) -> &RelPath;

    /// Returns the number of places below the directory that could not be listed, and descriptions
    /// of the first of them with the reasons. The default implementation returns none.
    fn unlisted(&self) -> (u64, Vec<String>) {
        (0, Vec::new())
    }

    /// Loads an artifact. Reads it into `buffer` if it is shorter than the buffer, and opens it
    /// otherwise.
    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded>;
}

/// A loaded artifact, or the reason why it cannot be searched.
pub enum Loaded {
    /// The artifact was removed after it was listed.
    Gone,
    /// The reader has no permission to read the artifact.
    Closed,
    /// The artifact is not text.
    Binary,
    /// The whole text of the artifact is in the buffer and has this many bytes.
    Whole(usize),
    /// The text of an artifact that does not fit into the buffer.
    Opened(Box<dyn Content>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("Gone"),
            Self::Closed => f.write_str("Closed"),
            Self::Binary => f.write_str("Binary"),
            Self::Whole(length) => f.debug_tuple("Whole").field(length).finish(),
            Self::Opened(content) => f.debug_tuple("Opened").field(&content.len()).finish(),
        }
    }
}

/// A directory that is searched: its place as seen by a reader (`/ctx/c7/artifacts/tool`), the
/// artifacts below it, and the redactor that masks secrets. Without `redacts`, secrets are shown.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the contract above tells it")]
pub struct Directory<'a> {
    pub place: &'a Place,
    pub corpus: &'a dyn Corpus,
    pub redacts: Option<&'a SecretRules>,
}

impl std::fmt::Debug for Directory<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The globs of `-g`, `--include` and `--exclude`. The last glob that matches a path decides. A path
/// that none matches is searched, unless a glob names paths to search.
pub(crate) struct PathFilter {
    // True before the globs of paths to search.
    globs: Vec<(bool, GlobMatcher)>,
    has_others: bool,
    pub(crate) bad: Option<String>,
}

impl PathFilter {
    pub(crate) fn new(globs: &[String]) -> Self {
        let mut filter = Self { globs: Vec::new(), has_others: true, bad: None };
        for text in globs {
            let text = text.trim_end_matches('/');
            let (glob, wanted) = match text.strip_prefix('!') {
                Some(glob) => (glob, false),
                None => (text, true),
            };
            // As in ripgrep, a glob without a slash matches names in any directory.
            let glob = match glob.strip_prefix('/') {
                Some(glob) => glob.to_owned(),
                None if glob.contains('/') => glob.to_owned(),
                None => format!("**/{glob}"),
            };
            match GlobBuilder::new(&glob).literal_separator(true).build() {
                Ok(glob) => {
                    filter.globs.push((wanted, glob.compile_matcher()));
                    filter.has_others &= !wanted;
                }
                Err(error) => filter.bad = Some(format!("`{text}` is no glob ({})", error.kind())),
            }
        }
        filter
    }

    pub(crate) fn has(&self, path: &RelPath) -> bool {
        let path = Path::new(path.as_os_str());
        let verdict = |path: &Path| {
            let last = self.globs.iter().rev().find(|(_, glob)| glob.is_match(path));
            last.map(|(wanted, _)| *wanted)
        };
        // As in ripgrep, a directory that is excluded takes everything in it along.
        let mut directories = path.ancestors().skip(1).filter(|path| *path != Path::new(""));
        directories.all(|path| verdict(path) != Some(false))
            && verdict(path).unwrap_or(self.has_others)
    }
}

/// The artifacts and places that a search leaves out. Closed artifacts, which the reader has no
/// permission to read, are counted without their names.
#[derive(Default)]
pub(crate) struct SearchOmissions {
    closed: u64,
    binary: NameList,
    unreadable: NameList,
    closed_directories: u64,
    unlisted: NameList,
}

/// The result of the work on one artifact, or the reason why there is none. `Gone` means that the
/// artifact was removed after the search began, and `Closed` that the reader may not read it.
/// `NotBegun` means that time ran out before the work was done.
pub(crate) enum Visited<T> {
    Done(T),
    Gone,
    Closed,
    Binary,
    Unreadable(io::Error),
    NotBegun,
}

impl<T> Visited<T> {
    /// Calls `visit`, unless `expired` returns true. In that case, or if a read in `visit` fails
    /// because time ran out, returns `NotBegun`.
    pub(crate) fn by(
        expired: &(dyn Fn() -> bool + Sync),
        visit: impl FnOnce() -> io::Result<Self>,
    ) -> Self {
        if expired() {
            return Self::NotBegun;
        }
        visit().unwrap_or_else(|error| {
            let late = error.kind() == io::ErrorKind::TimedOut && expired();
            if late { Self::NotBegun } else { Self::Unreadable(error) }
        })
    }
}

// A number of artifacts, and the names of the first ones.
#[derive(Default)]
pub(crate) struct NameList {
    count: u64,
    shown: Vec<String>,
}

impl SearchOmissions {
    pub(crate) fn of(self, corpus: &dyn Corpus) -> Self {
        let unlisted = NameList::of(corpus.unlisted());
        Self { closed_directories: corpus.closed_directories(), unlisted, ..self }
    }

    // Returns the result of a visit. If there is none, counts the artifact as left out, unless the
    // artifact is gone.
    pub(crate) fn note<T>(&mut self, visited: Visited<T>, name: impl Fn() -> String) -> Option<T> {
        match visited {
            Visited::Done(result) => return Some(result),
            Visited::Closed => self.closed += 1,
            Visited::Binary => self.binary.push(name()),
            Visited::Unreadable(error) => self.unreadable.push(format!("{} ({error})", name())),
            Visited::Gone | Visited::NotBegun => {}
        }
        None
    }

    pub(crate) fn is_final(&self) -> bool {
        self.unreadable.count() == 0 && self.unlisted.count() == 0
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines =
            [self.closed_line(), self.binary_line(), self.unreadable_line(), self.unlisted_line()];
        lines.into_iter().flatten().collect()
    }

    fn closed_line(&self) -> Option<String> {
        let closed = ClosedCounts { artifacts: self.closed, directories: self.closed_directories };
        Some(format!("{}, and not searched", closed.text()?))
    }

    fn binary_line(&self) -> Option<String> {
        let names = some(&self.binary)?;
        let verb = if names.count() == 1 { "is" } else { "are" };
        let artifacts = counted(names.count(), "artifact");
        Some(format!("{artifacts} {verb} not text, and not searched: {}", names.text()))
    }

    fn unreadable_line(&self) -> Option<String> {
        let names = some(&self.unreadable)?;
        let artifacts = counted(names.count(), "artifact");
        Some(format!("{artifacts} could not be read: {}", names.text()))
    }

    fn unlisted_line(&self) -> Option<String> {
        let names = some(&self.unlisted)?;
        let places = counted(names.count(), "place");
        Some(format!("{places} could not be read, and not searched: {}", names.text()))
    }
}

fn some(names: &NameList) -> Option<&NameList> {
    Some(names).filter(|names| names.count() > 0)
}

impl NameList {
    pub(crate) fn of((count, first): (u64, Vec<String>)) -> Self {
        let mut names = Self::default();
        for name in first {
            names.push(name);
        }
        Self { count, ..names }
    }

    pub(crate) fn push(&mut self, name: String) {
        self.count += 1;
        let bytes: usize = self.shown.iter().map(String::len).sum();
        if bytes + name.len() <= NAMES_BYTES && self.shown.len() as u64 == self.count - 1 {
            self.shown.push(name);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    // Formats the list: `a, b and 3 more`.
    pub(crate) fn text(&self) -> String {
        let shown = self.shown.join(", ");
        match self.count - self.shown.len() as u64 {
            0 => shown,
            more if shown.is_empty() => format!("{more} with long names"),
            more => format!("{shown} and {more} more"),
        }
    }
}

/// The number of artifacts and directories that a text about many artifacts leaves out because its
/// reader has no permission to read them. A directory counts once for everything below it. An
/// artifact is counted only if the reader may read its directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract above tells it")]
pub struct ClosedCounts {
    pub artifacts: u64,
    pub directories: u64,
}

impl ClosedCounts {
    // Formats the counts: `2 artifacts and 1 directory are closed to you`. Returns `None` if both
    // are 0.
    pub(crate) fn text(self) -> Option<String> {
        let artifacts = counted(self.artifacts, "artifact");
        let directories = match self.directories {
            1 => "1 directory".to_owned(),
            more => format!("{more} directories"),
        };
        let verb = if self.artifacts + self.directories == 1 { "is" } else { "are" };
        let what = match (self.artifacts, self.directories) {
            (0, 0) => return None,
            (_, 0) => artifacts,
            (0, _) => directories,
            _ => format!("{artifacts} and {directories}"),
        };
        Some(format!("{what} {verb} closed to you"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_those_of_ripgrep() {
        let has = |globs: &[&str], path: &str| {
            let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            PathFilter::new(&globs).has(&RelPath::new(path).unwrap())
        };
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a.log", "b.txt", "tool/a.log", "tool/deep/c.log", "terminal/a.txt"];
        for path in paths {
            let file = directory.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        for globs in [
            &["*.log"][..],
            &["!*.log"],
            &["tool/*.log"],
            &["/a.log"],
            &["a.*", "!tool/a.*"],
            &["!*", "a.log"],
            &["!tool"],
            &["!deep/"],
            &["*.{log,txt}", "!**/deep/**"],
        ] {
            let mut rg = std::process::Command::new("rg");
            rg.args(["--no-config", "-l", "x", "--sort=path"]).current_dir(directory.path());
            for glob in globs {
                rg.args(["-g", glob]);
            }
            let found = String::from_utf8(rg.output().unwrap().stdout).unwrap();
            let mut found: Vec<&str> = found.lines().collect();
            let mut own: Vec<&str> = paths.into_iter().filter(|path| has(globs, path)).collect();
            found.sort_unstable();
            own.sort_unstable();
            assert_eq!(own, found, "{globs:?}");
        }
        let bad = PathFilter::new(&["[".to_owned()]);
        assert!(bad.bad.is_some() && bad.has(&RelPath::new("x").unwrap()));
    }

    #[test]
    fn it_says_how_many() {
        for (artifacts, directories, want) in [
            (0, 0, None),
            (1, 0, Some("1 artifact is closed to you")),
            (0, 2, Some("2 directories are closed to you")),
            (1200, 1, Some("1,200 artifacts and 1 directory are closed to you")),
        ] {
            let closed = ClosedCounts { artifacts, directories };
            assert_eq!(closed.text().as_deref(), want);
        }
    }
}

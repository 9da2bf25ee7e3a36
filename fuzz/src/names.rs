//! Names of views and their arguments. The input is a name, a NUL byte, and the content of the
//! artifact.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::subject::Artifact;
use ctxfs_core::model::{Limits, is_scratch};
use ctxfs_view::{CorpusQuery, Derived, LineRange, Reading, View, ViewDir, readings};

/// Maximum bytes of the notice of a truncated view. The notice has one or two lines with paths and
/// the query.
const NOTICE: usize = 16 << 10;

/// Asserts that the printed form of every name is a name with the same meaning, and that each view
/// keeps its size limit.
pub fn names(data: &[u8]) {
    let (name, content) = match memchr::memchr(0, data) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b"one\ntwo: 2\nthree\n"[..]),
    };
    let name = OsStr::from_bytes(name);
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return;
    }
    let artifact = Artifact::new(content);
    beside(name);
    for dir in ViewDir::ALL.iter().copied() {
        if let Some(reading) = dir.child(name) {
            inside(dir, &reading, &artifact, content);
        }
    }
    let of_many = |name: &OsStr| CorpusQuery::named(ViewDir::Grep, name);
    if let Some(CorpusQuery::Grep(query)) = of_many(name) {
        let again = query.to_string();
        if !again.contains(char::REPLACEMENT_CHARACTER) {
            assert_eq!(of_many(OsStr::new(&again)), Some(CorpusQuery::Grep(query)));
        }
    }
}

/// Asserts that each reading of a name next to an artifact is the name of the artifact with one or
/// two suffixes.
fn beside(name: &OsStr) {
    let mut shortest = name.len();
    for (stem, Reading { base, derived }) in readings(name) {
        assert!(
            !stem.is_empty() && !is_scratch(stem) && stem.len() < shortest,
            "{}",
            stem.display()
        );
        shortest = stem.len();
        let mut printed = stem.as_bytes().to_vec();
        printed.extend(base.iter().flat_map(|base| base.to_string().into_bytes()));
        match derived {
            Derived::File(view) => {
                printed.extend(view.to_string().into_bytes());
                assert_eq!(printed, name.as_bytes(), "{base:?} {view:?}");
            }
            Derived::Dir(_) => assert!(name.as_bytes().starts_with(&printed), "{base:?}"),
        }
    }
}

/// Checks a name in a directory of views.
fn inside(dir: ViewDir, Reading { base, derived }: &Reading, artifact: &Artifact, content: &[u8]) {
    if let Some(base) = base {
        assert!(base.has_views(), "{base:?}");
        comes_back(dir, base);
    }
    let Derived::File(view) = derived else { return assert!(base.is_some()) };
    comes_back(dir, view);
    if matches!(view, View::Jq(_)) {
        return;
    }
    let (printed, shown) = (view.to_string(), artifact.show(view));
    if let View::Lines(range) = view
        && !artifact.analysis().is_binary()
    {
        assert_eq!(shown.as_deref(), lines(*range, content), "{printed}");
    }
    if let Some(shown) = shown {
        let unlimited = printed.contains("-m0");
        let most = Limits::VIEW_BYTES + NOTICE;
        assert!(unlimited || shown.len() <= most, "{printed}: {} bytes", shown.len());
    }
}

/// Returns the lines in `range`. Returns `None` if the range starts after the last line. The last
/// lines of empty content are empty, as for `tail`.
fn lines(range: LineRange, content: &[u8]) -> Option<&[u8]> {
    let ends = memchr::memchr_iter(b'\n', content).map(|at| at + 1);
    let mut starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
    starts.retain(|start| *start < content.len());
    let count = starts.len() as u64;
    let (first, last) = match range {
        LineRange::Between { first, last } => (first, last.min(count)),
        LineRange::Last(_) if content.is_empty() => return Some(content),
        LineRange::Last(wanted) => (count.saturating_sub(wanted) + 1, count),
    };
    let start = *starts.get(first as usize - 1)?;
    let end = starts.get(last as usize).copied().unwrap_or(content.len());
    Some(&content[start..end])
}

/// Asserts that the printed name of `view` is a name of the same view. Names that are not UTF-8 are
/// not checked: they are printed with replacement characters.
fn comes_back(dir: ViewDir, view: &View) {
    let printed = view.to_string();
    let (_, name) = printed.split_once('/').expect("a directory and a name");
    if !name.contains(char::REPLACEMENT_CHARACTER) {
        let again = dir.child(OsStr::new(name)).expect("what is printed is a name");
        assert_eq!(again.derived, Derived::File(view.clone()), "{printed}");
    }
}

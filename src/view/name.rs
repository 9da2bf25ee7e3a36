//! Parsing of view names such as `9f3k.txt.summary`, and of the arguments in names, such as
//! `<query>` in `X.grep/<query>`.
//!
//! An argument encodes `/` as `%2F`, `%` as `%25` and a dot that would change its meaning as `%2E`.
//! Every other byte stands for itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::catalog::CATALOG;
use crate::{Derived, View, ViewDir};
use ctxfs_core::model::is_scratch;

// A Linux path has at most 4,095 bytes and a NUL.
const MAX_NAME_BYTES: usize = 4095;

/// The meaning of a name beside an artifact. The name refers to something that is derived from the
/// artifact, or from the text of one of its views.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The view from whose text it is derived, or `None` if it is derived from the artifact itself.
    pub base: Option<View>,
    /// The file or directory that the name refers to.
    pub derived: Derived,
}

impl Reading {
    /// Returns the same reading, derived from the text of `base`, or `None` if that does not exist.
    /// If `base` is `None`, returns the reading unchanged.
    pub fn below(self, base: Option<&View>) -> Option<Self> {
        match (&self.base, base) {
            (_, None) => Some(self),
            (None, Some(base)) => Self::of_view(base.clone(), self.derived),
            (Some(_), Some(_)) => None,
        }
    }

    fn of_artifact(derived: Derived) -> Self {
        Self { base: None, derived }
    }

    fn of_view(base: View, derived: Derived) -> Option<Self> {
        let exists = base.has_views()
            && derived.view_type().is_of_views
            && derived != Derived::File(base.clone());
        exists.then(|| Self { base: Some(unlimited(base)), derived })
    }
}

// Lifts the size limit of a view, so that other views are derived from its complete text.
fn unlimited(view: View) -> View {
    match view {
        View::Jq(filter) if filter.options().max.is_none() => View::Jq(filter.at_most(0)),
        other => other,
    }
}

/// Returns the possible readings of `name`. Each comes with the file name that it assumes, the
/// longest file name first.
///
/// `9f3k.json.pretty.tail` is the tail of the file `9f3k.json.pretty` if that file exists.
/// Otherwise it is the tail of the `.pretty` view of `9f3k.json`. The caller uses the first reading
/// whose file exists. Scratch names (`model::is_scratch`) have no views.
pub fn readings(name: &OsStr) -> impl Iterator<Item = (&OsStr, Reading)> {
    let of_artifact = split(name);
    let of_view = of_artifact.as_ref().and_then(|(stem, derived)| {
        let (stem, Derived::File(base)) = split(stem)? else { return None };
        Some((stem, Reading::of_view(base, derived.clone())?))
    });
    let of_artifact = of_artifact.map(|(stem, derived)| (stem, Reading::of_artifact(derived)));
    of_artifact.into_iter().chain(of_view)
}

// Splits `9f3k.txt.summary` into `9f3k.txt` and the summary.
fn split(name: &OsStr) -> Option<(&OsStr, Derived)> {
    let (stem, derived) = suffixed(name)?;
    let named = !stem.is_empty() && !is_scratch(stem);
    named.then(|| (stem, derived.clone()))
}

fn suffixed(name: &OsStr) -> Option<(&OsStr, &'static Derived)> {
    CATALOG.iter().find_map(|derived| {
        let suffix = derived.view_type().suffix.as_bytes();
        let stem = name.as_bytes().strip_suffix(suffix)?;
        Some((OsStr::from_bytes(stem), derived))
    })
}

impl ViewDir {
    /// Returns the meaning of `name` in the directory, or `None` if the name has no meaning there.
    ///
    /// If a view in the directory has views of its own, their directories are in the same
    /// directory. `<filter>.grep` has the searches in the output of the filter, `.find` its
    /// passages, `.lines` and `.pages` its parts. Any other suffix at the end of a filter is a key.
    /// A filter that ends with a key of one of these four names must spell it as in `["lines"]`,
    /// because a look-up does not say whether it expects a file or a directory.
    pub fn child(self, name: &OsStr) -> Option<Reading> {
        let of_view = suffixed(name).and_then(|(stem, derived)| match derived {
            Derived::Dir(_) if !stem.is_empty() => {
                Reading::of_view(self.view(stem)?, derived.clone())
            }
            Derived::Dir(_) | Derived::File(_) => None,
        });
        of_view.or_else(|| self.view(name).map(|view| Reading::of_artifact(Derived::File(view))))
    }
}

/// Decodes the argument in a name. Returns `None` for names that programs probe on their own, and
/// for names that do not fit into a path.
pub(super) fn decoded(name: &OsStr) -> Option<Vec<u8>> {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || is_probe(name) {
        return None;
    }
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, used) = match rest.get(..3) {
            Some(b"%2F") => (b'/', 3),
            Some(b"%25") => (b'%', 3),
            Some(b"%2E") => (b'.', 3),
            _ => (first, rest.len() - after.len()),
        };
        text.push(byte);
        rest = &rest[used..];
    }
    Some(text)
}

pub(super) fn encoded(text: &[u8], which: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    for byte in text {
        if which.contains(byte) {
            name.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            name.push(*byte);
        }
    }
    name
}

// Returns true if a name is never read as an argument. The dots of such an argument are escaped.
pub(super) fn is_taken(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || is_probe(name)
}

// Names that ripgrep, fd, git, npm, cargo, rustup, pyenv, editors and file managers look up.
const PROBED_NAMES: &[&[u8]] = &[
    b".git",
    b".gitignore",
    b".ignore",
    b".rgignore",
    b".fdignore",
    b".gitattributes",
    b".gitmodules",
    b"HEAD",
    b".npmrc",
    b"package.json",
    b".python-version",
    b"rust-toolchain",
    b"rust-toolchain.toml",
    b"Cargo.toml",
    b".editorconfig",
    b".DS_Store",
    b"4913",
];

/// Returns true for a name that programs look up on their own in any directory. Query directories
/// do not contain such names: a program would take the empty result for a configuration file.
fn is_probe(name: &[u8]) -> bool {
    PROBED_NAMES.contains(&name)
        || is_swap(name)
        || [&b".#"[..], b".nfs", b".fuse_hidden"].iter().any(|start| name.starts_with(start))
        || (name.len() > 1 && name.ends_with(b"~"))
        || is_temporary(name)
}

// Matches the swap files of vim and nano, such as `.x.swp`.
fn is_swap(name: &[u8]) -> bool {
    name.first() == Some(&b'.')
        && name.len() > 5
        && name[..name.len() - 1].ends_with(b".sw")
        && name[name.len() - 1].is_ascii_lowercase()
}

// Matches `x.<32 hexadecimal digits>.tmp`, a file that a file server writes and then renames.
fn is_temporary(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b".tmp").unwrap_or_default();
    stem.len() > 33 && {
        let (rest, digits) = stem.split_at(stem.len() - 32);
        rest.ends_with(b".") && digits.iter().all(u8::is_ascii_hexdigit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str) -> Option<(&str, Derived)> {
        split(OsStr::new(name)).map(|(stem, derived)| (stem.to_str().unwrap(), derived))
    }

    #[test]
    fn view_names() {
        let file = |view| Some(("x.txt", Derived::File(view)));
        assert_eq!(parts("x.txt.summary"), file(View::Summary));
        assert_eq!(parts("x.txt.tail"), file(View::Tail));
        assert_eq!(parts("x.txt.head"), file(View::Head));
        assert_eq!(parts("x.txt.errors"), file(View::Errors));
        assert_eq!(parts("x.txt.terms"), file(View::Terms));
        assert_eq!(parts("x.txt.pretty"), file(View::Pretty));
        assert_eq!(parts("x.txt.meta.json"), file(View::Meta));
        assert_eq!(parts("x.txt.ref.json"), file(View::Ref));
        assert_eq!(parts("x.txt.envelope.json"), file(View::Envelope));
        assert_eq!(parts("x.txt.handle"), file(View::Handle));
        assert_eq!(parts("x.txt.preview"), file(View::Preview));
        assert_eq!(parts("x.grep"), Some(("x", Derived::Dir(ViewDir::Grep))));
        assert_eq!(parts("x.lines"), Some(("x", Derived::Dir(ViewDir::Lines))));
        assert_eq!(parts("x.pages"), Some(("x", Derived::Dir(ViewDir::Pages))));
        assert_eq!(parts("x.tail.tail"), Some(("x.tail", Derived::File(View::Tail))));
    }

    #[test]
    fn other_names() {
        for name in
            ["", ".summary", "summary", "x.txt", "x.summary.txt", ".x.summary", "x.tmp.tail"]
        {
            assert_eq!(parts(name), None, "{name}");
        }
    }

    #[test]
    fn views_of_folded_text() {
        let base = |name: &str| readings(OsStr::new(name)).nth(1).and_then(|(_, it)| it.base);
        assert_eq!(base("x.wrap.tail"), Some(View::Wrap));
        assert_eq!(base("x.pretty.wrap"), Some(View::Pretty));
        assert_eq!(base("x.wrap.wrap"), None);
        assert_eq!(base("x.wrap.errors"), None);
    }

    #[test]
    fn views_of_views() {
        let read = |name: &'static str| -> Vec<(&str, Reading)> {
            let readings = readings(OsStr::new(name));
            readings.map(|(stem, reading)| (stem.to_str().unwrap(), reading)).collect()
        };
        let tail = |base| Reading { base, derived: Derived::File(View::Tail) };
        assert_eq!(read("x.tail"), [("x", tail(None))]);
        assert_eq!(
            read("x.pretty.tail"),
            [("x.pretty", tail(None)), ("x", tail(Some(View::Pretty)))]
        );
        for (suffix, dir) in [
            (".grep", ViewDir::Grep),
            (".find", ViewDir::Find),
            (".lines", ViewDir::Lines),
            (".pages", ViewDir::Pages),
        ] {
            let name = format!("x.pretty{suffix}");
            let (stem, reading) = readings(OsStr::new(&name)).nth(1).unwrap();
            assert_eq!((stem, reading.base), (OsStr::new("x"), Some(View::Pretty)));
            assert_eq!(reading.derived, Derived::Dir(dir));
        }
        for name in [
            "x.tail.tail",
            "x.grep.tail",
            "x.pretty.pretty",
            "x.pretty.summary",
            "x.pretty.meta.json",
        ] {
            assert_eq!(read(name).len(), 1, "{name}");
        }
        // At most two suffixes are recognized, and none after scratch names.
        assert_eq!(read("x.pretty.tail.tail")[0].0, "x.pretty.tail");
        assert_eq!(read("x.pretty.tail.tail").len(), 1);
        assert_eq!(read("x.tmp.pretty.tail").len(), 1);
        assert!(read("x.txt").is_empty());
    }

    /// Only the output of a filter can be searched and read in parts. Elsewhere these suffixes
    /// belong to the argument.
    #[test]
    fn names_in_directories_of_views() {
        let child = |name: &str| ViewDir::Jq.child(OsStr::new(name)).unwrap();
        let search = child(".a.grep");
        assert_eq!(search.base.unwrap().to_string(), ".jq/-m0 .a");
        assert_eq!(search.derived, Derived::Dir(ViewDir::Grep));
        assert_eq!(child("-m3 .a.grep").base.unwrap().to_string(), ".jq/-m3 .a");
        for (name, dir) in
            [(".a.find", ViewDir::Find), (".a.lines", ViewDir::Lines), (".a.pages", ViewDir::Pages)]
        {
            assert_eq!(child(name).base.unwrap().to_string(), ".jq/-m0 .a");
            assert_eq!(child(name).derived, Derived::Dir(dir));
        }
        for key in [".a[\"lines\"]", ".a.tail", ".a.head", ".a.jq", ".grep.a"] {
            assert_eq!(child(key).base, None, "{key}");
        }
        let query = ViewDir::Grep.child(OsStr::new("x.grep")).unwrap();
        assert_eq!(query.base, None);
        let Derived::File(view) = query.derived else { panic!("a directory") };
        assert_eq!(view.to_string(), ".grep/x.grep");
        assert_eq!(ViewDir::Lines.child(OsStr::new("7.grep")), None);
        assert_eq!(ViewDir::Pages.child(OsStr::new("0007.pages")), None);
    }

    #[test]
    fn probes() {
        let names = [
            ".git",
            "HEAD",
            "4913",
            "Cargo.toml",
            ".timeout.swp",
            ".x.swo",
            ".#x",
            "x~",
            ".nfs0001",
            ".fuse_hidden0001",
            "x.0123456789abcdef0123456789abcdef.tmp",
        ];
        for name in names {
            assert!(is_probe(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn queries() {
        let names =
            ["[H]EAD", "HEAD ", "git", "~", "x.tmp", ".", ".swp", "a.swp", "0123.tmp", ".x"];
        for name in names {
            assert!(!is_probe(name.as_bytes()), "{name}");
        }
    }
}

//! The names of views: `9f3k.txt.summary` and the rest.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use crate::model::is_scratch;
use crate::view::Derived;
use crate::view::LineRange;
use crate::view::PageNumber;
use crate::view::Query;
use crate::view::View;
use crate::view::ViewDir;

/// The views that directories list beside an artifact, in this order.
pub const LISTED: &[(&str, Derived)] = &[
    (".summary", Derived::File(View::Summary)),
    (".tail", Derived::File(View::Tail)),
    (".grep", Derived::Dir(ViewDir::Grep)),
];

/// The views that are found by name only.
const UNLISTED: &[(&str, Derived)] = &[
    (".head", Derived::File(View::Head)),
    (".lines", Derived::Dir(ViewDir::Lines)),
    (".pages", Derived::Dir(ViewDir::Pages)),
    (".pretty", Derived::File(View::Pretty)),
    (".meta.json", Derived::File(View::Meta)),
    (".ref.json", Derived::File(View::Ref)),
];

/// `9f3k.txt.summary` as `9f3k.txt` and the summary; none where the name is no view's.
///
/// Scratch names (`model::is_scratch`) have no views. Whether the file itself exists is for the
/// caller to find out.
pub fn split(name: &OsStr) -> Option<(&OsStr, Derived)> {
    let (stem, derived) = LISTED.iter().chain(UNLISTED).find_map(|(suffix, derived)| {
        let stem = name.as_bytes().strip_suffix(suffix.as_bytes())?;
        Some((OsStr::from_bytes(stem), derived.clone()))
    })?;
    let named = !stem.is_empty() && !is_scratch(stem);
    named.then_some((stem, derived))
}

impl ViewDir {
    /// The view of this name in the directory; none where the name is none that it can have.
    pub fn child(self, name: &OsStr) -> Option<View> {
        match self {
            Self::Grep => Query::parse(name).map(View::Grep),
            Self::Lines => LineRange::parse(name.as_bytes()).map(View::Lines),
            Self::Pages => PageNumber::parse(name.as_bytes()).map(View::Page),
        }
    }
}

/// What follows the artifact's path: `.summary`, `.grep/-i timeout`.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Summary => f.write_str(".summary"),
            Self::Tail => f.write_str(".tail"),
            Self::Head => f.write_str(".head"),
            Self::Lines(range) => write!(f, ".lines/{range}"),
            Self::Page(page) => write!(f, ".pages/{page}"),
            Self::Grep(query) => write!(f, ".grep/{query}"),
            Self::Pretty => f.write_str(".pretty"),
            Self::Meta => f.write_str(".meta.json"),
            Self::Ref => f.write_str(".ref.json"),
        }
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
        assert_eq!(parts("x.txt.pretty"), file(View::Pretty));
        assert_eq!(parts("x.txt.meta.json"), file(View::Meta));
        assert_eq!(parts("x.txt.ref.json"), file(View::Ref));
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
    fn every_view_prints_the_name_that_finds_it() {
        for (suffix, derived) in LISTED.iter().chain(UNLISTED) {
            match derived {
                Derived::File(view) => assert_eq!(view.to_string(), *suffix),
                Derived::Dir(dir) => {
                    let view = dir.child(OsStr::new("7777")).unwrap();
                    assert!(view.to_string().starts_with(&format!("{suffix}/7777")));
                }
            }
        }
    }
}

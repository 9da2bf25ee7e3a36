//! Parsing of view names such as `9f3k.txt.summary`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::catalog::CATALOG;
use crate::{Derived, View, ViewDir};
use ctxfs_core::model::is_scratch;

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
    /// Returns the same file or directory, but derived from the text of `base`. Returns `None` if
    /// `base` has no such view. If `base` is `None`, returns the reading unchanged.
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
    /// In `X.jq/`, the output of a filter has directories of views beside it: `<filter>.grep`,
    /// `<filter>.find`, `<filter>.lines` and `<filter>.pages`. Any other suffix is a key at the end
    /// of the filter.
    ///
    /// A filter whose last key has one of these four names must spell it as in `["lines"]`. With
    /// `.lines`, the name would always mean the directory, because a look-up does not tell if it
    /// expects a file.
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
}

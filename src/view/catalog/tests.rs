//! Checks everything that is generated from each row of the catalog.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::catalog::{CATALOG, MOST_REAL, is_like_listed};
use crate::filter::DIRS;
use crate::{Derived, IgnoredIn, RenderCost, View, ViewDir, ignore, listed, readings, readme};
use ctxfs_core::model::Root;

/// An argument that is valid in every directory of views: as a pattern, line, filter or page.
const ARGUMENT: &str = "7777";

#[test]
fn each_name_parses_and_prints_back_to_itself() {
    for derived in CATALOG {
        let suffix = derived.view_type().suffix;
        let name = format!("x.txt{suffix}");
        let (stem, reading) = readings(OsStr::new(&name)).next().unwrap();
        assert_eq!((stem, &reading.derived), (OsStr::new("x.txt"), derived), "{name}");
        match derived {
            Derived::File(view) => assert_eq!(view.to_string(), suffix),
            Derived::Dir(dir) => {
                let printed = dir.view(OsStr::new(ARGUMENT)).unwrap().to_string();
                let argument = printed.strip_prefix(&format!("{suffix}/")).unwrap();
                assert!(argument.starts_with(ARGUMENT), "{printed}");
                let again = dir.child(OsStr::new(argument)).unwrap();
                let Derived::File(view) = again.derived else { panic!("{printed}") };
                assert_eq!(view.to_string(), printed);
            }
        }
    }
}

/// A filter may end like the name of a directory of views. It is then printed in an escaped form.
#[test]
fn a_filter_is_no_directory_of_views() {
    let dirs = ViewDir::ALL.iter().map(|dir| dir.view_type());
    let of_views: Vec<&str> = dirs.filter(|row| row.is_of_views).map(|row| row.suffix).collect();
    assert_eq!(of_views, DIRS.to_vec());
    for suffix in DIRS {
        let name = format!(".a%2E{}", &suffix[1..]);
        let view = ViewDir::Jq.view(OsStr::new(&name)).unwrap();
        assert_eq!(view.to_string(), format!(".jq/{name}"));
        let again = ViewDir::Jq.child(OsStr::new(&name)).unwrap();
        assert_eq!(again.derived, Derived::File(view));
    }
}

#[test]
fn each_view_is_explained_in_the_readme() {
    let text = readme(&Root::All("/mnt/ctx".to_owned()));
    // Directories that a setting has to enable are skipped.
    for derived in CATALOG.iter().filter(|derived| derived.cost() != RenderCost::Model) {
        let end = if matches!(derived, Derived::Dir(_)) { "/" } else { "`" };
        let name = format!("\n| `X{}{end}", derived.view_type().suffix);
        assert!(text.contains(&name), "{name}");
    }
    assert!(text.len() < 4096, "{} bytes", text.len());
}

#[test]
fn suffixes_and_kinds_are_unique() {
    for (at, derived) in CATALOG.iter().enumerate() {
        let row = derived.view_type();
        for other in CATALOG[at + 1..].iter().map(Derived::view_type) {
            assert!(!other.suffix.ends_with(row.suffix) && !row.suffix.ends_with(other.suffix));
            assert_ne!(row.kind(), other.kind());
        }
    }
}

#[test]
fn directories_list_three_views() {
    let names: Vec<&str> = listed().map(|(suffix, _)| suffix).collect();
    assert_eq!(names, [".summary", ".tail", ".grep"]);
}

#[test]
fn kinds_are_words() {
    let page = ViewDir::Pages.view(OsStr::new("0001")).unwrap();
    assert_eq!(
        [View::Summary, View::Meta, page].map(|view| view.kind()),
        ["summary", "meta", "pages"]
    );
}

#[test]
fn a_readme_is_short_and_names_the_tree() {
    let text = readme(&Root::All("/mnt/ctx/".to_owned()));
    assert!(text.len() < 4096, "{}", text.len());
    assert!(text.contains("/mnt/ctx/<conversation>/artifacts/tool/"));
    assert!(!text.contains('{'));
    let text = readme(&Root::One("/mnt/ctx/".to_owned()));
    assert!(text.contains("/mnt/ctx/artifacts/tool/"));
    assert!(!text.contains('{') && !text.contains("c7") && !text.contains("<conversation>"));
    assert!(text.is_ascii());
}

const HEAD: &str = "# Computed views. They repeat what stands beside them.\n";

#[test]
fn listed_views_are_ignored() {
    let all = ignore(&IgnoredIn::Top(&Root::All("/ctx".to_owned())));
    let lines = "/*/artifacts/**/*.summary\n/*/artifacts/**/*.tail\n/*/artifacts/**/*.grep/\n\
                 /*/history/messages.json\n";
    assert_eq!(all, format!("{HEAD}{lines}"));
    let one = ignore(&IgnoredIn::Top(&Root::One("/ctx".to_owned())));
    assert_eq!(one, format!("{HEAD}{}", lines.replace("/*/", "/")));
    let dir = ignore(&IgnoredIn::Artifacts(&[]));
    assert_eq!(dir, format!("{HEAD}*.summary\n*.tail\n*.grep/\n"));
}

#[test]
fn real_names_are_not_ignored() {
    let names = [&b"x.summary"[..], b"[a]*{b}?\\c.tail", b"#\xff\x01.grep"];
    let names = names.map(|name| OsStr::from_bytes(name).to_owned());
    let text = ignore(&IgnoredIn::Artifacts(&names));
    let lines = "!/x.summary\n!/\\[a\\]\\*\\{b\\}\\?\\\\c.tail\n!/#??.grep\n";
    assert_eq!(text, format!("{HEAD}*.summary\n*.tail\n*.grep/\n{lines}"));
    let many = vec![names[0].clone(); MOST_REAL + 1];
    assert!(!ignore(&IgnoredIn::Artifacts(&many)).contains('*'));
    for (name, is_like) in [("a.summary", true), ("a.head", false), (".a.tail", false)] {
        assert_eq!(is_like_listed(OsStr::new(name)), is_like, "{name}");
    }
}

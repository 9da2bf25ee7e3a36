//! The pages: `docs/SEMANTICS.md`, and every file in `docs/semantics`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// A page and its path in the repository.
pub(super) struct Page {
    pub(super) path: String,
    pub(super) text: String,
}

/// The page that links to all others.
const FIRST: &str = "docs/SEMANTICS.md";
/// The directory of the other pages.
const DIRECTORY: &str = "docs/semantics";

/// Reads all pages, `SEMANTICS.md` first. Lists the directory, so that no new page is left out.
pub(super) fn all() -> Vec<Page> {
    let names =
        fs::read_dir(top().join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut others: Vec<String> =
        names.map(|name| format!("{DIRECTORY}/{}", name.to_str().unwrap())).collect();
    others.sort();
    let paths = [FIRST.to_owned()].into_iter().chain(others);
    paths.map(|path| Page { text: fs::read_to_string(top().join(&path)).unwrap(), path }).collect()
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_page_is_a_linked_page_in_ascii() {
    let pages = all();
    let (first, others) = pages.split_first().unwrap();
    assert!(others.len() > 10, "{} pages", others.len());
    for Page { path, text } in others {
        let link = format!("]({})", path.strip_prefix("docs/").unwrap());
        let extension = Path::new(path).extension();
        assert_eq!(extension, Some(OsStr::new("md")), "{path} is not a page");
        assert!(first.text.contains(&link), "{FIRST} does not link to {path}");
        assert!(text.contains("](../SEMANTICS.md#"), "{path} does not link to {FIRST}");
    }
    assert!(pages.iter().all(|page| page.text.is_ascii()));
}

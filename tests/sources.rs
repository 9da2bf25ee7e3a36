//! The sources below `src` as text, for tests that read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Returns the text of each file below `src`, by its path there without the extension.
pub(crate) fn sources() -> BTreeMap<String, String> {
    let src = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let (mut open, mut found) = (vec![src.to_owned()], BTreeMap::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(src).unwrap().with_extension("").display().to_string();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// Returns the code of a file without comments and groups of imports: `use a::{b, c::{d, e}};`
/// becomes `use a::b, a::c::d, a::c::e;`.
pub(crate) fn ungrouped(text: &str) -> String {
    static GROUP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"((?:\w+::)+)\{([^{}]*)\}").unwrap());
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = lines.collect::<Vec<_>>().join("\n");
    let apart = |group: &Captures<'_>| {
        let names = group[2].split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| format!("{}{name}", &group[1])).collect::<Vec<_>>().join(", ")
    };
    while GROUP.is_match(&code) {
        code = GROUP.replace_all(&code, apart).into_owned();
    }
    code
}

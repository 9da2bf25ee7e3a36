//! Names an artifact after the id of its call.

use std::ffi::OsString;

use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Folder, Json, is_scratch};

/// Maximum length in bytes of a call id that is used unchanged. With a number, an extension and the
/// suffix of a view, the name stays below the limit of 255 bytes.
const MAX_BYTES: usize = 200;
/// Number of hexadecimal digits of the digest that replaces a call id.
const DIGITS: usize = 32;

/// Returns the name for the first artifact of a call, without an extension.
///
/// The name is the id itself if the id is usable as a name: one component, not reserved, not a
/// scratch name and not too long. Otherwise the name is `call-` and a digest of the id, and the
/// writer stores the id in `Provenance::call`.
pub fn call_stem(call: &str) -> Component {
    Component::new(call).ok().filter(is_usable).unwrap_or_else(|| hashed(call))
}

fn numbered_stem(stem: &Component, number: u32) -> Component {
    if number == 1 { stem.clone() } else { joined(stem, &format!("-{number}")) }
}

#[derive(Debug, Clone)]
pub(super) struct CallNaming {
    stem: Component,
    folder: Folder,
    pub(super) number: u32,
}

impl CallNaming {
    pub(super) fn first(call: &str, folder: Folder) -> Self {
        Self { stem: call_stem(call), folder, number: 1 }
    }

    pub(super) fn at(&self, number: u32) -> Self {
        Self { number, ..self.clone() }
    }

    /// Returns names that are free. They have the lowest free number, unless artifacts with lower
    /// numbers were removed. Calls `is_taken` about 2 log2(number) times.
    pub(super) fn free<E>(self, is_taken: impl Fn(&Self) -> Result<bool, E>) -> Result<Self, E> {
        let (mut taken, mut free) = (0, 1);
        while is_taken(&self.at(free))? {
            (taken, free) = (free, free.saturating_mul(2));
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            let half = if is_taken(&self.at(middle))? { &mut taken } else { &mut free };
            *half = middle;
        }
        Ok(self.at(free))
    }

    pub(super) fn folder(&self) -> Folder {
        self.folder
    }

    /// Returns the name used while the artifact is written. It is also the final name, unless the
    /// artifact is renamed to [`Self::json`].
    pub(super) fn name(&self) -> Component {
        let extension = match self.folder {
            Folder::Tool => ".txt",
            Folder::Terminal => ".log",
        };
        self.with(extension)
    }

    /// Returns the name for content that is a JSON value or JSON Lines. Returns `None` for a log.
    pub(super) fn json(&self) -> Option<Component> {
        (self.folder == Folder::Tool).then(|| self.with(".json"))
    }

    /// Returns all names that the artifact may have. A log may also have one name per stream.
    pub(super) fn all(&self) -> Vec<Component> {
        let others: &[&str] = match self.folder {
            Folder::Tool => &[".json"],
            Folder::Terminal => &[".stdout.log", ".stderr.log"],
        };
        let mut names = vec![self.name()];
        names.extend(others.iter().map(|extension| self.with(extension)));
        names
    }

    fn with(&self, extension: &str) -> Component {
        joined(&numbered_stem(&self.stem, self.number), extension)
    }
}

fn joined(stem: &Component, end: &str) -> Component {
    let mut name = OsString::from(stem);
    name.push(end);
    Component::new(name).unwrap_or_else(|_| stem.clone())
}

pub(super) fn is_json(json: &Json) -> bool {
    matches!(json, Json::Document { .. } | Json::Lines { .. })
}

fn is_usable(stem: &Component) -> bool {
    let short = stem.as_os_str().len() <= MAX_BYTES;
    short && !is_scratch(joined(stem, ".txt").as_os_str())
}

fn hashed(call: &str) -> Component {
    let mut analyzer = Analyzer::new();
    analyzer.push(call.as_bytes());
    let mut digest = analyzer.finish().digest;
    digest.truncate(DIGITS);
    Component::new(format!("call-{digest}")).expect("hexadecimal digits are a name")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_id_that_can_be_a_name_is_kept() {
        for call in ["9f3k", "call_1", "toolu 01:a", "a.b", "a~", "\u{fc}ber", &"x".repeat(200)] {
            assert_eq!(call_stem(call).to_text(), call);
        }
    }

    #[test]
    fn an_id_that_cannot_becomes_a_digest() {
        let long = "x".repeat(1536);
        let ids =
            ["", ".", "..", ".ctxfs", ".hidden", "a/b", "../../etc", "a\nb", &long, &long[1..]];
        let mut names: Vec<String> = ids.iter().map(|call| call_stem(call).to_text()).collect();
        for name in &names {
            assert!(name.starts_with("call-") && name.len() == 37, "{name}");
        }
        assert_eq!(call_stem(&long).to_text(), names[8]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ids.len());
    }

    #[test]
    fn the_first_free_number_is_found_with_few_questions() {
        for taken in [0, 1, 2, 3, 7, 8, 9, 1000, 1023, 1024] {
            let asked = Cell::new(0);
            let is_taken = |naming: &CallNaming| {
                asked.set(asked.get() + 1);
                Ok(naming.number <= taken)
            };
            let found = CallNaming::first("x", Folder::Tool).free(is_taken);
            let found: Result<_, ()> = found;
            let found = found.unwrap();
            assert_eq!(found.number, taken + 1);
            assert!(asked.get() <= 22, "{taken}: {}", asked.get());
        }
    }

    #[test]
    fn the_names_of_a_call() {
        let texts =
            |naming: CallNaming| naming.all().iter().map(Component::to_text).collect::<Vec<_>>();
        let tool = CallNaming::first("x", Folder::Tool);
        assert_eq!(texts(tool.at(1)), ["x.txt", "x.json"]);
        assert_eq!(texts(tool.at(3)), ["x-3.txt", "x-3.json"]);
        let log = CallNaming::first("x", Folder::Terminal);
        assert_eq!(texts(log.at(2)), ["x-2.log", "x-2.stdout.log", "x-2.stderr.log"]);
        assert_eq!(log.json(), None);
    }
}

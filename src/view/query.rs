//! The names under `X.grep/` and `.grep/`: ripgrep's options, and a pattern.

mod option;
mod resume;

use std::ffi::OsStr;
use std::fmt;

use option::SearchScope;
pub(super) use option::{Case, Options, next_word};
pub(super) use resume::ResumePoint;

use crate::argument;
use crate::position::TextPosition;

/// A search: options as in ripgrep, and a pattern of any bytes.
///
/// Options come first, each followed by a space. The pattern begins with the first word that is not
/// an option, so `-n` alone searches for `-n`; `--` or `-e` ends the options before a pattern that
/// looks like one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    options: Options,
    pattern: Vec<u8>,
}

impl Query {
    /// Reads a name. Returns `None` for names that programs probe on their own.
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        Self::parse_in(SearchScope::One, name)
    }

    /// Reads a name under the `.grep/` of a directory, which has more options: `-l`, and `--from`
    /// with the name of an artifact.
    pub fn of_many(name: &OsStr) -> Option<Self> {
        Self::parse_in(SearchScope::Many, name)
    }

    fn parse_in(scope: SearchScope, name: &OsStr) -> Option<Self> {
        let text = argument::decoded(name)?;
        let (options, pattern) = Options::parse(scope, &text);
        Some(Self { options, pattern: pattern.to_vec() })
    }

    /// Returns a search for a pattern, without options.
    pub(super) fn of(pattern: &str) -> Self {
        Self { options: Options::default(), pattern: pattern.as_bytes().to_vec() }
    }

    /// Returns a search for a pattern in any case.
    pub(super) fn ignoring_case(pattern: &str) -> Self {
        let options = Options { case: Case::Insensitive, ..Options::default() };
        Self { options, pattern: pattern.as_bytes().to_vec() }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Returns the same search from a line and column on.
    pub(super) fn from(&self, from: TextPosition) -> Self {
        Self { options: Options { from: Some(from), ..self.options.clone() }, ..self.clone() }
    }

    /// Returns the same search from a place in one of many artifacts on.
    pub(super) fn on(&self, mark: ResumePoint) -> Self {
        Self { options: Options { resume: Some(mark), ..self.options.clone() }, ..self.clone() }
    }

    /// Returns the same search with `lines` lines of context.
    pub(super) fn around(&self, lines: u64) -> Self {
        let options = Options { before: lines, after: lines, ..self.options.clone() };
        Self { options, ..self.clone() }
    }

    /// Returns the same search for at most `max` lines. 0 also lifts the limit on the size of the
    /// result.
    pub(super) fn at_most(&self, max: u64) -> Self {
        Self { options: Options { max: Some(max), ..self.options.clone() }, ..self.clone() }
    }

    pub(super) fn name(&self) -> Vec<u8> {
        let mut name = self.options.to_string().into_bytes();
        if self.pattern.is_empty() || self.pattern.starts_with(b"-") {
            name.extend_from_slice(b"-- ");
        }
        name.extend_from_slice(&self.pattern);
        let plain = argument::encoded(&name, b"%/");
        if argument::is_taken(&plain) {
            return argument::encoded(&[b"-- ", name.as_slice()].concat(), b"%/.");
        }
        plain
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name()))
    }
}

pub(super) fn name_of(pattern: &str) -> String {
    Query::of(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    use super::*;

    fn parse(name: &str) -> Query {
        Query::parse(OsStr::new(name)).unwrap()
    }

    #[test]
    fn only_three_escapes_decode() {
        assert_eq!(parse("a%2Fb%25c%2E").pattern(), b"a/b%c.");
        assert_eq!(parse("%2f%41%").pattern(), b"%2f%41%");
        assert_eq!(parse("%252F").pattern(), b"%2F");
    }

    #[test]
    fn probes_are_no_queries() {
        assert_eq!(Query::parse(OsStr::new(".gitignore")), None);
        assert_eq!(parse("%2Egitignore").pattern(), b".gitignore");
        assert_eq!(parse("[H]EAD").pattern(), b"[H]EAD");
        assert_eq!(parse("-- HEAD").pattern(), b"HEAD");
    }

    #[test]
    fn long_queries() {
        assert!(Query::parse(OsStr::new(&"x".repeat(4095))).is_some());
        assert_eq!(Query::parse(OsStr::new(&"x".repeat(4096))), None);
    }

    #[test]
    fn names_of_queries() {
        let query = parse("-i time/out 5%");
        assert_eq!(query.to_string(), "-i time%2Fout 5%25");
        let on = query.from(TextPosition { line: 5821, column: 1 });
        assert_eq!(on.to_string(), "--from=5821 -i time%2Fout 5%25");
        assert_eq!(query.at_most(0).to_string(), "-i -m0 time%2Fout 5%25");
        assert_eq!(name_of("HEAD"), "-- HEAD");
        assert_eq!(name_of(".."), "-- %2E%2E");
        assert_eq!(name_of("-n"), "-- -n");
    }

    proptest! {
        #[test]
        fn names_come_back(name in "(-[iSFwvcoxe]+ |-[ABCm][0-9]{1,3} |--from=[1-9]{1,4} |-- )?\\PC{1,20}") {
            if let Some(query) = Query::parse(OsStr::new(&name)) {
                let again = Query::parse(OsStr::from_bytes(&query.name()));
                prop_assert_eq!(again, Some(query));
            }
        }

        #[test]
        fn names_come_back_of_many(
            name in "(-[iSFwvcoxel]+ |-[ABCm][0-9]{1,3} |--from=\\PC{1,9}:[1-9]{1,4}(@7)?(\\+3)? )?\\PC{1,20}",
        ) {
            if let Some(query) = Query::of_many(OsStr::new(&name)) {
                let again = Query::of_many(OsStr::from_bytes(&query.name()));
                prop_assert_eq!(again, Some(query));
            }
        }

        #[test]
        fn any_bytes_are_a_query(name in proptest::collection::vec(1u8.., 1..40)) {
            if let Some(query) = Query::parse(OsStr::from_bytes(&name)) {
                let again = Query::parse(OsStr::from_bytes(&query.name()));
                prop_assert_eq!(again, Some(query));
            }
        }
    }
}

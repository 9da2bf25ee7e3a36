//! The names under `X.grep/` and `.grep/`: ripgrep's options and a pattern. Also the encoding of
//! all arguments in names.
//!
//! A name encodes `/` as `%2F` and `%` as `%25`. It encodes a dot as `%2E` if the name would have
//! another meaning with a plain dot, such as `..` or `.git`. Every other byte stands for itself.

mod options;
mod readings;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use crate::range;
use crate::range::TextPosition;
use ctxfs_core::model::RelPath;

pub(crate) use options::{CaseMode, SearchOptions, SearchScope, Syntax};
pub(crate) use readings::extended;

// A Linux path has at most 4,095 bytes and a NUL.
const MAX_NAME_BYTES: usize = 4095;
/// A search: options as in ripgrep and grep, and patterns of arbitrary bytes.
///
/// Options come first, each followed by a space. The pattern begins with the first word that is not
/// an option, so `-n` alone searches for `-n`. `--` ends the options, so that the pattern may look
/// like an option. There is more than one pattern only after `-e`. Any of them may match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    options: Box<SearchOptions>,
    patterns: Vec<Vec<u8>>,
}

impl Query {
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        Self::parse_in(SearchScope::One, name)
    }

    /// Parses a name under `.grep/`. The search of many artifacts takes `--from` with the name of an
    /// artifact.
    pub(super) fn parse_in(scope: SearchScope, name: &OsStr) -> Option<Self> {
        let text = decoded(name)?;
        let (options, patterns) = SearchOptions::parse(scope, &text);
        Some(Self { options: Box::new(options.settled()), patterns })
    }

    pub(super) fn of(pattern: &str) -> Self {
        let options = SearchOptions { literal: pattern.starts_with('-'), ..Default::default() };
        Self { options: Box::new(options), patterns: vec![pattern.as_bytes().to_vec()] }
    }

    pub(super) fn ignoring_case(pattern: &str) -> Self {
        Self::of(pattern).with(|options| options.case = CaseMode::Insensitive)
    }

    pub(super) fn options(&self) -> &SearchOptions {
        &self.options
    }

    pub(super) fn patterns(&self) -> &[Vec<u8>] {
        &self.patterns
    }

    fn with(&self, change: impl FnOnce(&mut SearchOptions)) -> Self {
        let mut query = self.clone();
        change(&mut query.options);
        query
    }

    pub(super) fn from(&self, from: TextPosition) -> Self {
        self.with(|options| options.from = Some(from))
    }

    pub(super) fn on(&self, mark: ResumePoint) -> Self {
        self.with(|options| options.resume = Some(mark))
    }

    pub(super) fn around(&self, lines: u64) -> Self {
        self.with(|options| {
            (options.before, options.after, options.around) = (None, None, lines);
        })
    }

    /// Returns the same search with at most `max` lines. 0 permits any number, and lifts the limit
    /// on the size of the result.
    pub(super) fn at_most(&self, max: u64) -> Self {
        self.with(|options| options.max = Some(max))
    }

    /// Returns the search that tells if any line matches one of the patterns.
    pub(super) fn probe(&self) -> Self {
        self.with(|options| {
            *options = SearchOptions {
                invert: false,
                count: true,
                names: false,
                without: false,
                only_matching: false,
                max: Some(1),
                ..options.clone()
            }
        })
    }

    /// Returns the first word of the pattern if it looks like an option and was not marked as text.
    pub(super) fn odd_option(&self) -> Option<&str> {
        let [pattern] = self.patterns.as_slice() else { return None };
        let (word, _) = next_word(pattern).filter(|_| !self.options.literal)?;
        let word = str::from_utf8(word).ok()?;
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        name.starts_with(|first: char| first.is_ascii_alphabetic()).then_some(word)
    }

    pub(super) fn name(&self) -> Vec<u8> {
        let mut name = self.options.to_string().into_bytes();
        match self.patterns.as_slice() {
            [pattern] => {
                if self.options.literal || pattern.is_empty() {
                    name.extend_from_slice(b"-- ");
                }
                name.extend_from_slice(pattern);
            }
            patterns => {
                let each = patterns.iter().map(|pattern| [b"-e ", pattern.as_slice()].concat());
                name.extend(each.collect::<Vec<_>>().join(&b' '));
            }
        }
        let plain = encoded(&name, b"%/");
        if is_taken(&plain) {
            return encoded(&[b"-- ", name.as_slice()].concat(), b"%/.");
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

// Returns the text before the first space, and the text after it.
pub(crate) fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

/// A place in one of many artifacts: `x.txt:5821`, `x.txt:5821@77`.
///
/// The path is the text of a `RelPath`, with `%20` for a blank and `%25` for `%`. `shown` is the
/// number of matching lines of the artifact that were already shown, which count towards `-m`:
/// `x.txt:5821+3`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ResumePoint {
    pub(crate) artifact: RelPath,
    pub(crate) at: TextPosition,
    pub(crate) shown: u64,
}

impl ResumePoint {
    fn parse(text: &str) -> Option<Self> {
        let (artifact, at) = text.rsplit_once(':').filter(|(artifact, _)| !artifact.is_empty())?;
        let (at, shown) = match at.split_once('+') {
            Some((at, shown)) => (at, range::number(shown)?),
            None => (at, 0),
        };
        // `%20` is replaced first, so that the `%` that results from `%25` cannot begin another
        // escape.
        let artifact = artifact.replace("%20", " ").replace("%25", "%");
        Some(Self {
            artifact: RelPath::from_text(&artifact).ok()?,
            at: TextPosition::parse(at)?,
            shown,
        })
    }
}

impl fmt::Display for ResumePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let artifact = self.artifact.to_text().replace('%', "%25").replace(' ', "%20");
        write!(f, "{artifact}:{}", self.at)?;
        if self.shown > 0 { write!(f, "+{}", self.shown) } else { Ok(()) }
    }
}

/// Decodes the argument in a name. Returns `None` for a name that programs look up in any
/// directory, such as `.git`, and for a name that is empty or does not fit into a path.
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

/// Returns true for a name that programs look up in any directory, such as `.git`. Query
/// directories do not contain such names: a program would take the empty result for a configuration
/// file.
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

    use proptest::prelude::*;

    fn parse(name: &str) -> Query {
        Query::parse(OsStr::new(name)).unwrap()
    }

    #[test]
    fn only_three_escapes_decode() {
        assert_eq!(parse("a%2Fb%25c%2E").patterns(), [b"a/b%c.".to_vec()]);
        assert_eq!(parse("%2f%41%").patterns(), [b"%2f%41%".to_vec()]);
        assert_eq!(parse("%252F").patterns(), [b"%2F".to_vec()]);
    }

    #[test]
    fn probes_are_no_queries() {
        assert_eq!(Query::parse(OsStr::new(".gitignore")), None);
        assert_eq!(parse("%2Egitignore").patterns(), [b".gitignore".to_vec()]);
        assert_eq!(parse("[H]EAD").patterns(), [b"[H]EAD".to_vec()]);
        assert_eq!(parse("-- HEAD").patterns(), [b"HEAD".to_vec()]);
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
        fn names_come_back(name in "(-[iSFwvcoxelLNHhPGEr]+ |-[ABCm][0-9]{1,3} |-[ABCmgt] \\PC{1,3} |--(from=[1-9]{1,4}|sort=x|column) |-- ){0,3}(-e \\PC{0,9} )?\\PC{1,20}") {
            if let Some(query) = Query::parse(OsStr::new(&name)) {
                let again = Query::parse(OsStr::from_bytes(&query.name()));
                prop_assert_eq!(again, Some(query));
            }
        }

        #[test]
        fn names_come_back_of_many(
            name in "(-[iSFwvcoxelLHhP]+ |-[ABCm][0-9]{1,3} |--from=\\PC{1,9}:[1-9]{1,4}(@7)?(\\+3)? )?\\PC{1,20}",
        ) {
            if let Some(query) = Query::parse_in(SearchScope::Many, OsStr::new(&name)) {
                let again = Query::parse_in(SearchScope::Many, OsStr::from_bytes(&query.name()));
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

    fn mark(artifact: &[u8], line: u64, column: u64, shown: u64) -> Option<ResumePoint> {
        let artifact = RelPath::new(OsStr::from_bytes(artifact)).ok()?;
        Some(ResumePoint { artifact, at: TextPosition { line, column }, shown })
    }

    #[test]
    fn forms() {
        let cases = [
            ("x.txt:5821", mark(b"x.txt", 5821, 1, 0)),
            ("tool/x.txt:5@77", mark(b"tool/x.txt", 5, 77, 0)),
            ("x.txt:5+3", mark(b"x.txt", 5, 1, 3)),
            ("x.txt:5@77+3", mark(b"x.txt", 5, 77, 3)),
            ("a%20b%25:c:1", mark(b"a b%:c", 1, 1, 0)),
            ("%2520:1", mark(b"%20", 1, 1, 0)),
            ("gr\u{fc}n\\xff:1", mark(b"gr\xc3\xbcn\xff", 1, 1, 0)),
        ];
        for (text, want) in cases {
            assert_eq!(want.as_ref().unwrap().to_string(), text);
            assert_eq!(ResumePoint::parse(text), want);
        }
        assert_eq!(ResumePoint::parse("5%+:1"), mark(b"5%+", 1, 1, 0));
        for text in
            ["", "x", "5", ":5", "x:", "x:0", "x:05", "x:1+", "x:1+0", "x:1@", "x:-1", "../x:1"]
        {
            assert_eq!(ResumePoint::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn marks_come_back(
            artifact in proptest::collection::vec(any::<u8>(), 1..20),
            line in 1u64.., column in 1u64.., shown in 0u64..,
        ) {
            if let Some(mark) = mark(&artifact, line, column, shown) {
                prop_assert_eq!(ResumePoint::parse(&mark.to_string()), Some(mark));
            }
        }
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

//! The names under `X.grep/` and `.grep/`: ripgrep's options and a pattern. Also the encoding of
//! all arguments in names.
//!
//! A name encodes `/` as `%2F` and `%` as `%25`. It encodes a dot as `%2E` if the name would have
//! another meaning with a plain dot, such as `..` or `.git`. Every other byte stands for itself.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use crate::range;
use crate::range::TextPosition;
use ctxfs_core::model::RelPath;

// A Linux path has at most 4,095 bytes and a NUL.
const MAX_NAME_BYTES: usize = 4095;
// Maximum number of lines of context on either side. A result has no room for more.
const MAX_CONTEXT: u64 = 10_000;

/// A search: options as in ripgrep, and a pattern of arbitrary bytes.
///
/// Options come first, each followed by a space. The pattern begins with the first word that is not
/// an option, so `-n` alone searches for `-n`. `--` or `-e` ends the options, so that the pattern
/// may look like an option.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    options: SearchOptions,
    pattern: Vec<u8>,
}

impl Query {
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        Self::parse_in(SearchScope::One, name)
    }

    /// Parses a name under `.grep/`. The search of many artifacts has more options: `-l`, and
    /// `--from` with the name of an artifact.
    pub(super) fn parse_in(scope: SearchScope, name: &OsStr) -> Option<Self> {
        let text = decoded(name)?;
        let (options, pattern) = SearchOptions::parse(scope, &text);
        Some(Self { options, pattern: pattern.to_vec() })
    }

    pub(super) fn of(pattern: &str) -> Self {
        Self { options: SearchOptions::default(), pattern: pattern.as_bytes().to_vec() }
    }

    pub(super) fn ignoring_case(pattern: &str) -> Self {
        let options = SearchOptions { case: CaseMode::Insensitive, ..SearchOptions::default() };
        Self { options, pattern: pattern.as_bytes().to_vec() }
    }

    pub(super) fn options(&self) -> &SearchOptions {
        &self.options
    }

    pub(super) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    pub(super) fn from(&self, from: TextPosition) -> Self {
        Self { options: SearchOptions { from: Some(from), ..self.options.clone() }, ..self.clone() }
    }

    pub(super) fn on(&self, mark: ResumePoint) -> Self {
        Self {
            options: SearchOptions { resume: Some(mark), ..self.options.clone() },
            ..self.clone()
        }
    }

    pub(super) fn around(&self, lines: u64) -> Self {
        let options = SearchOptions { before: lines, after: lines, ..self.options.clone() };
        Self { options, ..self.clone() }
    }

    /// Returns the same search with at most `max` lines. 0 permits any number, and lifts the limit
    /// on the size of the result.
    pub(super) fn at_most(&self, max: u64) -> Self {
        Self { options: SearchOptions { max: Some(max), ..self.options.clone() }, ..self.clone() }
    }

    pub(super) fn name(&self) -> Vec<u8> {
        let mut name = self.options.to_string().into_bytes();
        if self.pattern.is_empty() || self.pattern.starts_with(b"-") {
            name.extend_from_slice(b"-- ");
        }
        name.extend_from_slice(&self.pattern);
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

/// Case sensitivity: `-s`, `-i`, or `-S`. `-S` ignores case unless the pattern has an upper-case
/// letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum CaseMode {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

/// The scope of a search: one artifact, or all artifacts below a directory. A few options apply
/// only to many artifacts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum SearchScope {
    #[default]
    One,
    Many,
}

/// ripgrep's options, as parsed, and two additions. `max` (`-m`) limits the number of matching
/// lines; 0 permits any number, and lifts the limit on the size of the result. `from` and `resume`
/// (`--from`) are the place where the search begins, in one artifact or in one of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of ripgrep's switches")]
pub(crate) struct SearchOptions {
    pub(crate) scope: SearchScope,
    pub(crate) case: CaseMode,
    // -F
    pub(crate) fixed: bool,
    // -w
    pub(crate) word: bool,
    // -x
    pub(crate) line: bool,
    // -v
    pub(crate) invert: bool,
    // -c
    pub(crate) count: bool,
    // -l, for many artifacts only
    pub(crate) names: bool,
    // -o
    pub(crate) only_matching: bool,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) max: Option<u64>,
    pub(crate) from: Option<TextPosition>,
    pub(crate) resume: Option<ResumePoint>,
}

/// The meaning of one word of a query: options, the last of which may take the next word as its
/// value, or the end of the options (`--`, `-e`).
enum OptionWord {
    SearchOptions,
    Wants(u8),
    End,
}

impl SearchOptions {
    fn parse(scope: SearchScope, query: &[u8]) -> (Self, &[u8]) {
        let mut options = Self { scope, ..Self::default() };
        let mut rest = query;
        while let Some((more, after, end)) = options.with_word(rest) {
            options = more;
            rest = after;
            if end {
                break;
            }
        }
        (options, rest)
    }

    /// Parses one word if it is an option and more text follows. Returns the new options, the
    /// remaining text, and true if the word ends the options.
    fn with_word<'a>(&self, text: &'a [u8]) -> Option<(Self, &'a [u8], bool)> {
        let (word, after) = next_word(text)?;
        let mut options = self.clone();
        match options.read(word)? {
            OptionWord::SearchOptions => Some((options, after, false)),
            OptionWord::End => Some((options, after, true)),
            OptionWord::Wants(name) => {
                let (value, after) = next_word(after)?;
                options.set_number(name, str::from_utf8(value).ok()?)?;
                Some((options, after, false))
            }
        }
    }

    fn read(&mut self, word: &[u8]) -> Option<OptionWord> {
        let word = str::from_utf8(word).ok()?;
        if word == "--" {
            return Some(OptionWord::End);
        }
        match word.strip_prefix("--") {
            Some(long) => self.read_long(long),
            None => self.read_short(word.strip_prefix('-').filter(|flags| !flags.is_empty())?),
        }
    }

    fn read_short(&mut self, flags: &str) -> Option<OptionWord> {
        for (at, flag) in flags.bytes().enumerate() {
            let value = flags.get(at + 1..)?;
            match flag {
                b'A' | b'B' | b'C' | b'm' if value.is_empty() => {
                    return Some(OptionWord::Wants(flag));
                }
                b'A' | b'B' | b'C' | b'm' => {
                    return self.set_number(flag, value).map(|()| OptionWord::SearchOptions);
                }
                b'e' => return value.is_empty().then_some(OptionWord::End),
                _ => self.set(flag)?,
            }
        }
        Some(OptionWord::SearchOptions)
    }

    fn read_long(&mut self, long: &str) -> Option<OptionWord> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if name == "from" {
            match self.scope {
                SearchScope::One => self.from = Some(TextPosition::parse(value?)?),
                SearchScope::Many => self.resume = Some(ResumePoint::parse(value?)?),
            }
            return Some(OptionWord::SearchOptions);
        }
        let short = short_of(name)?;
        match (short, value) {
            (b'e', None) => Some(OptionWord::End),
            (b'A' | b'B' | b'C' | b'm', None) => Some(OptionWord::Wants(short)),
            (b'A' | b'B' | b'C' | b'm', Some(value)) => {
                self.set_number(short, value).map(|()| OptionWord::SearchOptions)
            }
            (_, None) => self.set(short).map(|()| OptionWord::SearchOptions),
            (_, Some(_)) => None,
        }
    }

    fn set(&mut self, flag: u8) -> Option<()> {
        match flag {
            b'i' => self.case = CaseMode::Insensitive,
            b's' => self.case = CaseMode::Sensitive,
            b'S' => self.case = CaseMode::Smart,
            b'F' => self.fixed = true,
            b'w' => self.word = true,
            b'x' => self.line = true,
            b'v' => self.invert = true,
            b'c' => self.count = true,
            b'o' => self.only_matching = true,
            b'l' if self.scope == SearchScope::Many => self.names = true,
            b'n' => {}
            _ => return None,
        }
        Some(())
    }

    fn set_number(&mut self, name: u8, value: &str) -> Option<()> {
        let number = if value == "0" { 0 } else { range::number(value)? };
        let lines = number.min(MAX_CONTEXT);
        match name {
            b'A' => self.after = lines,
            b'B' => self.before = lines,
            b'C' => (self.before, self.after) = (lines, lines),
            _ => self.max = Some(number),
        }
        Some(())
    }
}

fn short_of(long: &str) -> Option<u8> {
    Some(match long {
        "ignore-case" => b'i',
        "case-sensitive" => b's',
        "smart-case" => b'S',
        "fixed-strings" => b'F',
        "word-regexp" => b'w',
        "line-regexp" => b'x',
        "invert-match" => b'v',
        "count" => b'c',
        "files-with-matches" => b'l',
        "only-matching" => b'o',
        "line-number" => b'n',
        "after-context" => b'A',
        "before-context" => b'B',
        "context" => b'C',
        "max-count" => b'm',
        "regexp" => b'e',
        _ => return None,
    })
}

// Returns the text before the first space, and the text after it.
pub(crate) fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

// Each option is followed by a space.
impl fmt::Display for SearchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            write!(f, "--from={from} ")?;
        }
        if let Some(mark) = &self.resume {
            write!(f, "--from={mark} ")?;
        }
        let flags = [
            (self.case == CaseMode::Insensitive, "-i "),
            (self.case == CaseMode::Smart, "-S "),
            (self.fixed, "-F "),
            (self.word, "-w "),
            (self.line, "-x "),
            (self.invert, "-v "),
            (self.count, "-c "),
            (self.names, "-l "),
            (self.only_matching, "-o "),
        ];
        flags.iter().filter(|(on, _)| *on).try_for_each(|(_, flag)| f.write_str(flag))?;
        match (self.before, self.after) {
            (0, 0) => {}
            (before, after) if before == after => write!(f, "-C{after} ")?,
            (0, after) => write!(f, "-A{after} ")?,
            (before, 0) => write!(f, "-B{before} ")?,
            (before, after) => write!(f, "-B{before} -A{after} ")?,
        }
        self.max.map_or(Ok(()), |max| write!(f, "-m{max} "))
    }
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

    /// Returns the canonical options and the pattern.
    fn read(query: &str) -> (String, String) {
        read_in(SearchScope::One, query)
    }

    fn read_in(scope: SearchScope, query: &str) -> (String, String) {
        let (options, pattern) = SearchOptions::parse(scope, query.as_bytes());
        (options.to_string(), String::from_utf8(pattern.to_vec()).unwrap())
    }

    #[test]
    fn options_come_first() {
        let cases = [
            ("timeout", "", "timeout"),
            ("-i timeout", "-i ", "timeout"),
            ("-iw time out", "-i -w ", "time out"),
            ("-i -C3 x", "-i -C3 ", "x"),
            ("-C 3 x", "-C3 ", "x"),
            ("-wC 3 x", "-w -C3 ", "x"),
            ("-A2 -B1 x", "-B1 -A2 ", "x"),
            ("-n x", "", "x"),
            ("-m0 x", "-m0 ", "x"),
            ("-m50 -o x", "-o -m50 ", "x"),
            ("-i -s x", "", "x"),
            ("--ignore-case --context=3 x", "-i -C3 ", "x"),
            ("--max-count 5 x", "-m5 ", "x"),
            ("--from=5821 x", "--from=5821 ", "x"),
            ("--from=5@77 x", "--from=5@77 ", "x"),
            ("-e -i x", "", "-i x"),
            ("-ie -v", "-i ", "-v"),
            ("-i -- -v x", "-i ", "-v x"),
            ("-i  x", "-i ", " x"),
            ("-i ", "-i ", ""),
        ];
        for (query, options, pattern) in cases {
            assert_eq!(read(query), (options.to_owned(), pattern.to_owned()), "{query}");
        }
    }

    #[test]
    fn what_is_no_option_is_pattern() {
        let queries = [
            "-n",
            "-i",
            "-",
            "--",
            "-C",
            "-C 3",
            "-C3",
            "--- FAIL: x",
            "-->",
            "-Wall x",
            "-C3x y",
            "-m-1 x",
            "--from=0 x",
            "--from x",
            "--color=never x",
            "-C03 x",
            "- x",
            "--count=3 x",
            "-l x",
            "--from=x.txt:5 x",
        ];
        for query in queries {
            assert_eq!(read(query), (String::new(), query.to_owned()), "{query}");
        }
        assert_eq!(read("-i -Wall"), ("-i ".to_owned(), "-Wall".to_owned()));
    }

    #[test]
    fn many_artifacts_have_options_of_their_own() {
        let cases = [
            ("-l x", "-l ", "x"),
            ("-il --files-with-matches x", "-i -l ", "x"),
            ("--from=x.txt:5@7 -i x", "--from=x.txt:5@7 -i ", "x"),
            ("-m5 --from=a%20b:5+3 x", "--from=a%20b:5+3 -m5 ", "x"),
            ("--from=5 x", "", "--from=5 x"),
        ];
        for (query, options, pattern) in cases {
            let want = (options.to_owned(), pattern.to_owned());
            assert_eq!(read_in(SearchScope::Many, query), want, "{query}");
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

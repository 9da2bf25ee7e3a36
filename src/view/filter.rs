//! The names under `X.jq/`: options and a jq filter.

use std::ffi::OsStr;
use std::fmt;

use crate::{query, range};

// A name with one of these suffixes is a directory of views of the filter's output.
pub(super) const DIRS: [&str; 4] = [".grep", ".find", ".lines", ".pages"];

/// A filter: some of jq's options, and a program.
///
/// Options come first, each followed by a space. The program begins with the first word that is not
/// an option. `--` ends the options, so that the program may begin with a word that looks like one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    options: FilterOptions,
    program: Vec<u8>,
}

/// The options of a filter: some of jq's options, and two more. `max` (`-m`) is the maximum number
/// of results; 0 permits any number, and lifts the usual limit on their size. `from` (`--from`) is
/// the first line from which values are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of jq's switches")]
pub(super) struct FilterOptions {
    // -r
    pub(super) raw: bool,
    // -c
    pub(super) compact: bool,
    // -s
    pub(super) slurp: bool,
    // -n
    pub(super) null_input: bool,
    // -S
    pub(super) sorted: bool,
    pub(super) max: Option<u64>,
    pub(super) from: Option<u64>,
}

impl Filter {
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        Some(Self::of(&query::decoded(name)?))
    }

    fn of(text: &[u8]) -> Self {
        let mut options = FilterOptions::default();
        let mut rest = text;
        while let Some((word, after)) = query::next_word(rest) {
            let Some((more, ends)) = options.with_word(word) else { break };
            options = more;
            rest = after;
            if ends {
                break;
            }
        }
        Self { options, program: rest.to_vec() }
    }

    pub(super) fn name_of(text: &str) -> String {
        Self::of(text.as_bytes()).to_string()
    }

    pub(super) fn options(&self) -> &FilterOptions {
        &self.options
    }

    // The program. An empty program is `.` as in jq.
    pub(super) fn program(&self) -> String {
        let program = String::from_utf8_lossy(&self.program);
        if program.trim().is_empty() { ".".to_owned() } else { program.into_owned() }
    }

    pub(super) fn from(&self, line: u64) -> Self {
        Self { options: FilterOptions { from: Some(line), ..self.options.clone() }, ..self.clone() }
    }

    // Returns the same filter with at most `max` results. 0 permits any number, and lifts the usual
    // limit on their size.
    pub(super) fn at_most(&self, max: u64) -> Self {
        Self { options: FilterOptions { max: Some(max), ..self.options.clone() }, ..self.clone() }
    }

    fn name(&self) -> Vec<u8> {
        let marked = self.program.is_empty() || self.program.starts_with(b"-");
        let plain = self.spelled(marked, b"%/");
        if query::is_taken(&plain) { self.spelled(true, b"%/.") } else { without_dir(plain) }
    }

    fn spelled(&self, marked: bool, which: &[u8]) -> Vec<u8> {
        let mut name = self.options.to_string().into_bytes();
        name.extend_from_slice(if marked { b"-- " } else { b"" });
        name.extend_from_slice(&query::encoded(&self.program, which));
        name
    }
}

// Escapes the last dot of a name that would otherwise name a directory of views.
fn without_dir(mut name: Vec<u8>) -> Vec<u8> {
    let dir = DIRS.iter().find(|dir| name.len() > dir.len() && name.ends_with(dir.as_bytes()));
    if let Some(dir) = dir {
        let dot = name.len() - dir.len();
        name.splice(dot..=dot, *b"%2E");
    }
    name
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name()))
    }
}

impl FilterOptions {
    // Parses one word if it is an option. Returns the new options, and true if the word ends the
    // options.
    fn with_word(&self, word: &[u8]) -> Option<(Self, bool)> {
        let word = str::from_utf8(word).ok()?;
        let mut options = self.clone();
        if word == "--" {
            return Some((options, true));
        }
        match word.strip_prefix("--") {
            Some(long) => options.set_long(long)?,
            None => options.set_short(word.strip_prefix('-').filter(|flags| !flags.is_empty())?)?,
        }
        Some((options, false))
    }

    fn set_short(&mut self, flags: &str) -> Option<()> {
        for (at, flag) in flags.char_indices() {
            match flag {
                'r' => self.raw = true,
                'c' => self.compact = true,
                's' => self.slurp = true,
                'n' => self.null_input = true,
                'S' => self.sorted = true,
                'm' => {
                    self.max = Some(count(&flags[at + 1..])?);
                    break;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn set_long(&mut self, long: &str) -> Option<()> {
        match long.split_once('=') {
            Some(("from", line)) => self.from = Some(range::number(line)?),
            Some(("max-count", max)) => self.max = Some(count(max)?),
            Some(_) => return None,
            None => self.set_short(match long {
                "raw-output" => "r",
                "compact-output" => "c",
                "slurp" => "s",
                "null-input" => "n",
                "sort-keys" => "S",
                _ => return None,
            })?,
        }
        Some(())
    }
}

fn count(text: &str) -> Option<u64> {
    if text == "0" { Some(0) } else { range::number(text) }
}

// Each option is followed by a space.
impl fmt::Display for FilterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            write!(f, "--from={from} ")?;
        }
        let flags = [
            (self.raw, "-r "),
            (self.compact, "-c "),
            (self.slurp, "-s "),
            (self.null_input, "-n "),
            (self.sorted, "-S "),
        ];
        flags.iter().filter(|(on, _)| *on).try_for_each(|(_, flag)| f.write_str(flag))?;
        self.max.map_or(Ok(()), |max| write!(f, "-m{max} "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    /// Returns the canonical name and the program.
    fn read(name: &str) -> (String, String) {
        let filter = Filter::parse(OsStr::new(name)).unwrap();
        (filter.to_string(), filter.program())
    }

    #[test]
    fn options_come_first() {
        let cases = [
            (".a", ".a", ".a"),
            ("-r .a", "-r .a", ".a"),
            ("-cr .a | .b", "-r -c .a | .b", ".a | .b"),
            ("-m5 -c .[]", "-c -m5 .[]", ".[]"),
            ("-cm0 .[]", "-c -m0 .[]", ".[]"),
            ("--raw-output --max-count=3 .", "-r -m3 .", "."),
            ("--null-input --slurp --sort-keys --compact-output .", "-c -s -n -S .", "."),
            ("--from=7 .a", "--from=7 .a", ".a"),
            ("-r", "-- -r", "-r"),
            ("-x .a", "-- -x .a", "-x .a"),
            ("-m .a", "-- -m .a", "-m .a"),
            ("-- -1", "-- -1", "-1"),
            ("-c ", "-c -- ", "."),
            ("%2E", "-- %2E", "."),
            ("a %2F%2F b", "a %2F%2F b", "a // b"),
            (". %25 2", ". %25 2", ". % 2"),
        ];
        for (name, canonical, program) in cases {
            assert_eq!(read(name), (canonical.to_owned(), program.to_owned()), "{name}");
        }
    }

    #[test]
    fn probes_are_no_filters() {
        assert_eq!(Filter::parse(OsStr::new(".git")), None);
        assert_eq!(Filter::parse(OsStr::new("package.json")), None);
        assert_eq!(read("%2Egit"), ("-- %2Egit".to_owned(), ".git".to_owned()));
    }

    #[test]
    fn other_filters_of_the_same_program() {
        let filter = Filter::parse(OsStr::new("-r .a/2")).unwrap();
        assert_eq!(filter.from(9).to_string(), "--from=9 -r .a%2F2");
        assert_eq!(filter.at_most(0).to_string(), "-r -m0 .a%2F2");
    }

    proptest! {
        #[test]
        fn names_come_back(name in "(-[rcsnS]+ |-m[0-9]{1,3} |--from=[1-9]{1,4} |-- )?[^/\0]{1,20}") {
            if let Some(filter) = Filter::parse(OsStr::new(&name)) {
                let again = Filter::parse(OsStr::from_bytes(&filter.name()));
                prop_assert_eq!(again, Some(filter));
            }
        }
    }
}

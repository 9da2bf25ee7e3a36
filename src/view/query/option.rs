use std::fmt;

use crate::position::TextPosition;
use crate::query::ResumePoint;
use crate::range;

// On either side. A result has no room for more.
const MOST_CONTEXT: u64 = 10_000;

/// The comparison of upper and lower case: `-s`, `-i`, or `-S`, which ignores case unless the
/// pattern has an upper-case letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

/// The scope of a search: one artifact, or all below a directory. Some options apply to many
/// artifacts only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum SearchScope {
    #[default]
    One,
    Many,
}

/// ripgrep's options, as parsed. Two are of this program: `max` (`-m`) stops after that many
/// matching lines, and 0 lifts the limit on the size of the result; `from` and `resume` (`--from`)
/// begin the search at a place in one artifact, or in one of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of ripgrep's switches")]
pub(crate) struct Options {
    pub(crate) scope: SearchScope,
    pub(crate) case: Case,
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

/// The meaning of one word of a query: options, of which the last may take the next word as its
/// value, or the end of the options (`--`, `-e`).
enum OptionWord {
    Options,
    Wants(u8),
    End,
}

impl Options {
    /// Reads the options at the start of `query`. Returns them, and the pattern after them.
    pub(super) fn parse(scope: SearchScope, query: &[u8]) -> (Self, &[u8]) {
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

    /// Takes one word if it is an option and followed by more. Returns the new options, the rest,
    /// and true if the word ends the options.
    fn with_word<'a>(&self, text: &'a [u8]) -> Option<(Self, &'a [u8], bool)> {
        let (word, after) = next_word(text)?;
        let mut options = self.clone();
        match options.read(word)? {
            OptionWord::Options => Some((options, after, false)),
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
                    return self.set_number(flag, value).map(|()| OptionWord::Options);
                }
                b'e' => return value.is_empty().then_some(OptionWord::End),
                _ => self.set(flag)?,
            }
        }
        Some(OptionWord::Options)
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
            return Some(OptionWord::Options);
        }
        let short = short_of(name)?;
        match (short, value) {
            (b'e', None) => Some(OptionWord::End),
            (b'A' | b'B' | b'C' | b'm', None) => Some(OptionWord::Wants(short)),
            (b'A' | b'B' | b'C' | b'm', Some(value)) => {
                self.set_number(short, value).map(|()| OptionWord::Options)
            }
            (_, None) => self.set(short).map(|()| OptionWord::Options),
            (_, Some(_)) => None,
        }
    }

    fn set(&mut self, flag: u8) -> Option<()> {
        match flag {
            b'i' => self.case = Case::Insensitive,
            b's' => self.case = Case::Sensitive,
            b'S' => self.case = Case::Smart,
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
        let lines = number.min(MOST_CONTEXT);
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

/// Returns the text up to the first space, and the text after that space.
pub(crate) fn next_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

// As in a query: each option with a space after it.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            write!(f, "--from={from} ")?;
        }
        if let Some(mark) = &self.resume {
            write!(f, "--from={mark} ")?;
        }
        let flags = [
            (self.case == Case::Insensitive, "-i "),
            (self.case == Case::Smart, "-S "),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the canonical options, and the pattern.
    fn read(query: &str) -> (String, String) {
        read_in(SearchScope::One, query)
    }

    fn read_in(scope: SearchScope, query: &str) -> (String, String) {
        let (options, pattern) = Options::parse(scope, query.as_bytes());
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
}

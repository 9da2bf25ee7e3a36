//! The options of a search: the options of ripgrep, and some of grep that ripgrep does not have.

use std::fmt;

use crate::query::{ResumePoint, next_word};
use crate::range;
use crate::range::TextPosition;

// Maximum number of lines of context on either side. A result has no room for more.
const MAX_CONTEXT: u64 = 10_000;

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

/// The language of a pattern: ripgrep's, `-P` or `-G`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Syntax {
    #[default]
    Regex,
    Perl,
    Basic,
}

/// ripgrep's options, as parsed, and two additions. `max` (`-m`) limits the number of matching
/// lines; 0 permits any number, and lifts the limit on the size of the result. `from` and `resume`
/// (`--from`) are the place where the search begins, in one artifact or in one of many.
///
/// `refused` has the options that have no effect here, though they have one in ripgrep or grep. A
/// notice names them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of ripgrep's switches")]
pub(crate) struct SearchOptions {
    pub(crate) scope: SearchScope,
    pub(crate) case: CaseMode,
    pub(crate) syntax: Syntax,
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
    // -l
    pub(crate) names: bool,
    // -L
    pub(crate) without: bool,
    // -o
    pub(crate) only_matching: bool,
    // -N
    pub(crate) unnumbered: bool,
    // --column
    pub(crate) column: bool,
    // -H or -h. Without either, lines have a name if many artifacts are searched.
    pub(crate) named: Option<bool>,
    // -B, -A and -C. The first two have precedence, in any order.
    pub(crate) before: Option<u64>,
    pub(crate) after: Option<u64>,
    pub(crate) around: u64,
    pub(crate) max: Option<u64>,
    // -g, --include, --exclude: globs as those of `-g`.
    pub(crate) globs: Vec<String>,
    // What stands in place of a match.
    pub(crate) replace: Option<String>,
    pub(crate) from: Option<TextPosition>,
    pub(crate) resume: Option<ResumePoint>,
    pub(crate) refused: Vec<String>,
    // True if the pattern begins with a dash and stood after `--` or `-e`.
    pub(crate) literal: bool,
}

/// The meaning of an option.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    Switch(fn(&mut SearchOptions)),
    // A number of lines.
    Number(fn(&mut SearchOptions, u64)),
    Glob(fn(&str) -> String),
    Pattern,
    Engine,
    Replace,
    // `--color`, whose value may be missing.
    Color,
    // Changes nothing that a result shows.
    Silent,
    SilentValue,
    // Is named in a notice, without and with a value.
    Refused,
    RefusedValue,
}

use Meaning::{
    Color, Engine, Glob, Number, Pattern, Refused, RefusedValue, Replace, Silent, SilentValue,
    Switch,
};

/// Short names, long names and meanings. Where ripgrep and grep differ (`-E`, `-L`, `-h`, `-r`), the
/// option is grep's, because ripgrep's has no use here.
const OPTIONS: &[(&str, &[&str], Meaning)] = &[
    ("iy", &["ignore-case"], Switch(|to| to.case = CaseMode::Insensitive)),
    ("s", &["case-sensitive", "no-ignore-case"], Switch(|to| to.case = CaseMode::Sensitive)),
    ("S", &["smart-case"], Switch(|to| to.case = CaseMode::Smart)),
    ("F", &["fixed-strings", "fixed-regexp"], Switch(|to| to.fixed = true)),
    ("E", &["extended-regexp"], Switch(|to| to.syntax = Syntax::Regex)),
    ("G", &["basic-regexp"], Switch(|to| to.syntax = Syntax::Basic)),
    ("P", &["pcre2", "perl-regexp"], Switch(|to| to.syntax = Syntax::Perl)),
    ("", &["no-pcre2"], Switch(|to| to.syntax = Syntax::Regex)),
    ("", &["engine"], Engine),
    ("w", &["word-regexp"], Switch(|to| (to.word, to.line) = (true, false))),
    ("x", &["line-regexp"], Switch(|to| (to.word, to.line) = (false, true))),
    ("v", &["invert-match"], Switch(|to| to.invert = true)),
    ("c", &["count"], Switch(|to| to.count = true)),
    ("", &["count-matches"], Switch(|to| (to.count, to.only_matching) = (true, true))),
    ("l", &["files-with-matches"], Switch(|to| (to.names, to.without) = (true, false))),
    (
        "L",
        &["files-without-match", "files-without-matches"],
        Switch(|to| (to.names, to.without) = (true, true)),
    ),
    ("o", &["only-matching"], Switch(|to| to.only_matching = true)),
    ("n", &["line-number"], Switch(|to| to.unnumbered = false)),
    ("N", &["no-line-number"], Switch(|to| to.unnumbered = true)),
    ("", &["column"], Switch(|to| to.column = true)),
    ("", &["no-column"], Switch(|to| to.column = false)),
    ("H", &["with-filename"], Switch(|to| to.named = Some(true))),
    ("hI", &["no-filename"], Switch(|to| to.named = Some(false))),
    ("A", &["after-context"], Number(|to, lines| to.after = Some(lines))),
    ("B", &["before-context"], Number(|to, lines| to.before = Some(lines))),
    ("C", &["context"], Number(|to, lines| to.around = lines)),
    ("m", &["max-count"], Number(|to, lines| to.max = Some(lines))),
    ("e", &["regexp"], Pattern),
    ("g", &["glob", "iglob", "include"], Glob(str::to_owned)),
    ("", &["exclude"], Glob(|glob| format!("!{glob}"))),
    ("", &["exclude-dir"], Glob(|glob| format!("!**/{}/**", glob.trim_end_matches('/')))),
    ("", &["color", "colour"], Color),
    ("rR", &["recursive", "dereference-recursive"], Silent),
    ("aup", &["text", "pretty", "unrestricted", "no-heading", "no-messages", "hidden"], Silent),
    ("", &["no-ignore", "no-ignore-vcs", "no-ignore-parent", "no-config", "follow"], Silent),
    ("", &["line-buffered", "block-buffered", "mmap", "no-mmap", "unicode", "crlf"], Silent),
    ("", &["max-columns-preview", "one-file-system", "auto-hybrid-regex"], Silent),
    ("jM", &["threads", "max-columns", "colors", "label", "binary-files"], SilentValue),
    ("", &["dfa-size-limit", "regex-size-limit"], SilentValue),
    ("", &["replace"], Replace),
    ("U", &["multiline", "multiline-dotall"], Refused),
    ("z", &["search-zip", "null-data"], Refused),
    ("q", &["quiet", "silent"], Refused),
    ("Z", &["null"], Refused),
    ("b", &["byte-offset"], Refused),
    ("", &["json", "stats", "vimgrep", "trim", "passthru", "heading", "files"], Refused),
    ("", &["no-unicode", "binary"], Refused),
    ("f", &["file"], RefusedValue),
    ("t", &["type"], RefusedValue),
    ("T", &["type-not"], RefusedValue),
    ("d", &["max-depth", "max-filesize", "pre", "pre-glob", "ignore-file"], RefusedValue),
    ("", &["sort", "sortr", "encoding", "context-separator", "path-separator"], RefusedValue),
    ("", &["directories"], RefusedValue),
];

// Returns the first long name and the meaning of a short option.
fn short(flag: char) -> Option<(&'static str, Meaning)> {
    let (_, long, meaning) = OPTIONS.iter().find(|(short, ..)| short.contains(flag))?;
    Some((long.first().copied()?, *meaning))
}

fn long(name: &str) -> Option<Meaning> {
    OPTIONS.iter().find(|(_, long, _)| long.contains(&name)).map(|row| row.2)
}

/// The meaning of one word: options, the last of which may take the next word as its value, the
/// beginning of a pattern (`-e`), or the end of the options (`--`).
pub(super) enum OptionWord {
    Options,
    Wants(String, Meaning),
    Pattern,
    End,
}

impl SearchOptions {
    /// Returns true if the result shows lines, and not only a count or a name.
    pub(crate) fn shows_lines(&self) -> bool {
        !self.count && !self.names
    }

    /// Returns the number of lines to show before and after each match.
    pub(crate) fn context(&self) -> (u64, u64) {
        let lines = |own: Option<u64>| own.unwrap_or(self.around).min(MAX_CONTEXT);
        if self.shows_lines() { (lines(self.before), lines(self.after)) } else { (0, 0) }
    }

    /// Returns the same options with their context in one form, so that equal searches are equal.
    pub(super) fn settled(self) -> Self {
        let (before, after, around) = match self.context() {
            (before, after) if before == after => (None, None, before),
            (before, after) => (Some(before), Some(after), 0),
        };
        Self { before, after, around, ..self }
    }

    /// Parses a query, and returns its options and patterns.
    pub(super) fn parse(scope: SearchScope, query: &[u8]) -> (Self, Vec<Vec<u8>>) {
        let mut options = Self { scope, ..Self::default() };
        let mut rest = query;
        while let Some((word, after)) = next_word(rest) {
            let mut more = options.clone();
            match more.read(word) {
                None => break,
                Some(OptionWord::Options) if is_template(word, after) => {
                    let Some((value, after)) = first_quoted(after) else { break };
                    more.replace = Some(String::from_utf8_lossy(value).into_owned());
                    rest = after;
                }
                Some(OptionWord::Options) => rest = after,
                Some(OptionWord::Wants(name, meaning)) => {
                    let Some((value, after)) = next_word(after) else { break };
                    if more.set_value(&name, meaning, value).is_none() {
                        break;
                    }
                    rest = after;
                }
                Some(OptionWord::Pattern) => return more.patterns(after),
                Some(OptionWord::End) => {
                    more.literal = after.starts_with(b"-");
                    return (more, vec![after.to_vec()]);
                }
            }
            options = more;
        }
        (options, vec![rest.to_vec()])
    }

    /// Parses the text after `-e`: a pattern, and then, if everything that follows are options,
    /// these options. The first word always belongs to the pattern.
    fn patterns(mut self, text: &[u8]) -> (Self, Vec<Vec<u8>>) {
        for space in memchr::memchr_iter(b' ', text) {
            let (pattern, tail) = (&text[..space], &text[space + 1..]);
            if let Some((options, more)) = self.tail(tail) {
                let patterns = [vec![pattern.to_vec()], more].concat();
                let literal = patterns.len() == 1 && pattern.starts_with(b"-");
                return (Self { literal, ..options }, patterns);
            }
        }
        self.literal = text.starts_with(b"-");
        (self, vec![text.to_vec()])
    }

    // Parses `text` if it consists of options alone. Returns the patterns that they name.
    fn tail(&self, text: &[u8]) -> Option<(Self, Vec<Vec<u8>>)> {
        let (mut options, mut rest) = (self.clone(), Some(text));
        while let Some(text) = rest {
            let (word, after) = first_word(text);
            rest = after;
            match options.read(word)? {
                OptionWord::Options => {}
                OptionWord::Wants(name, meaning) => {
                    let (value, after) = first_word(rest?);
                    options.set_value(&name, meaning, value)?;
                    rest = after;
                }
                OptionWord::Pattern => return Some(options.patterns(rest?)),
                OptionWord::End => return None,
            }
        }
        Some((options, Vec::new()))
    }

    /// Parses one word. Returns `None` if it is not an option; then the options are undefined.
    pub(super) fn read(&mut self, word: &[u8]) -> Option<OptionWord> {
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
        for (at, flag) in flags.char_indices() {
            let (name, meaning) = short(flag)?;
            let value = &flags[at + flag.len_utf8()..];
            match meaning {
                Pattern => return value.is_empty().then_some(OptionWord::Pattern),
                Number(_) | Glob(_) | SilentValue if !value.is_empty() => {
                    self.set_value(name, meaning, value.as_bytes())?;
                    return Some(OptionWord::Options);
                }
                Number(_) | Glob(_) | SilentValue | RefusedValue => {
                    let wants = OptionWord::Wants(name.to_owned(), meaning);
                    return value.is_empty().then_some(wants);
                }
                _ => self.set(name, meaning)?,
            }
        }
        Some(OptionWord::Options)
    }

    fn read_long(&mut self, word: &str) -> Option<OptionWord> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if name == "from" {
            match self.scope {
                SearchScope::One => self.from = Some(TextPosition::parse(value?)?),
                SearchScope::Many => self.resume = Some(ResumePoint::parse(value?)?),
            }
            return Some(OptionWord::Options);
        }
        let meaning = long(name)?;
        match (meaning, value) {
            (Pattern, None) => return Some(OptionWord::Pattern),
            (Color, _) => {}
            (Number(_) | Glob(_) | Engine | Replace | SilentValue | RefusedValue, None) => {
                return Some(OptionWord::Wants(name.to_owned(), meaning));
            }
            (_, Some(value)) => self.set_value(name, meaning, value.as_bytes())?,
            (_, None) => self.set(name, meaning)?,
        }
        Some(OptionWord::Options)
    }

    fn set(&mut self, name: &str, meaning: Meaning) -> Option<()> {
        match meaning {
            Switch(set) => set(self),
            Silent => {}
            Refused => self.refuse(format!("--{name}")),
            _ => return None,
        }
        Some(())
    }

    /// Sets an option with a value. Returns `None` if the option does not take this value.
    pub(super) fn set_value(&mut self, name: &str, meaning: Meaning, value: &[u8]) -> Option<()> {
        let value = str::from_utf8(value).ok()?;
        match meaning {
            Number(set) => set(self, if value == "0" { 0 } else { range::number(value)? }),
            Glob(glob) if !value.is_empty() => {
                // A blank would end the word.
                self.globs.push(glob(&value.replace(' ', "?")));
            }
            Engine => {
                let perl = matches!(value, "pcre2" | "auto");
                self.syntax = if perl { Syntax::Perl } else { Syntax::Regex };
            }
            // A blank would end the word.
            Replace if !value.contains(' ') => self.replace = Some(value.to_owned()),
            SilentValue => {}
            RefusedValue => self.refuse(format!("--{name}={}", value.replace(' ', "?"))),
            _ => return None,
        }
        Some(())
    }

    fn refuse(&mut self, word: String) {
        if !self.refused.contains(&word) {
            self.refused.push(word);
        }
    }
}

/// Returns true if `-r` stands before `$`: ripgrep's option for what replaces a match, and not
/// grep's for directories.
pub(super) fn is_template(word: &[u8], after: &[u8]) -> bool {
    let after = after.strip_prefix(b"'").or_else(|| after.strip_prefix(b"\"")).unwrap_or(after);
    word.ends_with(b"r") && !word.starts_with(b"--") && after.starts_with(b"$")
}

// Returns the first word without the quotes around it, and the text after it.
fn first_quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, after) = next_word(text)?;
    let [quote @ (b'"' | b'\''), inner @ ..] = word else { return Some((word, after)) };
    Some((inner.strip_suffix(&[*quote])?, after))
}

// Returns the text before the first space, and the text after it if there is a space.
fn first_word(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    next_word(text).map_or((text, None), |(word, after)| (word, Some(after)))
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
        self.refused.iter().try_for_each(|word| write!(f, "{word} "))?;
        self.globs.iter().try_for_each(|glob| write!(f, "--glob={glob} "))?;
        if let Some(template) = &self.replace {
            write!(f, "--replace={template} ")?;
        }
        let flags = [
            (self.case == CaseMode::Insensitive, "-i "),
            (self.case == CaseMode::Smart, "-S "),
            (self.syntax == Syntax::Perl, "-P "),
            (self.syntax == Syntax::Basic, "-G "),
            (self.fixed, "-F "),
            (self.word, "-w "),
            (self.line, "-x "),
            (self.invert, "-v "),
            (self.count, "-c "),
            (self.names && !self.without, "-l "),
            (self.without, "-L "),
            (self.only_matching, "-o "),
            (self.unnumbered, "-N "),
            (self.column, "--column "),
            (self.named == Some(true), "-H "),
            (self.named == Some(false), "-h "),
        ];
        flags.iter().filter(|(on, _)| *on).try_for_each(|(_, flag)| f.write_str(flag))?;
        match self.context() {
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

    /// Returns the canonical options and the pattern.
    fn read(query: &str) -> (String, String) {
        read_in(SearchScope::One, query)
    }

    fn read_in(scope: SearchScope, query: &str) -> (String, String) {
        let (options, patterns) = SearchOptions::parse(scope, query.as_bytes());
        (options.to_string(), String::from_utf8(patterns.join(&b'\n')).unwrap())
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
            ("-A2 -C5 x", "-B5 -A2 ", "x"),
            ("-B0 -C5 -A1 -A3 x", "-A3 ", "x"),
            ("-xw x", "-w ", "x"),
            ("-w -x x", "-x ", "x"),
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
            ("-e a -e b c", "", "a\nb c"),
            ("-i -e a -C2 -e b", "-i -C2 ", "a\nb"),
            ("--regexp a b -w", "-w ", "a b"),
            ("-e -v is set", "", "-v is set"),
            ("-e use -v flag", "", "use -v flag"),
            ("-nE a|b", "", "a|b"),
            ("-rn a b", "", "a b"),
            ("-RinP a(?=b)", "-i -P ", "a(?=b)"),
            ("--engine=auto --color never a", "-P ", "never a"),
            ("--color=never -a -u -j4 -M 200 a", "", "a"),
            ("-l a", "-l ", "a"),
            ("-L a", "-L ", "a"),
            ("-lL -Nh --column a", "-L -N --column -h ", "a"),
            ("-H -G a", "-G -H ", "a"),
            ("--count-matches a", "-c -o ", "a"),
            ("--include=*.log -g !x/ --exclude=y a", "--glob=*.log --glob=!x/ --glob=!y ", "a"),
            ("-or $1 a", "--replace=$1 -o ", "a"),
            ("-or '$1' a", "--replace=$1 -o ", "a"),
            ("--replace x -r a", "--replace=x ", "a"),
            ("--sort path -U -t log a", "--sort=path --multiline --type=log ", "a"),
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
            "-C03 x",
            "- x",
            "--count=3 x",
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

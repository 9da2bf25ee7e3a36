//! Other readings of a query that matches nothing as it stands: as words of a shell, and as a basic
//! regular expression of grep.

use crate::Query;
use crate::query::SearchOptions;
use crate::query::options::{OptionWord, Syntax, is_template};

/// Another reading of a query, and its name for a notice.
pub(crate) struct OtherReading {
    pub(crate) query: Query,
    pub(crate) like: &'static str,
}

impl Query {
    /// Returns other meanings that the query can have, most likely first. There are none unless the
    /// pattern has quotes, options or an escape that tell of a shell or of grep.
    pub(crate) fn other_readings(&self) -> Vec<OtherReading> {
        let reading = |query, like| OtherReading { query, like };
        let basic = self.basic().map(|query| reading(query, "basic grep"));
        let shell = self.shell();
        let both = shell.as_ref().and_then(Self::basic);
        let shell = shell.map(|query| reading(query, "a shell"));
        let both = both.map(|query| reading(query, "a shell and basic grep"));
        [basic, shell, both].into_iter().flatten().collect()
    }

    // Reads the patterns as grep's basic regular expressions.
    fn basic(&self) -> Option<Self> {
        let may_be = self.options.syntax == Syntax::Regex && !self.options.fixed;
        let is_basic = |pattern: &Vec<u8>| {
            pattern.windows(2).any(|pair| matches!(pair, [b'\\', b'|' | b'(' | b'{' | b'+' | b'?']))
        };
        let patterns = &self.patterns;
        (may_be && patterns.iter().any(is_basic)).then(|| {
            let patterns = patterns.iter().map(|pattern| extended(pattern)).collect();
            Self { options: self.options.clone(), patterns }
        })
    }

    // Reads the query as words of a shell: quotes end a word, and options may follow the pattern.
    fn shell(&self) -> Option<Self> {
        let text = match self.patterns.as_slice() {
            [pattern] => String::from_utf8(pattern.clone()).ok()?,
            patterns => {
                let text = [b"-e ", patterns.join(b" -e ".as_slice()).as_slice()].concat();
                String::from_utf8(text).ok()?
            }
        };
        // A shell would take this for a comment.
        if self.options.literal || text.starts_with('#') || text.contains(" #") {
            return None;
        }
        let mut words = shlex::split(&text)?;
        let first = words.first()?;
        let command = ["grep", "egrep", "fgrep", "rg"].iter().position(|name| first == name);
        if command.is_some() && words.len() > 2 {
            words.remove(0);
        }
        let mut options = SearchOptions {
            fixed: self.options.fixed || command == Some(2),
            literal: false,
            ..(*self.options).clone()
        };
        let (mut patterns, mut others) = (Vec::new(), Vec::new());
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let before = options.clone();
            match options.read(word.as_bytes()) {
                Some(OptionWord::Options) => {
                    let template = words.as_slice().first().filter(|next| {
                        is_template(word.as_bytes(), next.as_bytes()) && !next.contains(' ')
                    });
                    if template.is_some() {
                        options.replace = words.next();
                    }
                }
                Some(OptionWord::Wants(name, meaning)) => {
                    options.set_value(&name, meaning, words.next()?.as_bytes())?;
                }
                Some(OptionWord::Pattern) => patterns.push(words.next()?),
                Some(OptionWord::End) => others.extend(words.by_ref()),
                None if word.starts_with('-') => {
                    options = before;
                    options.read_attached(&word, &mut patterns)?;
                }
                None => others.push(word),
            }
        }
        if patterns.is_empty() {
            patterns.push(if others.is_empty() { return None } else { others.remove(0) });
        }
        // Words after the pattern are the paths of a command. Without quotes, they are more words
        // of the pattern.
        if !others.is_empty() && command.is_none() && !is_quoted(&text) {
            return None;
        }
        if patterns.len() > 1 && patterns.iter().any(|pattern| pattern.contains(" -")) {
            return None;
        }
        let is_same = SearchOptions { literal: false, ..(*self.options).clone() } == options;
        let has_quotes = text.contains(['"', '\'']);
        if is_same && command.is_none() && text.contains('\\') && !has_quotes {
            return None;
        }
        if patterns.iter().any(String::is_empty) {
            return None;
        }
        options.literal = patterns.len() == 1 && patterns[0].starts_with('-');
        let patterns = patterns.into_iter().map(String::into_bytes).collect();
        let query = Self { options: Box::new(options), patterns };
        (query != *self).then_some(query)
    }
}

impl SearchOptions {
    // Reads what only a command line has: `-3` for `-C3`, and a pattern in the same word as `-e`.
    fn read_attached(&mut self, word: &str, patterns: &mut Vec<String>) -> Option<()> {
        if let Ok(lines) = word[1..].parse::<u16>() {
            self.around = lines.into();
            return Some(());
        }
        let pattern = word.strip_prefix("--regexp=").or_else(|| word.strip_prefix("-e"))?;
        patterns.push(pattern.to_owned());
        Some(())
    }
}

// Returns true if the text begins with a word in quotes, followed by words without quotes.
fn is_quoted(text: &str) -> bool {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return false;
    };
    let rest = &text[1..];
    let end = rest.match_indices(quote).find(|(at, _)| !rest[..*at].ends_with('\\'));
    end.is_some_and(|(at, _)| {
        let after = &rest[at + 1..];
        (after.is_empty() || after.starts_with(' ')) && !after.contains(['"', '\''])
    })
}

/// Converts one of grep's basic regular expressions, in which `\|`, `\(`, `\)`, `\{`, `\}`, `\+` and
/// `\?` are operators and the same characters without a backslash are text.
pub(crate) fn extended(basic: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(basic.len());
    let (mut at, mut in_class, mut repeats) = (0, false, false);
    while let Some(&byte) = basic.get(at) {
        let was_repeated = std::mem::take(&mut repeats);
        let next = basic.get(at + 1).copied();
        let is_operator = |byte: u8| b"|(){}+?".contains(&byte);
        let begins = matches!(text.as_slice(), [] | [b'^'])
            || [b"(", b"|"].iter().any(|mark| text.ends_with(*mark))
                && !text[..text.len() - 1].ends_with(b"\\");
        at += 1;
        match (byte, next) {
            (b']', _) if in_class => {
                in_class = false;
                text.push(byte);
            }
            (b'[', Some(b':')) if in_class => {
                let end = basic[at..].windows(2).position(|pair| pair == b":]");
                let end = end.map_or(at, |end| at + end + 2);
                text.extend_from_slice(&basic[at - 1..end]);
                at = end;
            }
            // A backslash has no meaning between brackets.
            (b'\\' | b'[', _) if in_class => text.extend([b'\\', byte]),
            (_, _) if in_class => text.push(byte),
            (b'[', _) => {
                in_class = true;
                text.push(byte);
                for first in [b'^', b']'] {
                    if basic.get(at) == Some(&first) {
                        text.extend_from_slice(if first == b']' { b"\\]" } else { b"^" });
                        at += 1;
                    }
                }
            }
            (b'\\', Some(next)) => {
                at += 1;
                match next {
                    b'`' => text.extend_from_slice(b"\\A"),
                    b'\'' => text.extend_from_slice(b"\\z"),
                    // A question mark after another repetition would make that one lazy.
                    b'?' if was_repeated => text.extend_from_slice(b"{0,1}"),
                    _ if is_operator(next) => text.push(next),
                    _ => text.extend([b'\\', next]),
                }
                repeats = matches!(next, b'+' | b'?' | b'}');
            }
            (b'*', _) if begins => text.extend_from_slice(b"\\*"),
            _ if is_operator(byte) => text.extend([b'\\', byte]),
            _ => {
                repeats = byte == b'*';
                text.push(byte);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::process::Command;

    use proptest::prelude::*;

    fn readings(query: &str) -> Vec<(String, &'static str)> {
        let readings = Query::parse(OsStr::new(query)).unwrap().other_readings();
        readings.iter().map(|other| (other.query.to_string(), other.like)).collect()
    }

    #[test]
    fn what_a_shell_would_pass_on() {
        let cases = [
            ("'disk full'", "disk full"),
            ("\"disk full\"", "disk full"),
            ("-i \"disk full\" -A 3", "-i -A3 disk full"),
            ("timeout -A 3", "-A3 timeout"),
            ("timeout -3", "-C3 timeout"),
            ("-e 'a b' -e \"c\"", "-e a b -e c"),
            ("grep -n 'a b' x.txt", "a b"),
            ("rg -i timeout", "-i timeout"),
            ("fgrep -n a.b x", "-F a.b"),
            ("'a b' x.txt", "a b"),
            ("-w -ea -eb", "-w -e a -e b"),
            ("-or '$1' '(a) b'", "--replace=$1 -o (a) b"),
        ];
        for (query, shell) in cases {
            assert_eq!(readings(query), [(shell.to_owned(), "a shell")], "{query}");
        }
    }

    #[test]
    fn what_has_one_meaning() {
        let queries = [
            "timeout",
            "a b",
            "it's",
            "\"status\": \"failed\"",
            "a\\.b c",
            "-e a -e b",
            "grep",
            "x -y z",
            "-F a\\|b",
            "-P a\\|b",
            "- x",
            "a #5",
            "#a 'b'",
            "-- -i a",
            "''",
        ];
        for query in queries {
            assert_eq!(readings(query), [], "{query}");
        }
    }

    #[test]
    fn basic_expressions() {
        let both = "a shell and basic grep";
        assert_eq!(readings("a\\|b"), [("a|b".to_owned(), "basic grep")]);
        assert_eq!(readings("'a\\|b'").last().unwrap(), &("a|b".to_owned(), both));
        let cases = [
            ("a\\|b", "a|b"),
            ("a|b", "a\\|b"),
            ("\\(a\\)\\{2,3\\}x+", "(a){2,3}x\\+"),
            ("*a", "\\*a"),
            ("^*a", "^\\*a"),
            ("[]a|]*", "[\\]a|]*"),
            ("[^]\\]", "[^\\]\\\\]"),
            ("[[:alpha:]|]", "[[:alpha:]|]"),
            ("a\\.b", "a\\.b"),
            ("a\\+\\?b*\\?", "a+{0,1}b*{0,1}"),
        ];
        for (basic, want) in cases {
            assert_eq!(String::from_utf8(extended(basic.as_bytes())).unwrap(), want, "{basic}");
        }
    }

    proptest! {
        #[test]
        fn grep_finds_the_same(
            pattern in "\\^?([ab|(){}+?*.]|\\\\[|(){}+?.]|\\[\\^?\\]?[ab|*]{1,3}\\]){1,8}",
            lines in proptest::collection::vec("[ab|(){}+?*.]{0,8}", 1..8),
        ) {
            // An operator without an operand is text to grep.
            let has_operand = |mark: &str| {
                let mut at = pattern.match_indices(mark).map(|(at, mark)| &pattern[at + mark.len()..]);
                at.all(|rest| !rest.starts_with(['*', '\\']))
            };
            prop_assume!(!pattern.trim_start_matches('^').starts_with(['*', '\\']));
            prop_assume!(has_operand("\\(") && has_operand("\\|"));
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("x");
            std::fs::write(&file, lines.join("\n") + "\n").unwrap();
            let grep = |options: &[&str], pattern: &str| {
                let mut grep = Command::new("grep");
                let found = grep.args(options).arg("-e").arg(pattern).arg(&file).env("LC_ALL", "C.UTF-8");
                found.output().unwrap()
            };
            let basic = grep(&["-n"], &pattern);
            let text = String::from_utf8(extended(pattern.as_bytes())).unwrap();
            // What grep refuses, or what is an operator without an operand, has no meaning to keep.
            if basic.status.code() != Some(2) && let Ok(regex) = regex::bytes::Regex::new(&text) {
                let found = lines.iter().enumerate().filter(|(_, line)| regex.is_match(line.as_bytes()));
                let found: Vec<String> = found.map(|(at, line)| format!("{}:{line}\n", at + 1)).collect();
                let found = found.concat();
                prop_assert_eq!(found, String::from_utf8(basic.stdout).unwrap(), "{} {}", pattern, text);
            }
        }
    }
}

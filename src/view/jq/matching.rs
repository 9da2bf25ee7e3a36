//! Regular expressions as jq has them, in the syntax of Oniguruma: with look-around, and with groups
//! that take no part in a match.

use std::borrow::Cow;
use std::ops::Range;

use fancy_regex::{Captures, Regex, RegexBuilder};
use jaq_json::{Error, Val, ValR};
use jaq_std::ValT as _;

/// Limit on the steps of one match.
const MAX_STEPS: usize = 1 << 22;

/// The flags of a match: `g` finds all, `n` no empty ones, `i` ignores case, `x` ignores blanks in
/// the pattern, and `p` lets a dot match a newline. `s` is always on.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of jq's flags")]
struct Flags {
    all: bool,
    not_empty: bool,
    caseless: bool,
    extended: bool,
    dots: bool,
}

impl Flags {
    fn parse(flags: &Val) -> Result<Self, Error> {
        let mut found = Self::default();
        for flag in text(flags, "flags")?.chars() {
            match flag {
                'g' => found.all = true,
                'n' => found.not_empty = true,
                'i' => found.caseless = true,
                'x' => found.extended = true,
                's' => {}
                'p' => found.dots = true,
                'l' => {
                    return Err(Error::str(
                        "the flag `l`, for the longest match, is not available",
                    ));
                }
                _ => {
                    return Err(Error::str(format_args!("{flags} is not a valid modifier string")));
                }
            }
        }
        Ok(found)
    }
}

fn text<'v>(value: &'v Val, what: &str) -> Result<Cow<'v, str>, Error> {
    match value {
        Val::Null if what == "flags" => Ok(Cow::Borrowed("")),
        value => match value.as_utf8_bytes() {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes)),
            None => {
                Err(Error::str(format_args!("{value} cannot be matched, as it is not a string")))
            }
        },
    }
}

/// Returns the matches of `pattern` in `value` as an array, in jq's form.
pub(super) fn matches(value: &Val, pattern: &Val, flags: &Val) -> ValR {
    let found = find(&text(value, "input")?, &text(pattern, "pattern")?, &Flags::parse(flags)?)?;
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// Returns an array of pairs: the text before each match, and the match. The last item has only the
/// text after the last match.
pub(super) fn pieces(value: &Val, pattern: &Val, flags: &Val) -> ValR {
    let text = text(value, "input")?;
    let found = find(&text, &self::text(pattern, "pattern")?, &Flags::parse(flags)?)?;
    let piece = |range: Range<usize>| Val::from(text[range].to_owned());
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (range, found) in found {
        pieces.push([piece(at..range.start), found].into_iter().collect());
        at = range.end;
    }
    pieces.push([piece(at..text.len())].into_iter().collect());
    Ok(pieces.into_iter().collect())
}

fn find(text: &str, pattern: &str, flags: &Flags) -> Result<Vec<(Range<usize>, Val)>, Error> {
    let failed =
        |error| Error::str(format_args!("{pattern} (at offset 0) is not a valid regex: {error}"));
    let regex = RegexBuilder::new(&whole_text_ends(pattern))
        .case_insensitive(flags.caseless)
        .ignore_whitespace(flags.extended)
        .dot_matches_new_line(flags.dots)
        .backtrack_limit(MAX_STEPS)
        .build()
        .map_err(failed)?;
    let (mut found, mut at, mut counted) = (Vec::new(), 0, (0, 0));
    while at <= text.len() {
        let Some(groups) = regex.captures_from_pos(text, at).map_err(failed)? else { break };
        let Some(whole) = groups.get(0) else { break };
        if whole.start() < whole.end() {
            at = whole.end();
        } else {
            at = whole.end() + text[whole.end()..].chars().next().map_or(1, char::len_utf8);
        }
        if flags.not_empty && whole.start() == whole.end() {
            continue;
        }
        counted = (whole.start(), counted.1 + characters(&text[counted.0..whole.start()]));
        found.push((whole.start()..whole.end(), found_at(text, &regex, &groups, counted)));
        if !flags.all {
            break;
        }
    }
    Ok(found)
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Returns one match. `counted` is its offset in bytes and in characters.
fn found_at(text: &str, regex: &Regex, groups: &Captures<'_, str>, counted: (usize, usize)) -> Val {
    let offset = |start: usize| match text.get(counted.0..start) {
        Some(between) => counted.1 + characters(between),
        None => characters(&text[..start]),
    };
    let part = |group: Option<fancy_regex::Match<'_>>| match group {
        None => {
            [("offset", Val::from(-1_isize)), ("string", Val::Null), ("length", Val::from(0_usize))]
        }
        Some(group) => {
            let length = characters(group.as_str());
            let string = ("string", Val::from(group.as_str().to_owned()));
            let (offset, length) =
                (("offset", Val::from(offset(group.start()))), ("length", Val::from(length)));
            if group.as_str().is_empty() {
                [offset, string, length]
            } else {
                [offset, length, string]
            }
        }
    };
    let captures = regex.capture_names().enumerate().skip(1).map(|(number, name)| {
        let name = name.map_or(Val::Null, |name| Val::from(name.to_owned()));
        object(part(groups.get(number)).into_iter().chain([("name", name)]))
    });
    let captures = ("captures", captures.collect());
    object(part(groups.get(0)).into_iter().chain([captures]))
}

fn object(members: impl Iterator<Item = (&'static str, Val)>) -> Val {
    Val::obj(members.map(|(name, value)| (Val::from(name.to_owned()), value)).collect())
}

/// Makes `$` match before a newline at the end of the text, too, and nowhere else before its end.
fn whole_text_ends(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('$') {
        return Cow::Borrowed(pattern);
    }
    let (mut text, mut classes) = (String::with_capacity(pattern.len()), 0_usize);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '$' && classes == 0 {
            text += r"(?=\n?\z)";
            continue;
        }
        text.push(letter);
        match letter {
            '\\' => text.extend(letters.next()),
            // A bracket that closes is text at the start of a class.
            '[' => {
                classes += 1;
                text.extend(letters.next_if_eq(&'^'));
                text.extend(letters.next_if_eq(&']'));
            }
            ']' => classes = classes.saturating_sub(1),
            _ => {}
        }
    }
    Cow::Owned(text)
}

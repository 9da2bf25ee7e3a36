//! The lines between the head and the tail of an excerpt that name the most: identifiers and paths
//! that no other shown line has.
//!
//! A model goes on from names: it opens a path, searches an identifier, calls a function. Of code,
//! listings and test runs, lines chosen by their names show more of these in the same bytes than a
//! longer head and tail.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::clean::{TextBudget, shortened};
use crate::summary::alike::LineForms;

// Maximum number of characters that are shown of a line, and of its bytes that are read.
const LINE_CHARS: usize = 200;
const LINE_BYTES: usize = 2 * LINE_CHARS;
// Minimum and maximum number of bytes of a name.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=120;
// Scale of the names per byte, by which lines are chosen.
const SCALE: usize = 1 << 20;

/// Consecutive whole lines. `line` is the number of the first.
pub(super) struct LineStretch<'a> {
    pub(super) line: u64,
    pub(super) lines: Vec<&'a [u8]>,
}

/// A line that was chosen: its number, and its text after the number.
pub(super) struct ChosenLine {
    pub(super) line: u64,
    pub(super) text: String,
}

struct NamedLine<'a> {
    number: u64,
    line: &'a [u8],
    names: Vec<u32>,
    cost: usize,
}

/// Chooses lines of `stretches` that fit into `budget`. `shown` are the parts of the output that the
/// excerpt shows already, and `is_error` is true for the numbers of other lines that it shows. Each
/// choice is the line with the most new names a byte.
pub(super) fn chosen<'a>(
    stretches: &[LineStretch<'a>],
    shown: &[&'a [u8]],
    is_error: &dyn Fn(u64) -> bool,
    forms: &mut LineForms,
    budget: TextBudget,
) -> Vec<ChosenLine> {
    let mut ids: HashMap<&[u8], u32> = HashMap::new();
    for text in shown {
        each_name(text, &mut |name| _ = ids.insert(name, 0));
    }
    // Whether a name is shown. The first stands for all names that were shown before.
    let mut is_shown = vec![true];
    let mut candidates = Vec::new();
    for stretch in stretches {
        for (number, line) in (stretch.line..).zip(&stretch.lines) {
            let text = line.trim_ascii();
            let mut names = Vec::new();
            each_name(&text[..text.len().min(LINE_CHARS)], &mut |name| {
                let id = *ids.entry(name).or_insert_with(|| {
                    is_shown.push(false);
                    is_shown.len() as u32 - 1
                });
                if id > 0 && !names.contains(&id) {
                    names.push(id);
                }
            });
            let cost = text.len().min(LINE_CHARS) + number.to_string().len() + 3;
            if is_error(number) {
                for name in names {
                    is_shown[name as usize] = true;
                }
            } else if !names.is_empty() {
                candidates.push(NamedLine { number, line, names, cost });
            }
        }
    }
    let worth = |candidate: &NamedLine<'_>, is_shown: &[bool]| {
        let new = candidate.names.iter().filter(|name| !is_shown[**name as usize]).count();
        new * SCALE / candidate.cost
    };
    let entry = |(at, candidate)| (worth(candidate, &is_shown), Reverse(at));
    let mut heap: BinaryHeap<_> = candidates.iter().enumerate().map(entry).collect();
    let (mut chosen, mut left) = (Vec::new(), budget.bytes);
    while let Some((was, Reverse(at))) = heap.pop().filter(|_| chosen.len() < budget.lines) {
        let candidate = &candidates[at];
        let now = worth(candidate, &is_shown);
        if now == 0 || candidate.cost > left {
            continue;
        }
        if now < was {
            heap.push((now, Reverse(at)));
            continue;
        }
        if forms.is_known(candidate.line) {
            continue;
        }
        let text = candidate.line.trim_ascii();
        let text = shortened(&text[..text.len().min(LINE_BYTES)], LINE_CHARS);
        let text = format!("{}: {text}", candidate.number);
        let Some(rest) = left.checked_sub(text.len() + 1) else { continue };
        left = rest;
        forms.show(candidate.line);
        candidate.names.iter().for_each(|name| is_shown[*name as usize] = true);
        chosen.push(ChosenLine { line: candidate.number, text });
    }
    chosen.sort_unstable_by_key(|chosen| chosen.line);
    chosen
}

// Calls `tell` with each name in a text: paths and identifiers.
fn each_name<'a>(text: &'a [u8], tell: &mut dyn FnMut(&'a [u8])) {
    let runs =
        text.split(|byte| !is_word(*byte) && !matches!(byte, b'<' | b'/' | b'.' | b'@' | b'-'));
    for run in runs.filter(|run| !run.starts_with(b"</")) {
        let run = run.strip_prefix(b"<").unwrap_or(run);
        let end = run.iter().rposition(|byte| is_word(*byte)).map_or(0, |last| last + 1);
        let path = &run[..end];
        if NAME_BYTES.contains(&path.len()) && memchr::memchr(b'/', path).is_some() {
            tell(path);
        }
        for word in run.split(|byte| !is_word(*byte)).filter(|word| is_identifier(word)) {
            tell(word);
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

// Returns true if a word is an identifier by its looks: `two_words`, `twoWords`, `word2`.
fn is_identifier(word: &[u8]) -> bool {
    let end = word.iter().rposition(|byte| *byte != b'_').map_or(0, |last| last + 1);
    let joins = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    NAME_BYTES.contains(&word.len())
        && !word[0].is_ascii_digit()
        && (word[..end].iter().skip(1).any(|byte| *byte == b'_' || byte.is_ascii_digit())
            || word.windows(2).any(joins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(text: &str, shown: &str, bytes: usize) -> Vec<String> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let stretches = [LineStretch { line: 41, lines }];
        let budget = TextBudget { bytes, lines: 150 };
        let chosen =
            chosen(&stretches, &[shown.as_bytes()], &|_| false, &mut LineForms::default(), budget);
        chosen.into_iter().map(|chosen| chosen.text).collect()
    }

    #[test]
    fn lines_with_new_names_are_chosen() {
        let code = "def load_content(self):\n\
                    \x20   return None\n\
                    \x20   self.load_content(or, of, many, other, things)\n\
                    # Some words about it\n\
                    x = read(src/main.rs)\n\
                    def save_content(self):\n";
        let all = [
            "41: def load_content(self):",
            "45: x = read(src/main.rs)",
            "46: def save_content(self):",
        ];
        assert_eq!(choose(code, "", 400), all);
        assert_eq!(choose(code, "load_content save_content", 400), all[1..2]);
        assert_eq!(choose(code, "", 60), [all[0], all[1]]);
        assert_eq!(choose(code, "", 10), [""; 0]);
    }

    #[test]
    fn lines_alike_are_chosen_twice() {
        let line = |n: usize| format!("test_{n} passed\n");
        let text: String = (0..50).map(line).collect();
        assert_eq!(choose(&text, "", 4000).len(), 2);
    }

    #[test]
    fn names_look_like_code_or_paths() {
        let names = |text: &'static str| {
            let mut names = Vec::new();
            each_name(text.as_bytes(), &mut |name| names.push(str::from_utf8(name).unwrap()));
            names
        };
        let text = "In my_var and CamelCase, Of x2 or utf8 see ./src/a-b.rs: 12 _x __all__";
        let want = ["my_var", "CamelCase", "utf8", "./src/a-b.rs", "__all__"];
        assert_eq!(names(text), want);
        assert_eq!(names("A sentence. An Error, NULL or 0xff at 10:20"), [""; 0]);
    }
}

//! The lines between the head and the tail of an excerpt that name the most: identifiers and paths
//! that no other shown line has.
//!
//! A model goes on from names: it opens a path, searches an identifier, calls a function. Of code,
//! listings and test runs, lines chosen by their names show more of these in the same bytes than a
//! longer head and tail.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use foldhash::HashMap;

use crate::clean::{TextBudget, shortened};
use crate::summary::alike::LineForms;
use crate::summary::excerpt::EndLine;

// Maximum number of characters that are shown of a line, and of its bytes that are read.
const LINE_CHARS: usize = 200;
const LINE_BYTES: usize = 2 * LINE_CHARS;
// Minimum and maximum number of bytes of a name.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=120;
// Scale of the names per byte, by which lines are chosen.
const SCALE: usize = 1 << 20;

/// A line that was chosen: its number, and its text after the number.
pub(super) struct ChosenLine {
    pub(super) line: u64,
    pub(super) text: String,
}

/// A line, and the number of bytes that it takes in an excerpt. Its names are two ranges of
/// [`LineNames::names`]: those among the characters that would be shown, each once, and those after.
struct NamedLine<'a> {
    line: EndLine<'a>,
    cost: usize,
    near: Range<usize>,
    far: Range<usize>,
}

/// The names in the lines at both ends of an output.
pub(super) struct LineNames<'a> {
    // How many different names there are. A name is its number.
    count: usize,
    names: Vec<u32>,
    lines: Vec<NamedLine<'a>>,
}

impl<'a> LineNames<'a> {
    pub(super) fn of(lines: &[EndLine<'a>]) -> Self {
        let mut ids: HashMap<&[u8], u32> = HashMap::default();
        let mut all = Self { count: 0, names: Vec::new(), lines: Vec::new() };
        let names = &mut all.names;
        for line in lines {
            let start = names.len();
            let mut near = start;
            let text = line.text.trim_ascii();
            each_name(text, &mut |name, end| {
                let new = ids.len() as u32;
                let id = *ids.entry(name).or_insert(new);
                let is_near = end <= LINE_CHARS;
                if !is_near || !names[start..].contains(&id) {
                    names.push(id);
                    near += usize::from(is_near);
                }
            });
            let digits = line.number.and_then(u64::checked_ilog10).unwrap_or(0) as usize + 1;
            let cost = text.len().min(LINE_CHARS) + digits + 3;
            let (near, far) = (start..near, near..names.len());
            all.lines.push(NamedLine { line: *line, cost, near, far });
        }
        all.count = ids.len();
        all
    }

    /// Chooses lines that fit into `budget` from those between the offsets `hidden`: the excerpt
    /// shows the others already. `is_error` is true for the numbers of lines between that it shows too.
    /// Each choice is the line with the most new names a byte.
    pub(super) fn chosen(
        &self,
        hidden: &Range<u64>,
        is_error: &dyn Fn(Option<u64>) -> bool,
        forms: &mut LineForms,
        budget: TextBudget,
    ) -> Vec<ChosenLine> {
        let mut is_shown = vec![false; self.count];
        let mut candidates = Vec::new();
        for named in &self.lines {
            let EndLine { number, offset, text, is_whole } = named.line;
            let is_hidden = hidden.start <= offset && offset + text.len() as u64 <= hidden.end;
            let is_error = is_error(number);
            if is_hidden && !is_error && is_whole && !named.near.is_empty() {
                candidates.extend(number.map(|number| (number, named)));
            } else if !is_hidden || is_error {
                let end = if is_hidden { named.near.end } else { named.far.end };
                for name in &self.names[named.near.start..end] {
                    is_shown[*name as usize] = true;
                }
            }
        }
        let worth = |named: &NamedLine<'_>, is_shown: &[bool]| {
            let names = &self.names[named.near.clone()];
            let new = names.iter().filter(|name| !is_shown[**name as usize]).count();
            new * SCALE / named.cost
        };
        let entries = candidates.iter().enumerate();
        let entries = entries.map(|(at, (_, named))| (worth(named, &is_shown), Reverse(at)));
        let mut heap: BinaryHeap<_> = entries.collect();
        let (mut chosen, mut left) = (Vec::new(), budget.bytes);
        while let Some((was, Reverse(at))) = heap.pop().filter(|_| chosen.len() < budget.lines) {
            let (number, named) = candidates[at];
            let now = worth(named, &is_shown);
            if now == 0 || named.cost > left {
                continue;
            }
            if now < was {
                heap.push((now, Reverse(at)));
                continue;
            }
            let line = named.line.text;
            if forms.is_known(line) {
                continue;
            }
            let text = line.trim_ascii();
            let text = shortened(&text[..text.len().min(LINE_BYTES)], LINE_CHARS);
            let text = format!("{number}: {text}");
            let Some(rest) = left.checked_sub(text.len() + 1) else { continue };
            left = rest;
            forms.show(line);
            for name in &self.names[named.near.clone()] {
                is_shown[*name as usize] = true;
            }
            chosen.push(ChosenLine { line: number, text });
        }
        chosen.sort_unstable_by_key(|chosen| chosen.line);
        chosen
    }
}

// Calls `tell` with each name in a text, paths and identifiers, and the offset at which it ends.
fn each_name<'a>(text: &'a [u8], tell: &mut dyn FnMut(&'a [u8], usize)) {
    let end_of = |name: &[u8]| name.as_ptr() as usize + name.len() - text.as_ptr() as usize;
    let runs =
        text.split(|byte| !is_word(*byte) && !matches!(byte, b'<' | b'/' | b'.' | b'@' | b'-'));
    for run in runs.filter(|run| !run.starts_with(b"</")) {
        let run = run.strip_prefix(b"<").unwrap_or(run);
        let end = run.iter().rposition(|byte| is_word(*byte)).map_or(0, |last| last + 1);
        let path = &run[..end];
        if NAME_BYTES.contains(&path.len()) && memchr::memchr(b'/', path).is_some() {
            tell(path, end_of(path));
        }
        for word in run.split(|byte| !is_word(*byte)).filter(|word| is_identifier(word)) {
            tell(word, end_of(word));
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

    // `shown` is a line before the others.
    fn choose(text: &str, shown: &str, bytes: usize) -> Vec<String> {
        let line = |number, offset: usize, text| EndLine {
            number: Some(number),
            offset: offset as u64,
            text,
            is_whole: true,
        };
        let offset = |line: &str| shown.len() + 1 + line.as_ptr() as usize - text.as_ptr() as usize;
        let below = (41..).zip(text.lines());
        let below = below.map(|(number, text)| line(number, offset(text), text.as_bytes()));
        let lines: Vec<_> = [line(40, 0, shown.as_bytes())].into_iter().chain(below).collect();
        let names = LineNames::of(&lines);
        let budget = TextBudget { bytes, lines: 150 };
        let hidden = shown.len() as u64 + 1..u64::MAX;
        let chosen = names.chosen(&hidden, &|_| false, &mut LineForms::default(), budget);
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
            each_name(text.as_bytes(), &mut |name, _| {
                names.push(str::from_utf8(name).unwrap());
            });
            names
        };
        let text = "In my_var and CamelCase, Of x2 or utf8 see ./src/a-b.rs: 12 _x __all__";
        let want = ["my_var", "CamelCase", "utf8", "./src/a-b.rs", "__all__"];
        assert_eq!(names(text), want);
        assert_eq!(names("A sentence. An Error, NULL or 0xff at 10:20"), [""; 0]);
    }
}

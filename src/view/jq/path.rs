//! The path that a filter begins with. It can be followed without loading the document.
//!
//! In `.items[10:20] | .[] | select(.ok)` the path is `.items[10:20]`. Everything after the first
//! pipe sees only the values that the path selects. A filter such as `.items[0] + .total` has no
//! path in this sense: no pipe follows `.items[0]`, and `.total` sees the whole document.

use std::num::ParseIntError;

use crate::scan;
use ctxfs_core::materialize::json::Events;

/// The steps at the beginning of a filter, each with the rest of the filter after it. If there are
/// no steps, the filter does not begin with a path that can be followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FilterPath {
    pub(super) steps: Vec<PathStep>,
}

// A step of a path. `rest` is the filter to apply to the values that this step selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathStep {
    pub(super) to: StepTarget,
    pub(super) rest: String,
}

/// The target of a step. `Each` is `[]`, or a range of items such as `[10:20][]`. Without a range,
/// `Each` also selects each value of an object. `FromEnd`, such as `[-1]`, cannot be followed in a
/// forward pass, and neither can the steps after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepTarget {
    // `.key`, `["key"]`
    Key(String),
    // `[3]`
    Item(u64),
    Each { range: Option<(u64, Option<u64>)> },
    // `[10:20]`, `[10:]`, `[:20]`
    Slice(u64, Option<u64>),
    FromEnd,
}

/// Parses the path at the start of `filter`, up to the first step that counts from the end, such as
/// `[-1]`. The result has no steps if `filter` does not begin with a path, or if the path begins
/// with such a step.
pub(super) fn leading(filter: &str) -> FilterPath {
    let mut parser = PathParser { filter, at: 0 };
    let Some(found) = parser.steps() else { return FilterPath::default() };
    let end = parser.at;
    parser.space();
    let tail = match parser.left().strip_prefix('|') {
        Some(tail) if !tail.starts_with('=') => Some(tail),
        None if parser.left().is_empty() => None,
        _ => return FilterPath::default(),
    };
    let rest = |at: usize| left(filter[at..end].trim_start(), tail);
    let forwards = found.into_iter().take_while(|(to, _)| *to != StepTarget::FromEnd);
    let steps = forwards.map(|(to, at)| PathStep { to, rest: rest(at) }).collect();
    FilterPath { steps: joined(steps) }
}

// Joins the rest of the path and the part after the pipe.
fn left(path: &str, tail: Option<&str>) -> String {
    let dot = if path.starts_with('.') { "" } else { "." };
    tail.map_or_else(|| format!("{dot}{path}"), |tail| format!("{dot}{path} | {}", tail.trim()))
}

// Joins a slice and the following `[]` to one step.
fn joined(steps: Vec<PathStep>) -> Vec<PathStep> {
    let mut joined: Vec<PathStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match (joined.last_mut(), &step.to) {
            (Some(PathStep { to, rest }), StepTarget::Each { range: None })
                if matches!(to, StepTarget::Slice(..)) =>
            {
                if let StepTarget::Slice(from, upto) = *to {
                    *to = StepTarget::Each { range: Some((from, upto)) };
                }
                *rest = step.rest;
            }
            _ => joined.push(step),
        }
    }
    joined
}

struct PathParser<'a> {
    filter: &'a str,
    at: usize,
}

impl<'a> PathParser<'a> {
    fn left(&self) -> &'a str {
        &self.filter[self.at..]
    }

    fn space(&mut self) {
        self.at = self.filter.len() - self.left().trim_start().len();
    }

    fn take(&mut self, what: &str) -> bool {
        let is_next = self.left().starts_with(what);
        self.at += if is_next { what.len() } else { 0 };
        is_next
    }

    // Parses the steps. Returns each step with the offset of its end.
    fn steps(&mut self) -> Option<Vec<(StepTarget, usize)>> {
        let mut steps = Vec::new();
        self.space();
        if !self.left().starts_with('.') || self.left().starts_with("..") {
            return None;
        }
        // A single dot, or a dot before a bracket.
        self.bare_dot();
        loop {
            let before = self.at;
            self.space();
            self.bare_dot();
            self.space();
            let to = if self.take("[") {
                self.bracket()?
            } else if self.take(".") {
                StepTarget::Key(self.name()?)
            } else {
                self.at = before;
                return Some(steps);
            };
            self.question_marks();
            steps.push((to, self.at));
        }
    }

    // Skips a dot that no key follows, as in `.` and `.[`.
    fn bare_dot(&mut self) {
        let is_bare =
            |after: &str| !after.starts_with(|c: char| is_word(c) || matches!(c, '"' | '.'));
        if self.left().strip_prefix('.').is_some_and(is_bare) {
            self.at += 1;
        }
    }

    fn question_marks(&mut self) {
        let mut before = self.at;
        while {
            self.space();
            self.take("?")
        } {
            before = self.at;
        }
        self.at = before;
    }

    // Parses `key` or `"key"` after a dot.
    fn name(&mut self) -> Option<String> {
        if self.left().starts_with('"') {
            return self.string();
        }
        let length = self.left().find(|c| !is_word(c)).unwrap_or(self.left().len());
        let name = &self.left()[..length];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += length;
        Some(name.to_owned())
    }

    fn string(&mut self) -> Option<String> {
        let text = &self.left()[..scan::json_string_length(self.left().as_bytes())?];
        let decoded = serde_json::from_str(text).ok()?;
        self.at += text.len();
        Some(decoded)
    }

    // Parses the text between `[` and `]`, including the `]`. Returns `None` if it is an
    // expression.
    fn bracket(&mut self) -> Option<StepTarget> {
        self.space();
        let to = if self.left().starts_with('"') {
            StepTarget::Key(self.string()?)
        } else {
            let from = self.number().ok()?;
            self.space();
            if self.take(":") {
                self.space();
                slice(from, self.number().ok()?)
            } else {
                match from.map(u64::try_from) {
                    Some(Ok(from)) => StepTarget::Item(from),
                    Some(Err(_)) => StepTarget::FromEnd,
                    None => StepTarget::Each { range: None },
                }
            }
        };
        self.space();
        self.take("]").then_some(to)
    }

    fn number(&mut self) -> Result<Option<i64>, ParseIntError> {
        let digits = self.left().trim_start_matches('-');
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let text = &self.left()[..self.left().len() - digits.len() + length];
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse()?;
        self.at += text.len();
        Ok(Some(number))
    }
}

fn slice(from: Option<i64>, upto: Option<i64>) -> StepTarget {
    match (u64::try_from(from.unwrap_or(0)), upto.map(u64::try_from).transpose()) {
        (Ok(from), Ok(upto)) => StepTarget::Slice(from, upto),
        _ => StepTarget::FromEnd,
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A value that a path selects after `depth` steps. The rest of the filter after the last of these
/// steps is applied to the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) depth: usize,
    pub(super) range: SelectedRange,
}

/// Offsets in the content. `Value` is the range of a value. `Items` is the range of the items of an
/// array, and may be empty. `Null` means that there is no such key or item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectedRange {
    Value(u64, u64),
    Items(u64, u64),
    Null,
}

/// Finds the values that the steps select, while a scanner passes over a document.
///
/// A value to which a step does not apply, such as a number under `.key`, is selected unchanged.
/// The rest of the filter then fails on it as in jq. If an object has a key twice, the first value
/// is used. jq uses the last value, but only the end of the object would show which one is the
/// last.
pub(super) struct PathSelector<'a> {
    steps: &'a [PathStep],
    // The offset of the bytes that the scanner is processing.
    base: u64,
    // The objects and arrays on the path, outermost first.
    open: Vec<PathContainer>,
    // Number of open brackets inside a selected or skipped value.
    below: u64,
    // The value that has begun: the number of steps to it, and its offset.
    begun: Option<(usize, u64)>,
    // The selections that were not consumed yet.
    pub(super) found: Vec<Selection>,
}

/// An object or array on the path. `depth` is the number of steps that led to it. The next step
/// selects one of its members. `items_at` is the range of the items of a slice.
struct PathContainer {
    depth: usize,
    items: u64,
    // True if the last key is the requested one.
    is_key: bool,
    // True if the next step has selected a value.
    taken: bool,
    items_at: Option<(u64, u64)>,
}

impl<'a> PathSelector<'a> {
    pub(super) fn new(steps: &'a [PathStep]) -> Self {
        Self { steps, base: 0, open: Vec::new(), below: 0, begun: None, found: Vec::new() }
    }

    /// Returns the number of steps that lead to the value at `at`, or `None` if the value is not on
    /// the path.
    fn next(&mut self, at: u64) -> Option<usize> {
        let Some(level) = self.open.last_mut() else { return Some(0) };
        let item = level.items;
        level.items += 1;
        let leads = match &self.steps[level.depth].to {
            StepTarget::Key(_) => level.is_key && !level.taken,
            StepTarget::Item(wanted) => item == *wanted,
            StepTarget::Each { range } => range.is_none_or(|range| is_in(item, range)),
            StepTarget::FromEnd => false,
            StepTarget::Slice(from, upto) => {
                if is_in(item, (*from, *upto)) {
                    level.items_at.get_or_insert((at, at));
                }
                return None;
            }
        };
        level.taken |= leads;
        leads.then_some(level.depth + 1)
    }

    fn enter(&mut self, array: bool) {
        let depth = self.begun.map_or(self.steps.len(), |(depth, _)| depth);
        let leads = match self.steps.get(depth).map(|step| &step.to) {
            Some(StepTarget::Key(_)) => !array,
            Some(
                StepTarget::Item(_) | StepTarget::Slice(..) | StepTarget::Each { range: Some(_) },
            ) => array,
            Some(StepTarget::Each { range: None }) => true,
            Some(StepTarget::FromEnd) | None => false,
        };
        if self.below > 0 || !leads {
            self.below += 1;
            return;
        }
        self.begun = None;
        let level = PathContainer { depth, items: 0, is_key: false, taken: false, items_at: None };
        self.open.push(level);
    }

    fn leave(&mut self, PathContainer { depth, taken, items_at, .. }: &PathContainer) {
        let range = match self.steps[*depth].to {
            StepTarget::Key(_) | StepTarget::Item(_) if !taken => SelectedRange::Null,
            StepTarget::Slice(..) => {
                let (start, end) = items_at.unwrap_or_default();
                SelectedRange::Items(start, end)
            }
            _ => return,
        };
        self.found.push(Selection { depth: depth + 1, range });
    }
}

fn is_in(item: u64, (from, upto): (u64, Option<u64>)) -> bool {
    from <= item && upto.is_none_or(|upto| item < upto)
}

impl Events for PathSelector<'_> {
    // Length of the longest key that a filter can name, with each character escaped.
    const KEY_BYTES: usize = 32 << 10;

    fn block(&mut self, offset: u64) {
        self.base = offset;
    }

    fn begins(&mut self, at: usize) {
        if self.below == 0 {
            let at = self.base + at as u64;
            self.begun = self.next(at).map(|depth| (depth, at));
        }
    }

    fn bracket(&mut self, byte: u8) {
        if matches!(byte, b'{' | b'[') {
            self.enter(byte == b'[');
        }
    }

    fn key(&mut self, key: &[u8]) {
        if self.below > 0 {
            return;
        }
        let Some(level) = self.open.last_mut() else { return };
        if let StepTarget::Key(wanted) = &self.steps[level.depth].to {
            level.is_key = is_key(key, wanted);
        }
    }

    fn end(&mut self) {
        if self.below > 0 {
            self.below -= 1;
        } else if let Some(level) = self.open.pop() {
            self.leave(&level);
        }
    }

    fn ends(&mut self, at: usize) {
        if self.below > 0 {
            return;
        }
        let end = self.base + at as u64;
        if let Some((depth, start)) = self.begun.take() {
            self.found.push(Selection { depth, range: SelectedRange::Value(start, end) });
        }
        let Some(level) = self.open.last_mut() else { return };
        if let (StepTarget::Slice(from, upto), Some(items)) =
            (&self.steps[level.depth].to, &mut level.items_at)
            && is_in(level.items - 1, (*from, *upto))
        {
            items.1 = end;
        }
    }
}

// Compares a key with its raw JSON spelling.
fn is_key(written: &[u8], wanted: &str) -> bool {
    if !written.contains(&b'\\') {
        return written == wanted.as_bytes();
    }
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|decoded| decoded == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::materialize::json::Scanner;

    /// Returns the steps, each with the rest of the filter after it.
    fn read(filter: &str) -> Vec<(StepTarget, String)> {
        leading(filter).steps.into_iter().map(|step| (step.to, step.rest)).collect()
    }

    fn key(name: &str) -> StepTarget {
        StepTarget::Key(name.to_owned())
    }

    #[test]
    fn paths() {
        let each = |range| StepTarget::Each { range };
        let cases: Vec<(&str, Vec<(StepTarget, &str)>)> = vec![
            (".", vec![]),
            (" . | length", vec![]),
            (".a", vec![(key("a"), ".")]),
            (".a.b", vec![(key("a"), ".b"), (key("b"), ".")]),
            (".a[]|.b", vec![(key("a"), ".[] | .b"), (each(None), ". | .b")]),
            (".[3].x", vec![(StepTarget::Item(3), ".x"), (key("x"), ".")]),
            (".\"a b\" . [ \"c\" ] ?", vec![(key("a b"), ". [ \"c\" ] ?"), (key("c"), ".")]),
            (".a?[]?.b", vec![(key("a"), ".[]?.b"), (each(None), ".b"), (key("b"), ".")]),
            (".[2:5] | length", vec![(StepTarget::Slice(2, Some(5)), ". | length")]),
            (".[2:][] | .x", vec![(each(Some((2, None))), ". | .x")]),
            (".[:5][].x", vec![(each(Some((0, Some(5)))), ".x"), (key("x"), ".")]),
            (".a[-1].b | c", vec![(key("a"), ".[-1].b | c")]),
            (".[-2:]", vec![]),
            (".a | .b | .c", vec![(key("a"), ". | .b | .c")]),
            (".and.or", vec![(key("and"), ".or"), (key("or"), ".")]),
            (".[\"\\u00e9\\n\"]", vec![(key("\u{e9}\n"), ".")]),
        ];
        for (filter, expected) in cases {
            let expected: Vec<_> =
                expected.into_iter().map(|(to, rest)| (to, rest.to_owned())).collect();
            assert_eq!(read(filter), expected, "{filter}");
        }
    }

    #[test]
    fn what_sees_the_document_has_no_path() {
        let filters = [
            "..",
            "..a",
            "length",
            "[.a[] | .b]",
            ".a + .b",
            ".a, .b",
            ".a // 1",
            ".a |= 1",
            ".a = 1",
            ".a as $x | .b",
            ".a[.n]",
            ".a[.n] | .b",
            ".a[$n]",
            ".a[1.5]",
            ".a[\"\\(.n)\"]",
            ".a[",
            ".a[1",
            ".a[]?//1",
            ".1",
            ".a.",
            "(.a)",
            ".a # x",
            ".a[99999999999999999999]",
            "def f: .a; f",
            "",
        ];
        for filter in filters {
            assert_eq!(leading(filter), FilterPath::default(), "{filter}");
        }
    }

    /// Returns what a path finds in `text`. Asserts that the result does not depend on how the text
    /// is split.
    fn find(path: &str, text: &str) -> Vec<String> {
        let steps = leading(path).steps;
        let found = (1..=text.len()).map(|step| {
            let mut select = PathSelector::new(&steps);
            let mut scanner = Scanner::default();
            let mut found = Vec::new();
            for (at, piece) in (0..).step_by(step).zip(text.as_bytes().chunks(step)) {
                select.block(at);
                scanner.push(piece, &mut select);
                found.append(&mut select.found);
            }
            found
        });
        let mut all: Vec<Vec<Selection>> = found.collect();
        all.dedup();
        assert_eq!(all.len(), 1, "{path} in {text} depends on the cuts");
        let cut =
            |start, end| &text[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
        let shown = all[0].iter().map(|Selection { depth, range }| match *range {
            SelectedRange::Value(start, end) => format!("{depth} {}", cut(start, end)),
            SelectedRange::Items(start, end) => format!("{depth} [{}]", cut(start, end)),
            SelectedRange::Null => format!("{depth} null"),
        });
        shown.collect()
    }

    #[test]
    fn what_paths_lead_to() {
        let text = r#"{"a": [{"b": 1}, {"b": [2, {"a": 0}]}, {"c": 3}], "d": "x", "a": 9} "#;
        let cases: [(&str, &[&str]); 17] = [
            (".d", &[r#"1 "x""#]),
            (".a", &[r#"1 [{"b": 1}, {"b": [2, {"a": 0}]}, {"c": 3}]"#]),
            (".a[].b", &["3 1", r#"3 [2, {"a": 0}]"#, "3 null"]),
            (".a[1].b[1].a", &["5 0"]),
            (".a[7]", &["2 null"]),
            (".a[7].b", &["2 null"]),
            (".missing", &["1 null"]),
            (".d.x", &[r#"1 "x""#]),
            (".d[]", &[r#"1 "x""#]),
            (".a.x", &[r#"1 [{"b": 1}, {"b": [2, {"a": 0}]}, {"c": 3}]"#]),
            (".[0]", &[r#"0 {"a": [{"b": 1}, {"b": [2, {"a": 0}]}, {"c": 3}], "d": "x", "a": 9}"#]),
            (".a[1:]", &[r#"2 [{"b": [2, {"a": 0}]}, {"c": 3}]"#]),
            (".a[1:2][]", &[r#"2 {"b": [2, {"a": 0}]}"#]),
            (".a[:2][].b", &["3 1", r#"3 [2, {"a": 0}]"#]),
            (".a[5:]", &["2 []"]),
            (".a[1:2]", &[r#"2 [{"b": [2, {"a": 0}]}]"#]),
            (".[]", &[r#"1 [{"b": 1}, {"b": [2, {"a": 0}]}, {"c": 3}]"#, r#"1 "x""#, "1 9"]),
        ];
        for (path, expected) in cases {
            assert_eq!(find(path, text), expected, "{path}");
        }
        assert_eq!(
            find(".[]", "[1,true,\"a\",[],{}] "),
            ["1 1", "1 true", "1 \"a\"", "1 []", "1 {}"]
        );
        assert_eq!(find(".\"\u{e9}\\n\"", r#"{"\u00e9\n": 1}"#), ["1 1"]);
        assert_eq!(find(".a", "[] "), ["0 []"]);
        assert_eq!(find(".a", "12 "), ["0 12"]);
    }
}

//! The path that a filter begins with. It can be followed without loading a document.
//!
//! In `.items[10:20] | .[] | select(.ok)` that is `.items[10:20]`: everything after the first pipe
//! sees only the values that the path leads to. If anything but a pipe follows the path, as in
//! `.items[0] + .total`, the filter has no path in this sense, since its rest sees the document.

use std::num::ParseIntError;

/// The steps at the beginning of a filter, each with the rest of the filter after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FilterPath {
    pub(super) steps: Vec<PathStep>,
}

/// A step of a path. `rest` is the filter to apply to the values that it leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathStep {
    pub(super) to: StepTarget,
    pub(super) rest: String,
}

/// The target of a step. `Each` is `[]`, or `[10:20][]` from one item on and up to another; without
/// a range it is also each value of an object. A path cannot be followed to `FromEnd`, as in
/// `[-1]`.
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

/// Reads the path of `filter`, as far as it can be followed forwards. It has no steps if the filter
/// does not begin with a path.
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

// The rest of the path, and the part after the pipe.
fn left(path: &str, tail: Option<&str>) -> String {
    let dot = if path.starts_with('.') { "" } else { "." };
    tail.map_or_else(|| format!("{dot}{path}"), |tail| format!("{dot}{path} | {}", tail.trim()))
}

// A slice and the step to each of its items are one step.
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

    // The steps, and the offset at which each ends.
    fn steps(&mut self) -> Option<Vec<(StepTarget, usize)>> {
        let mut steps = Vec::new();
        self.space();
        if !self.left().starts_with('.') || self.left().starts_with("..") {
            return None;
        }
        // A dot alone, or before a bracket.
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

    // A dot that no key follows, as in `.` and `.[`.
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

    // `key` or `"key"`, after a dot.
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

    // A string without interpolation.
    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.left()[1..].find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let text = &self.left()[..end + 2];
        let decoded = serde_json::from_str(text).ok()?;
        self.at += text.len();
        Some(decoded)
    }

    /// Reads from behind `[` through `]`. Returns `None` if that is an expression.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps and the rest after each.
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
}

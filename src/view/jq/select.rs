use crate::jq::path::{PathStep, StepTarget};
use ctxfs_core::materialize::json::{Events, Scalar};

/// A value that a path leads to after `depth` steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) depth: usize,
    pub(super) range: SelectedRange,
}

/// Offsets in the content: of a value, or of the items of an array, which may be none. Null if
/// there is no such key or item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectedRange {
    Value(u64, u64),
    Items(u64, u64),
    Null,
}

/// Finds the values that the steps lead to, as a scanner passes over a document.
///
/// A value that a step cannot be taken from, such as a number under `.key`, is selected as it is:
/// the rest of the filter fails on it as jq does. If an object has a key twice, the first one
/// counts: the last, which jq takes, is known only at the end.
pub(super) struct PathSelector<'a> {
    steps: &'a [PathStep],
    // The offset of the bytes that the scanner is being given.
    base: u64,
    // The objects and arrays on the path, outermost first.
    open: Vec<PathContainer>,
    // Open brackets inside of a selected or skipped value.
    below: u64,
    // The value that has begun: the steps to it, and its offset.
    begun: Option<(usize, u64)>,
    found: Vec<Selection>,
}

/// An object or array on the path. `depth` is the number of steps that led to it; one more leads
/// on. `items_at` is the range of the items of a slice.
struct PathContainer {
    depth: usize,
    items: u64,
    // True if the last key is the wanted one.
    is_key: bool,
    // True if the step has led to a value.
    taken: bool,
    items_at: Option<(u64, u64)>,
}

impl<'a> PathSelector<'a> {
    pub(super) fn new(steps: &'a [PathStep]) -> Self {
        Self { steps, base: 0, open: Vec::new(), below: 0, begun: None, found: Vec::new() }
    }

    pub(super) fn at(&mut self, base: u64) {
        self.base = base;
    }

    /// Returns the selections since the last call.
    pub(super) fn found(&mut self) -> std::vec::Drain<'_, Selection> {
        self.found.drain(..)
    }

    /// Returns the number of steps to the value that begins at `at`, or `None` if it is not on the
    /// path.
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

    // Enters the object or array that has begun, if the path leads on into it.
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
    // The length of the longest key that a filter can name, with each character escaped.
    const KEY_BYTES: usize = 32 << 10;

    fn begins(&mut self, at: usize) {
        if self.below == 0 {
            let at = self.base + at as u64;
            self.begun = self.next(at).map(|depth| (depth, at));
        }
    }

    fn scalar(&mut self, _: Scalar, _: &[u8]) {}

    fn text(&mut self, _: &[u8], _: u64) {}

    fn begin_object(&mut self) {
        self.enter(false);
    }

    fn begin_array(&mut self) {
        self.enter(true);
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

// `written` is spelled as in JSON.
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
    use crate::jq::path::leading;
    use ctxfs_core::materialize::json::Scanner;

    /// Returns what a path finds in `text`, wherever the text is cut.
    fn find(path: &str, text: &str) -> Vec<String> {
        let steps = leading(path).steps;
        let found = (1..=text.len()).map(|step| {
            let mut select = PathSelector::new(&steps);
            let mut scanner = Scanner::default();
            let mut found = Vec::new();
            for (at, piece) in (0..).step_by(step).zip(text.as_bytes().chunks(step)) {
                select.at(at);
                scanner.push(piece, &mut select);
                found.extend(select.found());
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

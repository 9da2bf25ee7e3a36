//! The path of a node of JSON, as the filter of `.jq/` that leads to it.

use ctxfs_view::JsonStep;

/// The most steps of a path, and its most bytes.
pub(super) const DEEPEST: usize = 64;
const LONGEST: usize = 4096;
/// The option of a filter over all values of JSON Lines at once.
const ALL_LINES: &str = "-s ";

/// Returns the filter that leads along `path`.
pub(super) fn filter(path: &[JsonStep], is_lines: bool) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            JsonStep::Key(key) if is_bare(key) => {
                text.push('.');
                text.push_str(&String::from_utf8_lossy(key));
            }
            JsonStep::Key(key) => {
                text.push_str(".\"");
                text.push_str(&String::from_utf8_lossy(key));
                text.push('"');
            }
            JsonStep::Item(number) => {
                text.push_str(if text.is_empty() { ".[" } else { "[" });
                text.push_str(&number.to_string());
                text.push(']');
            }
        }
    }
    let text = if text.is_empty() { ".".to_owned() } else { text };
    if is_lines { format!("{ALL_LINES}{text}") } else { text }
}

/// Reads such a filter. Returns none for any other, and for one that leads too deep: each node
/// repeats the path to it.
pub(super) fn parse(filter: &str) -> Option<Vec<JsonStep>> {
    if filter.len() > LONGEST {
        return None;
    }
    let mut rest = filter.strip_prefix(ALL_LINES).unwrap_or(filter);
    let mut steps = Vec::new();
    rest = rest.strip_prefix(".[").map_or(rest, |_| &rest[1..]);
    if rest == "." {
        return Some(steps);
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (number, after) = after.split_once(']')?;
            steps.push(JsonStep::Item(number.parse().ok()?));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let end = end_of_string(after)?;
            steps.push(JsonStep::Key(after.as_bytes()[..end].to_vec()));
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let key = &after.as_bytes()[..end];
            steps.push(is_bare(key).then(|| JsonStep::Key(key.to_vec()))?);
            rest = &after[end..];
        }
    }
    (steps.len() <= DEEPEST).then_some(steps)
}

fn is_bare(key: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    key.first().is_some_and(|first| !first.is_ascii_digit()) && key.iter().all(is_word)
}

/// Returns the index of the quote that ends a string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> JsonStep {
        JsonStep::Key(name.as_bytes().to_vec())
    }

    #[test]
    fn paths_are_filters() {
        assert_eq!(filter(&[], false), ".");
        assert_eq!(filter(&[], true), "-s .");
        let path = [key("items"), JsonStep::Item(0), key("a b"), key("1")];
        assert_eq!(filter(&path, false), ".items[0].\"a b\".\"1\"");
        assert_eq!(filter(&[JsonStep::Item(3), key("msg")], true), "-s .[3].msg");
        assert_eq!(parse(&".a".repeat(DEEPEST)).unwrap().len(), DEEPEST);
        assert_eq!(parse(&".a".repeat(DEEPEST + 1)), None);
        assert_eq!(parse(&format!(".{}", "a".repeat(LONGEST))), None);
        for other in ["items", ".a | .b", ".[", ".a[]", ".a[-1]", "..", ".\"a"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn filters_come_back(
            names in proptest::collection::vec("[a-z ._\\[]{1,6}|[0-9]{1,3}", 0..5),
            is_lines: bool,
        ) {
            let step = |name: &String| name.parse().map_or_else(|_| key(name), JsonStep::Item);
            let path: Vec<_> = names.iter().map(step).collect();
            prop_assert_eq!(parse(&filter(&path, is_lines)), Some(path));
        }
    }
}

//! Matching printed lines with expected ones: `...` alone stands for any lines, even none, and
//! inside a line for any text.

const ANY: &str = "...";

/// Returns true if `printed` matches `expected`.
pub(super) fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&ANY, rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((first, rest)) => {
            let Some((line, printed)) = printed.split_first() else { return false };
            line_matches(first, line) && matches(rest, printed)
        }
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let Some((start, rest)) = expected.split_once(ANY) else { return expected == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    ends.into_iter().any(|at| line_matches(rest, &line[at..]))
}

#[test]
fn only_what_is_left_open_may_differ() {
    let holds: [(&[&str], &[&str]); 7] = [
        (&[], &[]),
        (&["a", "b"], &["a", "b"]),
        (&["..."], &[]),
        (&["a", "...", "d"], &["a", "b", "c", "d"]),
        (&["a", "...", "d"], &["a", "d"]),
        (&["at ... of ...s"], &["at 3 of 9 lines"]),
        (&["...\"x\":1..."], &["{\"x\":1}"]),
    ];
    for (expected, printed) in holds {
        assert!(matches(expected, printed), "{expected:?} {printed:?}");
    }
    let fails: [(&[&str], &[&str]); 7] = [
        (&[], &["a"]),
        (&["a"], &[]),
        (&["a"], &["b"]),
        (&["a", "...", "d"], &["a", "b"]),
        (&["...", "b"], &["b", "a"]),
        (&["a..."], &["ba"]),
        (&["...a"], &["ab"]),
    ];
    for (expected, printed) in fails {
        assert!(!matches(expected, printed), "{expected:?} {printed:?}");
    }
}

use proptest::prelude::*;

use super::*;

const ROOM: usize = 40_000;

fn diff(old: &str, new: &str) -> (String, LineDiff) {
    diff_of([&old.as_bytes().to_vec(), &new.as_bytes().to_vec()], ROOM)
}

fn diff_of(contents: [&Vec<u8>; 2], room: usize) -> (String, LineDiff) {
    let mut out = Vec::new();
    let contents = contents.map(|content| content as &dyn Content);
    let diff = compare(contents, room, &|| false, Some(&mut out)).unwrap();
    (String::from_utf8_lossy(&out).into_owned(), diff)
}

fn numbered(lines: impl Iterator<Item = u32>) -> String {
    lines.map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn hunks_are_those_of_diff() {
    let old = numbered(1..=30);
    let new = old.replace("line 10\n", "").replace("line 20\n", "twenty\nmore\n");
    let (text, LineDiff { removed, added, end, .. }) = diff(&old, &new);
    let expected = "\
@@ -7,7 +7,6 @@
 line 7
 line 8
 line 9
-line 10
 line 11
 line 12
 line 13
@@ -17,7 +16,8 @@
 line 17
 line 18
 line 19
-line 20
+twenty
+more
 line 21
 line 22
 line 23
";
    assert_eq!(text, expected);
    assert_eq!((removed, added, end), (2, 2, DiffEnd::Whole));
}

#[test]
fn near_changes_share_a_hunk() {
    let old = numbered(1..=12);
    let new = old.replace("line 2\n", "two\n").replace("line 9\n", "nine\n");
    assert_eq!(diff(&old, &new).0.matches("@@ -").count(), 1);
    let new = old.replace("line 2\n", "two\n").replace("line 10\n", "ten\n");
    assert_eq!(diff(&old, &new).0.matches("@@ -").count(), 2);
}

#[test]
fn beginnings_and_ends() {
    assert_eq!(diff("", "a\n").0, "@@ -0,0 +1 @@\n+a\n");
    assert_eq!(diff("a\nb\n", "").0, "@@ -1,2 +0,0 @@\n-a\n-b\n");
    assert_eq!(diff("b\n", "a\nb\n").0, "@@ -1 +1,2 @@\n+a\n b\n");
    assert_eq!(
        diff("a\nb", "a\nb\n").0,
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    );
    assert_eq!(diff("a\nb", "a\nb").0, "");
    assert_eq!(diff("a 1s\n", "a 2s\n").0, "");
    assert_eq!(diff("a\n", "a\r\n").0, "@@ -1 +1 @@\n-a\n+a\r\n");
}

#[test]
fn a_long_line_is_shown_where_it_differs() {
    let old = format!("{}x{}\n", "a".repeat(5000), "b".repeat(5000));
    let new = old.replace('x', "yz");
    let (text, LineDiff { long, .. }) = diff(&old, &new);
    assert!(text.contains("aaxbb") && text.contains("aayzbb") && text.len() < 1300, "{text}");
    assert_eq!(long.map(|at| at.line), Some(1));
}

#[test]
fn without_room_it_says_where_to_go_on() {
    let (old, new) = (numbered(1..=100), numbered(201..=300));
    let contents = [&old.clone().into_bytes(), &new.into_bytes()];
    let (text, LineDiff { end, .. }) = diff_of(contents, 500);
    assert!(text.len() < 700, "{}", text.len());
    let shown = text.lines().filter(|line| line.starts_with('-')).count() as u64;
    assert_eq!(end, DiffEnd::Room([shown + 1, 1]));
}

#[test]
fn windows_of_large_outputs_join() {
    let lines = 3 * WINDOW_LINES as u32;
    let old = numbered(1..=lines);
    let new = old
        .replace("line 65536\n", "changed\n")
        .replace("line 100000\n", "")
        .replace("line 196000\n", "line 196000\ninserted\n");
    let (text, LineDiff { removed, added, end, .. }) = diff(&old, &new);
    assert_eq!((removed, added, end), (2, 2, DiffEnd::Whole));
    assert!(text.contains("@@ -65533,7 +65533,7 @@\n") && text.contains("\n+inserted\n"), "{text}");
    let apart = numbered(1_000_000..=1_000_000 + lines);
    let (_, LineDiff { end, .. }) = diff_of([&old.into_bytes(), &apart.into_bytes()], usize::MAX);
    assert_eq!(end, DiffEnd::Apart([1, 1]));
}

#[test]
fn what_was_appended_is_added() {
    let old = numbered(1..=10).into_bytes();
    let new = numbered(1..=3 * WINDOW_LINES as u32).into_bytes();
    let diff = compare([&old, &new], 0, &|| false, None).unwrap();
    let added = 3 * WINDOW_LINES as u64 - 10;
    assert_eq!((diff.removed, diff.added, diff.end), (0, added, DiffEnd::Whole));
}

#[test]
fn time_ends_a_comparison() {
    let (old, new) = (b"a\n".to_vec(), b"b\n".to_vec());
    let diff = compare([&old, &new], ROOM, &|| true, None).unwrap();
    assert_eq!(diff.end, DiffEnd::Time([1, 1]));
}

/// Applies hunks to the lines of `old`.
fn patched(old: &str, hunks: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut new, mut next) = (String::new(), 0);
    for line in hunks.split_inclusive('\n') {
        if let Some(range) = line.strip_prefix("@@ -") {
            let range = range.split(' ').next().unwrap();
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            let start = start.parse::<usize>().unwrap() - usize::from(count != "0");
            new.extend(old[next..start].iter().copied());
            next = start;
        } else if line.starts_with('\\') {
            new.truncate(new.len() - 1);
        } else {
            let (mark, text) = line.split_at(1);
            if mark != "+" {
                assert_eq!(old[next].trim_end_matches('\n'), text.trim_end_matches('\n'));
                next += 1;
            }
            if mark != "-" {
                new.push_str(text);
            }
        }
    }
    new.extend(old[next..].iter().copied());
    new
}

proptest! {
    #[test]
    fn hunks_turn_the_earlier_output_into_the_later(
        old in prop::collection::vec("[ab]\n", 0..40),
        new in prop::collection::vec("[abc]\n", 0..40),
    ) {
        let (old, new) = (old.concat(), new.concat());
        let (text, _) = diff(&old, &new);
        prop_assert_eq!(patched(&old, &text), new);
    }
}

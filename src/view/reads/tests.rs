use super::*;
use crate::fixture::Fixture;

/// Returns an output with shortcuts. Asserts that its three views are the same without them.
#[track_caller]
fn with_shortcuts(text: impl Into<Vec<u8>>) -> Fixture {
    let mut fixture = Fixture::analysed(text);
    let views = [View::Summary, View::Tail, View::Head];
    let before = views.clone().map(|view| fixture.text(&view));
    let shortcuts = shortcuts(&fixture.subject()).unwrap();
    fixture.analysis.shortcuts = Some(Box::new(shortcuts));
    assert_eq!(views.map(|view| fixture.text(&view)), before);
    fixture
}

/// Returns the number of bytes that the three views of an output read.
#[track_caller]
fn bytes_read(text: impl Into<Vec<u8>>) -> u64 {
    let fixture = with_shortcuts(text);
    let reads = StandInReads::of(&fixture.subject()).unwrap();
    let all: Vec<_> = reads.ends.iter().chain(&reads.found).cloned().collect();
    let all: u64 = merged(all).iter().map(|range| range.end - range.start).sum();
    let masked: u64 = reads.masked.iter().map(|range| range.end - range.start).sum();
    assert!(masked >= all);
    all
}

fn lines(count: usize) -> String {
    (0..count)
        .map(|line| format!("line {line} of a log, and {}\n", line * line))
        .collect::<Vec<_>>()
        .concat()
}

/// Maximum number of bytes that are read around one place in the middle and at both ends.
const ONE_PLACE: u64 = 4 * END;

#[test]
fn those_of_a_log_are_its_ends_and_what_was_found() {
    assert!(bytes_read(lines(30_000)) < ONE_PLACE);
    assert!(bytes_read(format!("{}\n{}", "x".repeat(1 << 20), lines(10))) < ONE_PLACE);
    let sections = lines(3000) + "\n[section]\n" + &lines(30_000) + "\n[other]\n" + &lines(3000);
    assert!(bytes_read(sections) < ONE_PLACE);
    let json = (0..20_000).map(|id| format!("{{\"id\":{id},\"level\":\"info\"}}\n"));
    assert!(bytes_read(json.collect::<Vec<_>>().concat()) < ONE_PLACE);
}

#[test]
fn searches_that_were_tried_are_not_tried_again() {
    let middle = "Traceback (most recent call last):\nValueError: 17 is no port\n";
    for size in [12_000, 100_000] {
        let text = lines(size / 2) + middle + &lines(size / 2);
        let length = text.len();
        assert!(bytes_read(text) <= ONE_PLACE, "of {length}");
    }
}

#[test]
fn the_start_of_a_long_last_line_is_known() {
    let long = "0123456789".repeat(400_000);
    assert!(bytes_read(long.clone()) < ONE_PLACE);
    assert!(bytes_read(format!("a header\n{long}\n")) < ONE_PLACE);
}

#[test]
fn of_what_begins_as_no_text_only_the_beginning_is_read() {
    assert_eq!(bytes_read(vec![0_u8; 1 << 20]), END);
    let late = [vec![b'x'; 1 << 20], vec![0]].concat();
    assert_eq!(bytes_read(late), 2 * END);
}

#[test]
fn what_masks_would_change_is_no_shortcut() {
    let secret = "token: ghp_ValueErrorX7mQ2vK9bT4nR8sW1yZ5cD3fG6hJ\n";
    for (line, differs) in [("nothing secret\n", false), (secret, true)] {
        let text = lines(20_000) + line + "ValueError: 17 is no port\n" + &lines(20_000);
        let fixture = Fixture::analysed(text);
        let shown = summary::tried(&fixture.subject()).unwrap();
        let known = shortcuts(&fixture.subject()).unwrap().tried;
        assert!(!shown.is_empty());
        assert_eq!(shown.iter().any(|tried| !known.contains(tried)), differs, "{shown:?}");
    }
}

#[test]
fn an_output_without_errors_tries_nothing() {
    let fixture = Fixture::analysed(lines(20_000));
    let known = shortcuts(&fixture.subject()).unwrap();
    assert_eq!(known, Shortcuts::default());
}

#[test]
fn a_short_one_is_read_whole() {
    let reads = StandInReads::of(&Fixture::analysed("one\ntwo\n").subject()).unwrap();
    assert_eq!(reads.ends, [0..8, 0..8]);
    assert_eq!(reads.masked.first(), Some(&(0..8)));
}

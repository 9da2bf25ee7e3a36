//! Tests of the summary lines that show the command and the other outputs of the same name.

use crate::fixture::Fixture;
use crate::summary::tests::{fact, print};
use ctxfs_core::model::Provenance;

fn summary(bytes: &[u8], names: &[&str]) -> String {
    let mut fixture = Fixture::analysed(bytes);
    fixture.same_name = names.iter().map(|name| (*name).to_owned()).collect();
    print(&fixture)
}

#[test]
fn another_output_of_its_name_is_named_whatever_is_shown() {
    let want = "also:   x~3f09ab.txt, another output of this name, from another host";
    let long = b"many lines\n".repeat(3000);
    for bytes in [&b""[..], &b"\x7fELF\0"[..], &b"one line\n"[..], &long[..]] {
        let text = summary(bytes, &["x~3f09ab.txt"]);
        assert_eq!(text.lines().nth(2), Some(want), "{text}");
        assert_eq!(fact(&summary(bytes, &[]), "also:"), None);
    }
}

#[test]
fn at_most_three_are_named() {
    let names = ["a", "b", "c", "d", "e"];
    let line = |names: &[&str]| fact(&summary(b"text\n", names), "also:").unwrap();
    let three = "also:   a, b, c, other outputs of this name, from other hosts";
    assert_eq!(line(&names[..3]), three);
    let five = "also:   a, b, c and 2 more, other outputs of this name, from other hosts";
    assert_eq!(line(&names), five);
    let long = "y".repeat(250);
    assert!(line(&[long.as_str(); 3]).starts_with("also:   yyy"));
}

#[test]
fn the_command_comes_before_the_tool() {
    for text in ["short\n".to_owned(), String::new(), "\0".to_owned(), "a line\n".repeat(2000)] {
        let args = Some(r#"{"command": "make\n all"}"#.to_owned());
        let tool = Some("exec".to_owned());
        let provenance = Provenance { tool, args, ..Provenance::default() };
        let printed = print(&Fixture::analysed(text).provenance(provenance));
        let lines: Vec<&str> = printed.lines().collect();
        assert!(lines[0].starts_with("[ctxfs] "), "{lines:?}");
        assert_eq!(lines[1], "command: make\u{240a} all");
        assert!(lines[2].starts_with("tool: exec    call: "), "{lines:?}");
    }
}

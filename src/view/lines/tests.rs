use super::*;
use std::ffi::OsStr;
use std::process::Command;

use proptest::prelude::*;

use crate::fixture::Fixture;
use crate::{View, ViewDir};
use ctxfs_core::model::Limits;

fn lines(name: &str) -> View {
    ViewDir::Lines.view(OsStr::new(name)).unwrap()
}

fn numbered_lines(count: usize, width: usize) -> String {
    let text = |line| format!("{line:0width$}\n");
    (1..=count).map(text).collect()
}

fn program(program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(input).unwrap();
    Command::new(program).args(args).arg(file.path()).output().unwrap().stdout
}

fn corpus() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        b"\n".to_vec(),
        b"a".to_vec(),
        b"a\n".to_vec(),
        b"a\n\n\nb".to_vec(),
        b"caf\xc3\xa9 \xff\xfe\r\n\x1b[0mx\n".to_vec(),
        numbered_lines(199, 10).into_bytes(),
        numbered_lines(200, 10).into_bytes(),
        numbered_lines(201, 10).into_bytes(),
        numbered_lines(5000, 100).into_bytes(),
        numbered_lines(5000, 100).trim_end().as_bytes().to_vec(),
        "\n".repeat(100_000).into_bytes(),
        vec![b'x'; Limits::VIEW_BYTES],
    ]
}

#[test]
fn tail_and_head_print_what_the_programs_print() {
    for input in corpus() {
        let fixture = Fixture::new(input.clone());
        assert!(fixture.bytes(&View::Tail) == program("tail", &["-n", "200"], &input));
        assert!(fixture.bytes(&View::Head) == program("head", &["-n", "200"], &input));
        let few = program("tail", &["-n", "3"], &input);
        assert_eq!(fixture.bytes(&lines("-3")), few);
    }
}

#[test]
fn ranges_print_what_sed_prints() {
    for input in corpus() {
        let fixture = Fixture::new(input.clone());
        for (name, script) in
            [("1-2", "1,2p"), ("2+2", "2,3p"), ("3", "3p"), ("180-9999", "180,9999p")]
        {
            match fixture.render(&lines(name)) {
                Ok((body, rendered)) if rendered.notice.is_none() => {
                    let want = program("sed", &["-n", script], &input);
                    assert!(body == want, "{name}");
                }
                Ok(_) => assert!(name.starts_with("180")),
                Err(error) => {
                    assert!(matches!(error, RenderError::NotFound));
                    assert!(program("sed", &["-n", script], &input).is_empty(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_long_tail_says_what_it_shows() {
    let text = numbered_lines(1000, 999);
    let fixture = Fixture::new(text.clone());
    let want = format!(
        "# lines 953-1,000 follow, the last of 1,000; more would pass 48 KiB. \
         Before them: /ctx/c7/artifacts/tool/9f3k.txt.lines/801-952\n{}",
        &text[952_000..]
    );
    assert_eq!(fixture.text(&View::Tail), want);
}

#[test]
fn a_long_head_says_how_to_go_on() {
    let text = numbered_lines(1000, 999);
    let fixture = Fixture::new(text.clone());
    let want = format!(
        "# lines 1-48 follow; more would pass 48 KiB. \
         Go on: /ctx/c7/artifacts/tool/9f3k.txt.lines/49-200\n{}",
        &text[..48_000]
    );
    assert_eq!(fixture.text(&View::Head), want);
    assert!(fixture.text(&lines("49-200")).starts_with("# lines 49-96 follow; "));
    assert!(fixture.text(&lines("999-5000")).starts_with("0000"));
}

#[test]
fn one_long_line_is_cut_inside() {
    let fixture = Fixture::new(format!("a\n{}", "\u{20ac}".repeat(50_000)));
    let head = fixture.text(&lines("2"));
    assert!(head.starts_with(
        "# the first 48,690 bytes of line 2 follow; all of it would pass 48 KiB. \
         Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=2@48691 -o .{1,400}\n\u{20ac}"
    ));
    assert!(fixture.text(&View::Head).starts_with("# line 1 follows; "));
    let tail = fixture.text(&View::Tail);
    assert!(tail.starts_with(
        "# the last 48,690 bytes of line 2 follow, from byte column 101,311 on; all of it would pass \
         48 KiB. All of it in parts: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=2 -o .{1,400}\n\u{20ac}"
    ));
    assert!(tail.ends_with('\u{20ac}'));
}

#[test]
fn lines_that_were_not_analysed_are_counted() {
    let mut fixture = Fixture::new(numbered_lines(1000, 999));
    let text = fixture.text(&View::Tail);
    fixture.analysis.bytes = 10;
    assert_eq!(fixture.text(&View::Tail), text);
}

#[test]
fn ranges_beyond_the_end_are_not_found() {
    let fixture = Fixture::new("a\nb\n");
    for name in ["3-4", "3", "9+1"] {
        assert!(matches!(fixture.render(&lines(name)), Err(RenderError::NotFound)), "{name}");
    }
    assert_eq!(fixture.text(&lines("2-9")), "b\n");
    assert_eq!(fixture.text(&lines("-9")), "a\nb\n");
    assert_eq!(Fixture::new("").text(&lines("-9")), "");
}

#[test]
fn a_search_for_a_line_can_run_out_of_time() {
    let fixture = Fixture::new(numbered_lines(1000, 9));
    let (body, rendered) = fixture.render_until(&lines("900"), &|| true).unwrap();
    assert_eq!(body, b"");
    assert!(!rendered.whole);
    let notice = "# out of time after 0.0 of 10.0 kB, before line 900; nothing follows. \
                  The end: /ctx/c7/artifacts/tool/9f3k.txt.tail\n";
    assert_eq!(rendered.notice.as_deref(), Some(notice));
}

#[test]
fn what_is_not_text_is_named() {
    let fixture = Fixture::new(b"\x7fELF\0\0".to_vec());
    let want = "# not text (application/octet-stream, 6 bytes), so nothing follows. \
                The bytes: /ctx/c7/artifacts/tool/9f3k.txt\n";
    for view in [View::Tail, View::Head, lines("1-2")] {
        assert_eq!(fixture.text(&view), want);
    }
}

proptest! {
    #[test]
    fn parts_are_prefix_and_suffix(
        widths in proptest::collection::vec((0usize..3000, any::<bool>()), 0..260),
    ) {
        let text: String = widths
            .iter()
            .map(|(width, wide)| (if *wide { "\u{e9}" } else { "x" }).repeat(*width) + "\n")
            .collect();
        let fixture = Fixture::new(text.clone());
        let (head, head_said) = fixture.render(&View::Head).unwrap();
        let (tail, tail_said) = fixture.render(&View::Tail).unwrap();
        prop_assert!(text.as_bytes().starts_with(&head));
        prop_assert!(text.as_bytes().ends_with(&tail));
        for (body, provenance) in [(head, head_said), (tail, tail_said)] {
            let notice = provenance.notice.unwrap_or_default();
            prop_assert!(body.len() + notice.len() <= Limits::VIEW_BYTES);
            prop_assert!(notice.is_empty() || body.len() + 7000 > Limits::VIEW_BYTES);
            prop_assert!(str::from_utf8(&body).is_ok());
        }
    }
}

use super::*;
use proptest::prelude::*;

use crate::fixture::Fixture;
use ctxfs_core::model::{ArtifactState, Place, Provenance};

const FORMS: [Form; 4] = [Form::Summary, Form::Envelope, Form::Handle, Form::Preview];

fn fixture(bytes: impl Into<Vec<u8>>) -> Fixture {
    Fixture::analysed(bytes)
}

/// An audience for which nothing is stored.
const NOBODY: Audience<'static> = Audience { tools: &[], is_stored: &|_| false, above: b"" };

fn made(form: Form, fixture: &Fixture) -> StandIn {
    stand_in(form, &fixture.subject(), &NOBODY).unwrap()
}

fn is_unchanged(form: Form, fixture: &Fixture) -> bool {
    made(form, fixture) == StandIn::Unchanged
}

fn replaced(form: Form, fixture: &Fixture) -> String {
    match made(form, fixture) {
        StandIn::Replaced(text) => text,
        StandIn::Unchanged => panic!("{form:?} is unchanged"),
    }
}

fn log(count: usize) -> String {
    let line = |line: usize| format!("{line:06} a line of the log that says caf\u{e9}\n");
    (1..=count).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn an_output_goes_unchanged_up_to_each_limit() {
    let of = |count: usize| fixture("x".repeat(count));
    let limits = [
        (Form::Summary, 8000),
        (Form::Envelope, 51_200),
        (Form::Handle, 12_288),
        (Form::Preview, 51_200),
    ];
    for (form, limit) in limits {
        assert!(is_unchanged(form, &of(0)), "{form:?}");
        assert!(is_unchanged(form, &of(limit - 1)), "{form:?}");
        assert!(is_unchanged(form, &of(limit)), "{form:?}");
        assert!(!is_unchanged(form, &of(limit + 1)), "{form:?}");
    }
}

#[test]
fn a_limit_that_never_triggers_reads_no_more_than_a_stand_in_has() {
    struct Huge;
    impl ctxfs_core::model::Content for Huge {
        fn len(&self) -> u64 {
            1 << 40
        }
        fn read_at(&self, _: u64, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(buffer.len() < 32 << 20);
            buffer.fill(b'{');
            Ok(buffer.len())
        }
    }
    let mut fixture = fixture("");
    (fixture.analysis.bytes, fixture.analysis.lines) = (1 << 40, 3000);
    fixture.limits.max_bytes = Limits::NEVER;
    let subject = Subject { content: &Huge, ..fixture.subject() };
    let made = stand_in(Form::Envelope, &subject, &NOBODY).unwrap();
    assert!(matches!(made, StandIn::Replaced(text) if text.contains("\"status\":\"partial\"")));
    fixture.limits.max_lines = Limits::NEVER;
    let subject = Subject { content: &Huge, ..fixture.subject() };
    assert_eq!(stand_in(Form::Envelope, &subject, &NOBODY).unwrap(), StandIn::Unchanged);
}

#[test]
fn the_stricter_of_characters_and_bytes_decides() {
    let euros = |count: usize, chars: u64, bytes: u64| {
        let mut fixture = fixture("\u{20ac}".repeat(count));
        (fixture.limits.max_inline_chars, fixture.limits.max_inline_bytes) = (chars, bytes);
        is_unchanged(Form::Summary, &fixture)
    };
    assert!(euros(100, 100, 300));
    assert!(!euros(100, 99, 300));
    assert!(!euros(100, 100, 299));
    assert!(euros(100, u64::MAX, u64::MAX));
}

#[test]
fn either_bytes_or_tokens_ask_for_a_handle() {
    let mut fixture = fixture("word ".repeat(100));
    assert!(is_unchanged(Form::Handle, &fixture));
    let tokens = fixture.analysis.tokens;
    fixture.limits.token_budget = Some(tokens);
    assert!(is_unchanged(Form::Handle, &fixture));
    fixture.limits.token_budget = Some(tokens - 1);
    assert!(!is_unchanged(Form::Handle, &fixture));
    (fixture.limits.token_budget, fixture.limits.tool_response_max_bytes) = (None, 499);
    assert!(!is_unchanged(Form::Handle, &fixture));
}

#[test]
fn a_handle_is_the_text_of_the_format() {
    let mut fixture = fixture("x\n".repeat(789) + &"y".repeat(121_877));
    fixture.analysis.lines = 789;
    fixture.analysis.tokens = 45_678;
    fixture.analysis.bytes = 123_455;
    fixture.bytes.truncate(123_455);
    let session = "session-01890a5d-ac96-774b-bcce-b302099a8057";
    let call = "0190163d-8694-739b-aea5-966c26f8ad91";
    let path = format!("artifacts/tool/{call}.txt");
    fixture.place = Place::new("/ctx", session, &ctxfs_core::model::RelPath::new(&path).unwrap());
    fixture.record.provenance.call = Some(call.to_owned());
    let want = format!(
        "Tool output is too large (123455 bytes, 789 lines, 45678 tokens).\n\
         Call tool_output(handle = \"{session}/{call}\", extract = \"what to extract\").\n\
         Provide precise and detailed instructions in `extract` about what you are looking for.\n"
    );
    assert_eq!(replaced(Form::Handle, &fixture), want);
    fixture.at("artifacts/tool/a \"b\".txt");
    assert!(replaced(Form::Handle, &fixture).contains(r#"handle = "c7/a \"b\".txt", extract"#));
}

#[test]
fn a_handle_of_what_is_not_too_large_does_not_say_so() {
    let text = fixture("one\ntwo\n").text(&View::Handle);
    let tokens = fixture("one\ntwo\n").analysis.tokens;
    let first = format!("Tool output is stored (8 bytes, 2 lines, {tokens} tokens).\n");
    assert!(text.starts_with(&first), "{text}");
}

#[test]
fn a_preview_is_the_text_of_the_format() {
    let text = "\u{e9}".repeat(60_000);
    let want =
        format!("{}\n\n[Full output: /ctx/c7/artifacts/tool/9f3k.txt]\n", "\u{e9}".repeat(500));
    assert_eq!(replaced(Form::Preview, &fixture(text)), want);
    let short = fixture("one\ntwo").text(&View::Preview);
    assert_eq!(short, "one\ntwo\n\n[Full output: /ctx/c7/artifacts/tool/9f3k.txt]\n");
    let mut fixture = fixture(b"\x7fELF\0\x01\n\0".repeat(9000));
    fixture.limits.message_preview = 3;
    let preview = replaced(Form::Preview, &fixture);
    assert!(preview.starts_with("[not text: "), "{preview}");
    assert!(preview.contains(", 72,000 bytes]\n\n[Full output: /ctx/"), "{preview}");
}

#[test]
fn an_incomplete_output_does_not_go_as_if_it_were_complete() {
    let mut fixture = fixture("one\n");
    fixture.record.state = ArtifactState::Incomplete("no room".to_owned());
    for form in [Form::Summary, Form::Envelope] {
        assert!(replaced(form, &fixture).contains("INCOMPLETE"), "{form:?}");
    }
}

#[test]
fn what_is_not_text_is_never_printed() {
    let fixture = fixture(b"\x7fELF\0\x01\n\0secret".repeat(9000));
    for form in FORMS {
        let text = replaced(form, &fixture);
        assert!(!text.contains("secret") && !text.contains('\0'), "{form:?}: {text}");
    }
}

/// Returns a stand-in of `original`, and the result of passing that stand-in as the output of
/// another call. The audience has only `stored`.
fn comes_back(form: Form, original: &Fixture, stored: &str) -> (String, StandIn) {
    let text = replaced(form, original);
    let mut back = fixture(text.clone());
    back.at("artifacts/tool/back.txt");
    // Every form exceeds these limits, so only its reference can leave it unchanged.
    back.limits = Limits {
        max_inline_chars: 10,
        max_bytes: 51_200,
        max_lines: 0,
        tool_response_max_bytes: 10,
        message_threshold: 10,
        ..Limits::default()
    };
    let is_stored = |reference: &str| {
        ctxfs_core::model::readings(reference)
            .iter()
            .any(|(id, path)| format!("{id}/{path}") == stored)
    };
    let audience = Audience { tools: &[], is_stored: &is_stored, above: b"" };
    (text, stand_in(form, &back.subject(), &audience).unwrap())
}

#[test]
fn a_stand_in_that_comes_back_is_left_as_it_is() {
    let provenance =
        Provenance { tool: Some("exec".to_owned()), exit_code: Some(1), ..Provenance::default() };
    let original = fixture(log(2500)).provenance(provenance);
    for form in FORMS {
        let (text, back) = comes_back(form, &original, "c7/artifacts/tool/9f3k.txt");
        assert_eq!(back, StandIn::Unchanged, "{form:?}: {text}");
        // If its reference does not refer to a stored output, the text is an ordinary output.
        let (text, back) = comes_back(form, &original, "c7/artifacts/tool/other.txt");
        assert_ne!(back, StandIn::Unchanged, "{form:?}: {text}");
    }
}

#[test]
fn wording_does_not_make_a_stand_in() {
    let everything = Audience { tools: &[], is_stored: &|_| true, above: b"" };
    let summary = replaced(Form::Summary, &fixture(log(2500)));
    let other = summary.replace("ref: ctx://", "ref: ");
    let later = format!("\n\n\n{summary}");
    let long = summary.clone() + &log(2500);
    let deep = "{\"data\": {\"truncation\": {\"full_output_path\": \"/x\"}}, \"x\": \"";
    let huge = format!("{deep}{}\"}}", "x".repeat(600_000));
    let made = |text: &str| {
        let mut fixture = fixture(text);
        fixture.limits.max_inline_chars = 10;
        stand_in(Form::Summary, &fixture.subject(), &everything).unwrap()
    };
    for text in [other, later, long, huge] {
        assert_ne!(made(&text), StandIn::Unchanged, "{text:.300}");
    }
    assert_eq!(made(&summary), StandIn::Unchanged);
}

fn check(form: Form, fixture: &Fixture) {
    let StandIn::Replaced(text) = stand_in_always(form, &fixture.subject(), &NOBODY).unwrap()
    else {
        return;
    };
    let again = stand_in_always(form, &fixture.subject(), &NOBODY).unwrap();
    assert_eq!(again, StandIn::Replaced(text.clone()), "{form:?}");
    assert!(!text.is_empty(), "{form:?}");
    if form == Form::Envelope {
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        return;
    }
    assert!(text.len() <= Limits::STAND_IN_BYTES, "{form:?}: {} bytes", text.len());
    assert!(text.lines().count() <= Limits::STAND_IN_LINES, "{form:?}");
    for line in text.lines() {
        assert!(line.chars().count() <= Limits::LINE_CHARS, "{form:?}: {line}");
    }
}

#[test]
fn endless_names_do_not_break_the_caps() {
    let mut fixture = fixture(log(3000));
    fixture.at(&format!("artifacts/tool/{}", vec!["\u{20ac}".repeat(80); 12].join("/")));
    fixture.record.provenance.call = Some("x".repeat(5000));
    fixture.limits.message_preview = 1_000_000;
    for form in FORMS {
        check(form, &fixture);
    }
    let handle = replaced(Form::Handle, &fixture);
    assert!(handle.lines().nth(1).unwrap().contains(" [cut at byte column "), "{handle}");
}

#[test]
fn a_preview_has_few_lines_and_short_ones() {
    let mut fixture = fixture("\n".repeat(60_000));
    check(Form::Preview, &fixture);
    assert_eq!(replaced(Form::Preview, &fixture).lines().count(), Limits::STAND_IN_LINES);
    fixture.bytes = [b"a\n".to_vec(), vec![b'x'; 60_000]].concat();
    fixture.limits.message_preview = 5000;
    check(Form::Preview, &fixture);
    let preview = replaced(Form::Preview, &fixture);
    assert_eq!(preview.lines().nth(1), Some("x".repeat(500).as_str()));
}

proptest! {
    #[test]
    fn caps_hold_for_any_output(
        lines in proptest::collection::vec(
            prop_oneof![".{0,80}", "[a-z\u{e9}\u{20ac}\u{1f600}]{400,900}", Just(String::new())],
            0..300,
        ),
        message_preview in 0usize..9000,
        exit_code in proptest::option::of(-1..2),
    ) {
        let mut fixture = fixture(lines.join("\n")).provenance(Provenance { exit_code, ..Provenance::default() });
        fixture.limits.message_preview = message_preview;
        for form in FORMS {
            check(form, &fixture);
        }
        let text = String::from_utf8(fixture.bytes.clone()).unwrap();
        let preview = fixture.text(&View::Preview);
        if !fixture.analysis.is_binary() {
            let first = preview.strip_suffix("\n\n[Full output: /ctx/c7/artifacts/tool/9f3k.txt]\n");
            prop_assert!(text.starts_with(first.unwrap()));
        }
    }

    #[test]
    fn caps_hold_for_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        for form in FORMS {
            check(form, &fixture(bytes.clone()));
        }
    }
}

use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::model::{Content as _, RedactingWriter as _};
use crate::redact::samples::{Sample, rules, samples, written_form};
use crate::redact::{BLOCK, Masked, MaskingWriter, Rule};

const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");

/// Masks `bytes` in each of the possible ways, checks that the results agree, and returns the
/// result.
fn masked(bytes: &[u8], rules: &SecretRules) -> Vec<u8> {
    let shown = Masked::new(&bytes, rules).bytes(0, bytes.len()).unwrap();
    let mut written = Vec::new();
    let mut writer = MaskingWriter::new(rules, &mut written);
    bytes.chunks(10_007).for_each(|part| writer.write_all(part).unwrap());
    writer.finish().unwrap();
    assert!(shown == written, "a writer masks as a reader does");
    let mut stored = bytes.to_vec();
    for number in 0..=bytes.len() as u64 / BLOCK {
        let read = |offset, length| stored.as_slice().bytes(offset, length);
        for (at, mask) in crate::redact::masks(rules, number, bytes.len() as u64, read).unwrap() {
            stored[at as usize..at as usize + mask.len()].copy_from_slice(&mask);
        }
    }
    assert!(shown == stored, "a stored file is masked as a reader sees it");
    assert_eq!(shown.len(), bytes.len());
    shown
}

fn shows(text: &str, want: &str) {
    let rules = rules();
    assert_eq!(rules.mask_text(text), want, "{text:?}");
    assert_eq!(rules.mask_text(want), want, "a mask is no secret");
}

#[test]
fn every_pattern_has_a_sample() {
    let rules = rules();
    let names: Vec<String> = samples()
        .iter()
        .map(|sample| {
            let text = sample.text();
            let found = rules.secrets(text.as_bytes(), 0..text.len());
            assert_eq!(found.len(), 1, "{sample:?}");
            assert_eq!(&text[found[0].range.clone()], sample.secret, "{sample:?}");
            found[0].name.to_owned()
        })
        .collect();
    assert!(rules.names.iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn colours_hide_no_secret() {
    let split = format!("id \x1b[01;31m\x1b[K{}\x1b[m\x1b[K{}\n", &KEY[..7], &KEY[7..]);
    shows(&split, "id \x1b[01;31m\x1b[K[redacted:aws-key]**\x1b[m\x1b[K\n");
    let end = "password=abc123def456\x1b[0m\n";
    shows(end, "password=[redacted]**\x1b[0m\n");
    let link = "\x1b]8;;https://app:abc123def456@db\x07text\x1b]8;;\x07";
    shows(link, "\x1b]8;;https://app:[redacted]**@db\x07text\x1b]8;;\x07");
    // The address inside the string is a secret, too.
    let inside = format!("{}\x1b]8;;https://app:abc123def456@db\x07{}", &KEY[..7], &KEY[7..]);
    let want = format!("[redacted:aws-key]{}", "*".repeat(inside.len() - 18));
    shows(&inside, &want);
}

#[test]
fn escapes_of_json_hide_no_secret() {
    let text = r#"{"db":"postgres:\/\/app:abc123def456@db"}"#;
    shows(text, r#"{"db":"postgres:\/\/app:[redacted]**@db"}"#);
    let text = format!(r#"{{"id":"x\u0041{}\n"}}"#, &KEY[1..]);
    shows(&text, &text);
    let text = format!(r#"{{"id":"x \u0041{}\n"}}"#, &KEY[1..]);
    shows(&text, r#"{"id":"x [redacted:aws-key]*******\n"}"#);
    let text = r#"{"a":"{\"db\":\"postgres:\\\/\\\/app:abc123\\\/def456@db\"}"}"#;
    // A slash ends a password.
    shows(text, text);
    let text = r#"{"a":"{\"db\":\"postgres:\\\/\\\/app:abc123def456@db\"}"}"#;
    shows(text, r#"{"a":"{\"db\":\"postgres:\\\/\\\/app:[redacted]**@db\"}"}"#);
    let text = r"password=abc123def456\/ghi";
    shows(text, "password=[redacted:secret]");
}

#[test]
fn a_mask_cuts_no_escape() {
    let own = |regex: &str| {
        let rule = Rule { name: "own".to_owned(), regex: regex.to_owned() };
        SecretRules::new(&[], &[rule]).unwrap()
    };
    for (regex, text) in [
        ("n?secret-[a-z]+", r#"{"a":"x\nsecret-abcdefgh"}"#),
        (r"secret-[a-z]+\\?", r#"{"a":"secret-abcdefgh\n"}"#),
        (r"41?-secret-[a-z]+\\u00", r#"{"a":"\u0041-secret-abcdefgh\u0041"}"#),
        (r"de00-secret-[a-z]+\\ud8", r#"{"a":"\ud83d\ude00-secret-abcdefgh\ud83d\ude00"}"#),
    ] {
        let masked = own(regex).mask_text(text);
        assert!(masked.contains("[redacted:own]") && !masked.contains("secret"), "{masked}");
        let value: serde_json::Value = serde_json::from_str(&masked).expect(&masked);
        assert!(value["a"].is_string() && masked.len() == text.len());
    }
}

#[test]
fn text_without_escapes_is_searched_once() {
    let lines = "an ordinary line\twith \u{20ac}\r\n".repeat(1000);
    let whole = 0..lines.len();
    assert!(near_escapes(lines.as_bytes(), &whole).is_empty());
    for escape in ["\\", "\x1b", "\x08", "\rx"] {
        let (before, after) = (&lines[..lines.len() / 2], &lines[lines.len() / 2..]);
        let text = [before, escape, &after.repeat(9)].concat();
        let parts = near_escapes(text.as_bytes(), &(0..text.len()));
        assert_eq!(parts.len(), 1, "{escape:?}");
        assert!(parts[0].start <= before.len() && parts[0].end > before.len());
        assert!(parts[0].len() <= 2 * REACH + LINE + CHUNK);
    }
}

/// Input that was designed to be slow takes at most the time of a few searches.
#[test]
fn endless_escapes_are_searched_a_few_times() {
    let rules = rules();
    for piece in
        ["\\", "\\\\n", "\x1b[m", "\x1b]", "\\u001b", "\\u005c", "\r", "\x1b\\", "a\\\x1b["]
    {
        let bytes = piece.repeat(BLOCK as usize / piece.len());
        assert!(rules.mask_text(&bytes) == bytes, "{piece:?}");
    }
}

fn sample() -> impl Strategy<Value = Sample> {
    prop::sample::select(samples())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn no_form_of_a_secret_passes(sample in sample(), form in written_form()) {
        let rules = rules();
        let text = format!("first line\n{}\nlast line", sample.text());
        let text = form.of(&text);
        let shown = masked(text.as_bytes(), &rules);
        sample.assert_hidden(&shown, &format!("{form:?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Tests every position relative to block borders, with and without lines before the secret.
    #[test]
    fn no_border_shows_a_secret(
        sample in sample(),
        form in written_form(),
        shift in 0.0..1.2,
        far in prop_oneof![Just(0_usize), Just(1), 1..40_000_usize],
        newlines in any::<bool>(),
    ) {
        let rules = rules();
        let text = form.of(&format!("{}\n", sample.text()));
        let filler = if newlines { "a line of words, \\\"quoted\\\"\n" } else { "some words and no line end. " };
        let at = (BLOCK as usize + far).saturating_sub((text.len() as f64 * shift) as usize);
        let before = &filler.repeat(at / filler.len() + 1)[..at];
        // Avoid the middle of a word and the middle of an escape.
        let before = format!("{}{}", &before[..at - 30], &" ".repeat(29)[..]) + "\n";
        let bytes = [before, text, filler.repeat(2000)].concat();
        let shown = masked(bytes.as_bytes(), &rules);
        let part = &shown[at.saturating_sub(100)..(at + 10_000).min(shown.len())];
        sample.assert_hidden(part, &format!("{form:?}"));
    }
}

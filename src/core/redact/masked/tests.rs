use proptest::prelude::*;

use super::*;
use crate::redact::{PatternSet, Rule, SETS};

const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");
const MASK: &str = "[redacted:aws-key]**";

fn all() -> SecretRules {
    let sets: Vec<&PatternSet> = SETS.iter().collect();
    SecretRules::new(&sets, &[Rule { name: "mine".to_owned(), regex: "MINE-[a-z]{3,}".to_owned() }])
        .unwrap()
}

fn whole(content: &[u8], rules: &SecretRules) -> Vec<u8> {
    Masked::new(&content, rules).bytes(0, content.len()).unwrap()
}

/// Returns lines of words with secrets among them, about `size` bytes. Some lines are very long.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => "[a-z]{1,12}".prop_map(|word| word + " "),
        2 => Just("\n".to_owned()),
        1 => Just(format!("{KEY} ")),
        1 => Just("MINE-abcdefghij ".to_owned()),
        1 => Just("password=abc123def456\n".to_owned()),
        1 => Just("\u{e9}\u{20ac}\\n".to_owned()),
        1 => (1_usize..40_000).prop_map(|length| "x".repeat(length) + ". "),
    ];
    let words = prop::collection::vec(word.prop_map(|word| word + ","), 1..60);
    (words, 0..3_usize).prop_map(|(words, before)| {
        let mut bytes = vec![b'-'; before * 250_000];
        bytes.extend(words.concat().into_bytes());
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn reading_in_pieces_is_reading_at_once(
        bytes in text(),
        reads in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..70_000), 1..12),
    ) {
        let (rules, content) = (all(), bytes);
        let once = whole(&content, &rules);
        let masked = Masked::new(&content, &rules);
        for (at, length) in reads {
            let at = at.index(content.len());
            let end = (at + length).min(once.len());
            prop_assert_eq!(&masked.bytes(at as u64, length).unwrap(), &once[at..end]);
        }
    }

    #[test]
    fn only_secrets_change(bytes in text()) {
        let (rules, content) = (all(), bytes);
        let once = whole(&content, &rules);
        prop_assert_eq!(once.len(), content.len());
        let mut is_secret = vec![false; once.len()];
        for secret in rules.find(&content, 0) {
            is_secret[secret.range].fill(true);
        }
        for (at, (shown, stored)) in once.iter().zip(&content).enumerate() {
            prop_assert!(is_secret[at] || shown == stored, "byte {} changed", at);
            prop_assert_eq!(*shown == b'\n', *stored == b'\n');
        }
        let text = String::from_utf8_lossy(&once);
        prop_assert!(!text.contains(KEY) && !text.contains("MINE-") && !text.contains("abc123"));
        let again = whole(&once, &rules);
        prop_assert_eq!(again, once, "masked twice");
    }
}

#[test]
fn secrets_across_blocks_are_masked_whole() {
    let rules = all();
    for newlines in [false, true] {
        for shift in 0..=KEY.len() {
            let mut bytes = vec![b' '; BLOCK as usize - shift];
            bytes.extend(KEY.as_bytes());
            bytes.extend(vec![b' '; 100]);
            if newlines {
                bytes
                    .iter_mut()
                    .skip(70)
                    .step_by(71)
                    .filter(|byte| **byte == b' ')
                    .for_each(|byte| *byte = b'\n');
            }
            let shown = whole(&bytes, &rules);
            let at = BLOCK as usize - shift;
            assert_eq!(&shown[at..at + KEY.len()], MASK.as_bytes(), "{shift}");
        }
    }
}

#[test]
fn a_secret_of_the_promised_length_is_masked_anywhere() {
    let rules =
        SecretRules::new(&[], &[Rule { name: "long".into(), regex: "<[a-z]+>".into() }]).unwrap();
    let secret = format!("<{}>", "s".repeat(REACH - 2));
    for before in [0, BLOCK as usize - REACH, BLOCK as usize - 5000, BLOCK as usize] {
        let bytes = [".".repeat(before), secret.clone(), ".".repeat(300_000)].concat();
        let shown = whole(&bytes.into_bytes(), &rules);
        assert!(!shown.contains(&b's'), "{before}");
        assert_eq!(memchr::memchr_iter(b'.', &shown).count(), before + 300_000);
    }
}

#[test]
fn a_private_key_keeps_its_lines() {
    let line = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5kM7oP9rS1uV3xY5zA7cD9fG1iK3l";
    let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
    let text = format!("a\n{begin}\n{line}\n{line}\n{end}\nb\n");
    let shown = String::from_utf8(whole(&text.into_bytes(), &all())).unwrap();
    let stars = "*".repeat(64);
    let want = format!("a\n[redacted:private-key]*****\n{stars}\n{stars}\n{}\nb\n", "*".repeat(25));
    assert_eq!(shown, want);
}

#[test]
fn json_stays_json() {
    let text = format!(
        "{{\"env\": \"A={KEY}\\nDB=postgres://a:b1b2b3b4b5@h\\n\", \"token\": \"{}\", \"n\": 1}}",
        "abc123".repeat(9)
    );
    let shown = whole(&text.into_bytes(), &all());
    let value: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(value["env"], format!("A={MASK}\nDB=postgres://a:[redacted]@h\n"));
    assert!(value["token"].as_str().unwrap().starts_with("[redacted:secret]***"));
}

#[test]
fn truncated_content_reads_short() {
    struct Cut;
    impl Content for Cut {
        fn len(&self) -> u64 {
            1_000_000
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let left = 300_000_u64.saturating_sub(offset).min(buffer.len() as u64) as usize;
            buffer[..left].fill(b'x');
            Ok(left)
        }
    }
    let rules = all();
    let masked = Masked::new(&Cut, &rules);
    assert_eq!(masked.bytes(0, 1_000_000).unwrap().len(), 300_000);
    assert_eq!(masked.bytes(900_000, 10).unwrap().len(), 0);
}

#[test]
fn the_output_equals_masked_content() {
    let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
    let mut bytes = vec![b'.'; 3 * BLOCK as usize + 77];
    for at in [0, BLOCK as usize - 9, 2 * BLOCK as usize, bytes.len() - KEY.len()] {
        bytes[at..at + KEY.len()].copy_from_slice(KEY.as_bytes());
    }
    for step in [1000, 300_000, bytes.len()] {
        let mut out = Vec::new();
        let mut stream = MaskingWriter::new(&rules, &mut out);
        for piece in bytes.chunks(step) {
            stream.write_all(piece).unwrap();
            assert!(stream.held.len() as u64 <= BLOCK + 2 * REACH as u64 + 5000 + step as u64);
        }
        stream.finish().unwrap();
        assert_eq!(out.len(), bytes.len());
        assert_eq!(memchr::memmem::find_iter(&out, "[redacted:aws-key]**").count(), 4);
    }
}

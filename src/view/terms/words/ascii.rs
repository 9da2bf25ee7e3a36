use crate::terms::words::JOINTS;

/// Calls `each` with every word or name of `line`, and its offset. Skips the colours of a terminal,
/// and if `escaped`, a backslash and the character that it escapes. Finds what [`NAME`] finds, but
/// faster.
pub(super) fn each<'l>(line: &'l [u8], escaped: bool, mut each: impl FnMut(usize, &'l [u8])) {
    let mut at = 0;
    while let Some(first) = line.get(at) {
        let rest = &line[at..];
        at += match first {
            b'\\' if escaped => escape(rest),
            b'\x1b' => colour(rest),
            first if is_of_word(*first) => {
                let length = name(rest);
                each(at, &rest[..length]);
                length
            }
            _ => 1,
        };
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

// The length of the escape that `text` begins with.
fn escape(text: &[u8]) -> usize {
    match text.get(1..6) {
        Some([b'u', digits @ ..]) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
        _ => text.len().min(2),
    }
}

// The length of the colour that `text` begins with, or 1.
fn colour(text: &[u8]) -> usize {
    let Some(parameters) = text.strip_prefix(b"\x1b[") else { return 1 };
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b'?');
    let length = parameters.iter().take_while(|byte| is_parameter(byte)).count();
    let ends = parameters.get(length).is_some_and(u8::is_ascii_alphabetic);
    if ends { 2 + length + 1 } else { 1 }
}

// The length of the word or name that `text` begins with.
fn name(text: &[u8]) -> usize {
    let mut end = word(text);
    loop {
        let joint = joint(&text[end..]);
        let more = word(&text[end + joint..]);
        if joint == 0 || more == 0 {
            return end;
        }
        end += joint + more;
    }
}

fn word(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_of_word(**byte)).count()
}

// The length of the joint between two words at the start of `text`, or 0.
fn joint(text: &[u8]) -> usize {
    match text {
        [b':', b':', ..] => 2,
        [b':', b'/', b'/', ..] => 3,
        [first, ..] if JOINTS.contains(first) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terms::words::{ESCAPED, PLAIN};

    proptest! {
        #[test]
        fn it_finds_what_the_patterns_find(
            line in "([a-c1_ :/.@\\\\u\x1b\\[;?,-]|::|://|\x1b\\[1;3m|\\\\u00fc|cart){0,40}",
        ) {
            for (escaped, pattern) in [(false, &*PLAIN), (true, &*ESCAPED)] {
                let mut found = Vec::new();
                each(line.as_bytes(), escaped, |at, name| found.push((at, name.to_vec())));
                let wanted: Vec<(usize, Vec<u8>)> = pattern
                    .find_iter(line.as_bytes())
                    .filter(|found| !matches!(found.as_bytes()[0], b'\\' | b'\x1b'))
                    .map(|found| (found.start(), found.as_bytes().to_vec()))
                    .collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}

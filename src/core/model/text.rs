//! Lossless conversion of names to text.
//!
//! A name is a sequence of bytes, but JSON and the input of a model are text. A byte that is not
//! UTF-8 is written as `\x` and two lower-case hexadecimal digits, such as `\xff`. A backslash that
//! would look like the beginning of such an escape is written as `\x5c`. Different names therefore
//! have different texts. A UTF-8 name that contains nothing like an escape is unchanged.

// Length of an escape: `\x` and two digits.
const ESCAPE: usize = 4;

/// Returns the text of `name`.
pub fn encode(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            text.push_str(if escaped(rest).is_some() { r"\x5c" } else { r"\" });
            rest = &rest[1..];
        }
        text.push_str(rest);
        text.extend(chunk.invalid().iter().map(|byte| format!(r"\x{byte:02x}")));
    }
    text
}

/// Returns the name whose text is `text`.
pub fn decode(text: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        name.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let (byte, length) = escaped(rest).map_or((b'\\', 1), |byte| (byte, ESCAPE));
        name.push(byte);
        rest = &rest[length..];
    }
    name.extend_from_slice(rest.as_bytes());
    name
}

// Decodes the escape at the beginning of `text`. Returns `None` if `text` does not begin with an
// escape of a backslash or of a byte that is not ASCII.
fn escaped(text: &str) -> Option<u8> {
    let digits = text.strip_prefix(r"\x")?.get(..2)?;
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let byte = u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(is_digit))?;
    (byte == b'\\' || !byte.is_ascii()).then_some(byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_are_text_are_unchanged() {
        for name in
            ["9f3k.txt", "\u{fc}ber", "a b", r"a\b", r"\", r"\x", r"\xg0", r"\x41", r"\xFF", "100%"]
        {
            assert_eq!(encode(name.as_bytes()), name);
            assert_eq!(decode(name), name.as_bytes());
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_escaped() {
        for (name, text) in [
            (&b"a\xff.txt"[..], r"a\xff.txt"),
            (b"\xc3", r"\xc3"),
            (b"\xed\xa0\x80", r"\xed\xa0\x80"),
            (br"a\xff.txt", r"a\x5cxff.txt"),
            (br"\x5c", r"\x5cx5c"),
            (b"\\\xff", r"\\xff"),
            (b"\\x\xff", r"\x\xff"),
            (b"\\x8\xff", r"\x8\xff"),
        ] {
            assert_eq!(encode(name), text);
            assert_eq!(decode(text), name);
        }
    }

    proptest! {
        /// Tests names of arbitrary bytes, and of bytes that are likely to form escapes.
        #[test]
        fn what_is_written_is_read_back(
            name in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                proptest::collection::vec(
                    proptest::sample::select(&b"\\\\\\xx5c8fF\xff\xc3\xa9/."[..]),
                    0..40,
                ),
            ]
        ) {
            let text = encode(&name);
            prop_assert_eq!(decode(&text), &name[..]);
            // Escapes do not cross components.
            let parts = name.split(|byte| *byte == b'/').map(encode).collect::<Vec<_>>();
            prop_assert_eq!(parts.join("/"), text);
        }
    }
}

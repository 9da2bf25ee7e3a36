//! The text that replaces a secret.

use crate::materialize::escape_length;

/// The text of a mask that is too short for its name.
const UNNAMED: &str = "[redacted]";
/// The text of a mask that is even too short for [`UNNAMED`].
const SHORTEST: &str = "[redact]";

/// Bytes of the longest sequence that sets a colour, `ESC[38;2;255;255;255m`, and one to spare.
const COLOUR_BYTES: usize = 20;

/// Bytes of the shortest mask that can be recognised and counted.
pub(super) const LEAST: usize = SHORTEST.len();
/// The beginning of every mask that can be counted.
pub(super) const BEGINNING: &[u8] = b"[redact";

/// Returns a mask of as many bytes as `secret`, of the kind `name`. Line ends stay where they are,
/// and colours inside the secret follow its mask.
///
/// It is ASCII without quotes or backslashes: a string of JSON stays one.
pub(super) fn mask(name: &str, secret: &[u8]) -> Vec<u8> {
    let (visible, colours) = parted(secret);
    let mut mask = labelled(name, &visible);
    mask.extend(colours);
    mask
}

/// Splits a secret into what a terminal shows of it, and the sequences that set colours.
fn parted(secret: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut visible, mut colours) = (Vec::new(), Vec::new());
    let mut at = 0;
    for escape in memchr::memchr_iter(0x1b, secret) {
        let length = colour_length(&secret[escape..]);
        visible.extend_from_slice(&secret[at..escape]);
        colours.extend_from_slice(&secret[escape..escape + length]);
        at = escape + length;
    }
    visible.extend_from_slice(&secret[at..]);
    (visible, colours)
}

/// Returns the length of the short sequence that `bytes` begin with, if it has only numbers: no
/// text that may be secret in turn.
fn colour_length(bytes: &[u8]) -> usize {
    let length = escape_length(bytes);
    let is_colour = bytes.starts_with(b"\x1b[")
        && length <= COLOUR_BYTES
        && bytes[length - 1].is_ascii_alphabetic();
    if is_colour { length } else { 0 }
}

fn labelled(name: &str, secret: &[u8]) -> Vec<u8> {
    let named = label(name);
    let label =
        [named.as_str(), UNNAMED, SHORTEST].into_iter().find(|label| label.len() <= secret.len());
    let mut mask = label.unwrap_or_default().as_bytes().to_vec();
    mask.resize(secret.len(), b'*');
    for (shown, hidden) in mask.iter_mut().zip(secret) {
        if matches!(hidden, b'\n' | b'\r') {
            *shown = *hidden;
        }
    }
    mask
}

/// Returns `[redacted:jwt]` for `jwt`.
fn label(name: &str) -> String {
    format!("[redacted:{name}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_show_the_label_that_fits() {
        let masked = |secret: &str| String::from_utf8(mask("jwt", secret.as_bytes())).unwrap();
        assert_eq!(masked(&"x".repeat(17)), "[redacted:jwt]***");
        assert_eq!(masked(&"x".repeat(14)), "[redacted:jwt]");
        assert_eq!(masked(&"x".repeat(13)), "[redacted]***");
        assert_eq!(masked(&"x".repeat(9)), "[redact]*");
        assert_eq!(masked("1234567"), "*******");
    }

    #[test]
    fn colours_follow_the_mask() {
        let secret = b"\x1b[31m01234\x1b[1;4m567\x1b[K89abcdef";
        assert_eq!(mask("key", secret), b"[redacted:key]**\x1b[31m\x1b[1;4m\x1b[K");
        let link = b"01234\x1b]8;;x\x07567\x1b[2";
        assert_eq!(mask("key", link), [&b"[redacted:key]"[..], b"****"].concat());
    }

    #[test]
    fn line_ends_stay() {
        let masked = mask("key", b"0123456789abcdef\r\n0123\nx");
        assert_eq!(masked, b"[redacted:key]**\r\n****\n*");
    }
}

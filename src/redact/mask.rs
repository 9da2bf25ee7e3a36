//! The text that stands in the place of a secret.

/// What a mask says where its name does not fit.
const UNNAMED: &str = "[redacted]";
/// What it says where that does not fit either.
const SHORTEST: &str = "[redact]";

/// Fewest bytes of a mask that can be told from other text, and counted.
pub(super) const LEAST: usize = SHORTEST.len();
/// What every mask that can be counted begins with.
pub(super) const BEGINNING: &[u8] = b"[redact";

/// A mask of as many bytes as `secret`, which is a `name`. Line ends stay where they are.
///
/// Plain ASCII without quotes or backslashes: what was a string of JSON stays one.
pub(super) fn mask(name: &str, secret: &[u8]) -> Vec<u8> {
    let named = label(name);
    let said =
        [named.as_str(), UNNAMED, SHORTEST].into_iter().find(|said| said.len() <= secret.len());
    let mut mask = said.unwrap_or_default().as_bytes().to_vec();
    mask.resize(secret.len(), b'*');
    for (shown, hidden) in mask.iter_mut().zip(secret) {
        if matches!(hidden, b'\n' | b'\r') {
            *shown = *hidden;
        }
    }
    mask
}

/// `[redacted:jwt]`.
fn label(name: &str) -> String {
    format!("[redacted:{name}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_say_what_fits() {
        let masked = |secret: &str| String::from_utf8(mask("jwt", secret.as_bytes())).unwrap();
        assert_eq!(masked(&"x".repeat(17)), "[redacted:jwt]***");
        assert_eq!(masked(&"x".repeat(14)), "[redacted:jwt]");
        assert_eq!(masked(&"x".repeat(13)), "[redacted]***");
        assert_eq!(masked(&"x".repeat(9)), "[redact]*");
        assert_eq!(masked("1234567"), "*******");
    }

    #[test]
    fn line_ends_stay() {
        let masked = mask("key", b"0123456789abcdef\r\n0123\nx");
        assert_eq!(masked, b"[redacted:key]**\r\n****\n*");
    }
}

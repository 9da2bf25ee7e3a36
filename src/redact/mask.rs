//! The text that replaces a secret.

/// The text of a mask that is too short for its name.
const UNNAMED: &str = "[redacted]";
/// The text of a mask that is even too short for [`UNNAMED`].
const SHORTEST: &str = "[redact]";

/// Bytes of the shortest mask that can be recognised and counted.
pub(super) const LEAST: usize = SHORTEST.len();
/// The beginning of every mask that can be counted.
pub(super) const BEGINNING: &[u8] = b"[redact";

/// Returns a mask of as many bytes as `secret`, of the kind `name`. Line ends stay where they are.
///
/// It is ASCII without quotes or backslashes: a string of JSON stays one.
pub(super) fn mask(name: &str, secret: &[u8]) -> Vec<u8> {
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
    fn line_ends_stay() {
        let masked = mask("key", b"0123456789abcdef\r\n0123\nx");
        assert_eq!(masked, b"[redacted:key]**\r\n****\n*");
    }
}

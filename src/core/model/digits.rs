//! Names with digits of an origin: `x~3f09ab.txt` is an output that asked for the name `x.txt`
//! while a later one had it.

use crate::model::NAME_MAX;

/// The least digits in such a name.
pub const LEAST_DIGITS: usize = 6;

/// Returns the path with `~` and digits before its extension, and shorter where it would be too
/// long for a name.
pub fn with_digits(path: &str, digits: &str) -> String {
    let (parent, stem, extension) = parts(path);
    let room = NAME_MAX - digits.len() - extension.len() - "~".len();
    let mut end = stem.len().min(room);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    // Half of an escaped byte would be another name, but still a valid one.
    format!("{parent}{}~{digits}{extension}", &stem[..end])
}

/// Returns the path without the digits of its name, if it has any. It is the path that they were
/// put into, unless that had no room for them.
pub fn without_digits(path: &str) -> Option<String> {
    let (parent, stem, extension) = parts(path);
    let (plain, digits) = stem.rsplit_once('~')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let has_digits = digits.len() >= LEAST_DIGITS && digits.bytes().all(is_digit);
    (has_digits && !plain.is_empty()).then(|| format!("{parent}{plain}{extension}"))
}

/// Returns the directory with its `/`, and the name without and with nothing but its extension.
fn parts(path: &str) -> (&str, &str, &str) {
    let (parent, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    let (stem, extension) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= NAME_MAX / 4 => name.split_at(at),
        _ => (name, ""),
    };
    (parent, stem, extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_a_name() {
        for path in ["x", ".x", "a.b/x", &"y".repeat(255), &format!("{}.txt", "y".repeat(251))] {
            let name = with_digits(path, "123456");
            let last = name.rsplit('/').next().unwrap_or_default();
            assert!(last.len() <= NAME_MAX && last.contains("~123456"), "{name}");
        }
        assert_eq!(with_digits("a.b/x", "1"), "a.b/x~1");
        assert_eq!(with_digits(".x", "1"), ".x~1");
    }

    #[test]
    fn digits_go_as_they_came() {
        let long = format!("a.{}", "y".repeat(100));
        for path in ["x", ".x", "a.b/x", "d/x.txt", "x.tar.gz", "x.", "x~y.txt", &long] {
            for digits in ["3f09ab", "0123456789abcdef"] {
                let name = with_digits(path, digits);
                assert_eq!(without_digits(&name).as_deref(), Some(path), "{name}");
            }
        }
    }

    #[test]
    fn other_names_have_none() {
        for path in ["x.txt", "x~3f09a.txt", "x~3F09AB.txt", "x~3f09ag.txt", "~3f09ab.txt", "x~"] {
            assert_eq!(without_digits(path), None, "{path}");
        }
        assert_eq!(without_digits("d~3f09ab/x.txt"), None, "those of a directory");
    }
}

//! Carries an edit over to a text that a printer would not print as it is.

/// Returns `original` with the edit that leads from `plain` to `edited`. `plain` is `original` as
/// the printer prints it: with a newline for each line end, one at the end, and no byte order mark.
/// Everything outside the edit stays byte for byte. What the edit adds has the line ends of
/// `original`.
pub(super) fn transplant(original: &str, plain: &str, edited: &str) -> String {
    if plain == edited {
        return original.to_owned();
    }
    let (plain, edited) = without_end(original, plain, edited);
    let start = common(plain.bytes(), edited.bytes(), usize::MAX);
    let most = plain.len().min(edited.len()) - start;
    let end = common(plain.bytes().rev(), edited.bytes().rev(), most);
    let (start, end) = (on_boundary(edited, start), end_on_boundary(edited, end));
    let added = &edited[start..edited.len() - end];
    let added = if original.contains("\r\n") { added.replace('\n', "\r\n") } else { added.into() };
    let (from, to) = (place(original, start), place(original, plain.len() - end));
    format!("{}{added}{}", &original[..from], &original[to..])
}

/// Takes away the newline that the printer added at the end, which only an edit there needs.
fn without_end<'a>(original: &str, plain: &'a str, edited: &'a str) -> (&'a str, &'a str) {
    match plain.strip_suffix('\n') {
        Some(bare) if !original.ends_with('\n') => {
            let is_at_end = edited.starts_with(bare);
            let edited = edited.strip_suffix('\n').filter(|_| !is_at_end).unwrap_or(edited);
            (bare, edited)
        }
        _ => (plain, edited),
    }
}

fn common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>, most: usize) -> usize {
    one.zip(other).take(most).take_while(|(a, b)| a == b).count()
}

fn on_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn end_on_boundary(text: &str, end: usize) -> usize {
    let found = (0..=end).rev().find(|end| text.is_char_boundary(text.len() - end));
    found.unwrap_or(0)
}

/// Returns the place in `original` of byte `at` in the plain text.
fn place(original: &str, at: usize) -> usize {
    let mark = if original.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = original.as_bytes();
    let (mut place, mut passed) = (mark, 0);
    while passed < at && place < bytes.len() {
        place += if bytes[place..].starts_with(b"\r\n") { 2 } else { 1 };
        passed += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_changes() {
        assert_eq!(transplant("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n"), "a\r\nx\r\nb\r\n");
        assert_eq!(transplant("a\r\nb\n", "a\nb\n", "a\nb"), "a\r\nb");
        assert_eq!(transplant("a\nb", "a\nb\n", "a\nb\nc\n"), "a\nb\nc\n");
        assert_eq!(transplant("a\nb", "a\nb\n", "x\na\nb\n"), "x\na\nb");
        assert_eq!(transplant("a\nb", "a\nb\n", "a\nb\n"), "a\nb");
        assert_eq!(transplant("\u{feff}a\n", "a\n", "xa\n"), "\u{feff}xa\n");
        assert_eq!(transplant("\u{e9}\r\n", "\u{e9}\n", "\u{e8}\n"), "\u{e8}\r\n");
        assert_eq!(transplant("", "", ""), "");
        assert_eq!(transplant("aa\n", "aa\n", "aaa\n"), "aaa\n");
    }
}

//! Makes text from other programs safe to show to people and models.
//!
//! Servers and writers choose names, descriptions and questions. Control characters could move a
//! terminal's cursor, and invisible or direction-changing characters could disguise one text as
//! another.

use std::fmt::Write as _;

/// Maximum number of bytes of a name or a reason in a list for people.
pub const IN_LISTS: usize = 500;

/// Returns true if `c` is invisible or changes how neighbouring characters look.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns `text` on one line, with every hidden character replaced by its escape, such as
/// `\u{202e}`. Newlines and tabs are escaped, too. The result is cut after at most `bytes` bytes,
/// and a note with the number of cut bytes is appended.
pub fn escaped(text: &str, bytes: usize) -> String {
    let mut shown = String::new();
    for (at, c) in text.char_indices() {
        let before = shown.len();
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        if shown.len() > bytes {
            shown.truncate(before);
            let _infallible = write!(shown, "... ({} more bytes)", text.len() - at);
            break;
        }
    }
    shown
}

/// Returns all of `text`, escaped in the same way as by [`escaped`].
pub fn whole(text: &str) -> String {
    escaped(text, usize::MAX)
}

/// Returns `text` with a full stop at the end, unless it already ends with `.`, `!` or `?`.
pub fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// Returns `text` on one line. Runs of white space become one space, and other hidden characters
/// are removed.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(char::is_whitespace) {
        let seen = word.chars().filter(|c| !is_hidden(*c));
        let start = line.len();
        line.extend(seen);
        if line.len() > start && start > 0 {
            line.insert(start, ' ');
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(escaped("a\x1b[2Jb", 99), "a\\u{1b}[2Jb");
        assert_eq!(escaped("rm\u{202e}fdp\r\n\t", 99), "rm\\u{202e}fdp\\r\\n\\t");
        assert_eq!(escaped("\u{e0041}\u{feff}", 99), "\\u{e0041}\\u{feff}");
        assert_eq!(escaped("\u{e9} \u{1f600} \u{5d0}", 99), "\u{e9} \u{1f600} \u{5d0}");
    }

    #[test]
    fn what_is_left_out_is_named() {
        assert_eq!(escaped("abcdef", 6), "abcdef");
        assert_eq!(escaped("abcdef", 4), "abcd... (2 more bytes)");
        assert_eq!(escaped("ab\u{1b}", 4), "ab... (1 more bytes)");
        assert_eq!(escaped("\u{e9}\u{e9}", 3), "\u{e9}... (2 more bytes)");
    }

    #[test]
    fn one_line_has_single_spaces() {
        assert_eq!(one_line(" a\r\n\t b \u{200b} c\u{202e}d "), "a b cd");
        assert_eq!(one_line("\u{200b}\x00"), "");
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>(), bytes in 0..40_usize) {
            let shown = escaped(&text, bytes);
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert!(shown.len() <= bytes + 40);
            prop_assert!(!one_line(&text).chars().any(is_hidden));
        }
    }
}

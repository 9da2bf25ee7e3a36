//! Program output, made safe to show: without control characters, terminal escapes and overlong
//! lines.

use bstr::ByteSlice as _;

use crate::number::grouped;
use ctxfs_core::materialize::escape_length;
use ctxfs_core::model::Limits;

const CUT_MARK_CHARS: usize = 48;

/// Room for text that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextBudget {
    pub(super) bytes: usize,
    pub(super) lines: usize,
}

/// A cleaned line, or the part of it that fits. `used` is the number of original bytes that `text`
/// shows.
pub(super) struct Cleaned {
    pub(super) text: String,
    pub(super) used: usize,
}

/// Cleans `raw` until the result has `chars` characters or `bytes` bytes.
///
/// Leaves out terminal escapes. Replaces other control characters by their symbols (U+2400 and
/// following), and bytes that are not UTF-8 by U+FFFD. Keeps tabs.
pub(super) fn clean(raw: &[u8], chars: usize, bytes: usize) -> Cleaned {
    let mut text = String::new();
    let mut used = 0;
    let mut count = 0;
    while used < raw.len() {
        let is_plain = |byte: &&u8| matches!(byte, b'\t' | b' '..=b'~');
        let room = (chars - count).min(bytes - text.len());
        let plain = raw[used..].iter().take(room).take_while(is_plain).count();
        if plain > 0 {
            text.push_str(&String::from_utf8_lossy(&raw[used..used + plain]));
            count += plain;
            used += plain;
            continue;
        }
        let escape = escape_length(&raw[used..]);
        if escape > 0 {
            used += escape;
            continue;
        }
        let Some((_, length, next)) = raw[used..].char_indices().next() else { break };
        let shown = symbol(next);
        if count == chars || text.len() + shown.len_utf8() > bytes {
            break;
        }
        text.push(shown);
        count += 1;
        used += length;
    }
    Cleaned { text, used }
}

/// Returns at most `chars` characters of `raw` as one line that is safe to show: without terminal
/// escapes, and with symbols in place of control characters.
pub fn cleaned(raw: &str, chars: usize) -> String {
    clean(raw.as_bytes(), chars, usize::MAX).text
}

// Shortens a line of facts if it is too long, for example because of a long name in it.
pub(super) fn capped(line: &str) -> String {
    clean(line.as_bytes(), Limits::LINE_CHARS, 2 * Limits::LINE_CHARS).text
}

// Returns `raw` as one line of at most `chars` characters. A mark shows that text was cut.
pub(super) fn shortened(raw: &[u8], chars: usize) -> String {
    const CUT: &str = "...";
    let whole = clean(raw, chars, usize::MAX);
    if whole.used == raw.len() {
        whole.text
    } else {
        clean(raw, chars - CUT.len(), usize::MAX).text + CUT
    }
}

fn symbol(c: char) -> char {
    match c {
        '\t' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

/// Returns `line`, cut if it is longer than [`Limits::LINE_CHARS`]. The mark at the cut states the
/// byte column of the cut.
pub(super) fn cut_line(line: &str) -> String {
    let whole = clean(line.as_bytes(), Limits::LINE_CHARS, usize::MAX);
    if whole.used == line.len() {
        return whole.text;
    }
    let kept = clean(line.as_bytes(), Limits::LINE_CHARS - CUT_MARK_CHARS, usize::MAX);
    format!("{} [cut at byte column {}]", kept.text, grouped(kept.used as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(raw: &[u8]) -> String {
        clean(raw, usize::MAX, usize::MAX).text
    }

    #[test]
    fn escapes_are_left_out() {
        assert_eq!(cleaned(b"\x1b[1;31mred\x1b[0m"), "red");
        assert_eq!(cleaned(b"\x1b]0;title\x07x\x1b]8;;u\x1b\\y"), "xy");
        assert_eq!(cleaned(b"\x1b(Bx\x1b[2K"), "Bx");
        assert_eq!(cleaned(b"x\x1b"), "x\u{241b}");
        assert_eq!(cleaned(b"\x1b[12"), "");
    }

    #[test]
    fn control_characters_are_symbols() {
        assert_eq!(cleaned(b"a\0b\tc\rd\x7f\x08"), "a\u{2400}b\tc\u{240d}d\u{2421}\u{2408}");
        assert_eq!(cleaned("\u{85}".as_bytes()), "\u{fffd}");
        assert_eq!(cleaned(b"a\xff\xfeb\xe2\x82"), "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn cuts_lie_between_characters() {
        let cut = clean("\u{e9}\u{e9}\u{e9}".as_bytes(), 2, 100);
        assert_eq!((cut.text.as_str(), cut.used), ("\u{e9}\u{e9}", 4));
        let cut = clean("\u{e9}\u{e9}\u{e9}".as_bytes(), 9, 5);
        assert_eq!((cut.text.as_str(), cut.used), ("\u{e9}\u{e9}", 4));
        let cut = clean(b"\x1b[1mabc\x1b[0m", 3, 100);
        assert_eq!((cut.text.as_str(), cut.used), ("abc", 11));
    }
}

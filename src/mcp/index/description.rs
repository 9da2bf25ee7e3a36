//! Short descriptions.

use ctxfs_core::model::visible;

/// The most characters.
const MOST_CHARS: usize = 80;
/// The most bytes that are looked at.
const READ_BYTES: usize = 4096;
/// What ends with a full stop and no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "etc.", "vs.", "approx."];

/// Returns the first sentence of `text` in one line of at most 80 characters, without hidden
/// characters. What is cut ends in `...`.
pub(super) fn short(text: &str) -> String {
    let read = text.floor_char_boundary(READ_BYTES);
    let paragraphs = text[..read].split("\n\n").map(visible::one_line);
    let first = paragraphs.into_iter().find(|paragraph| !paragraph.is_empty());
    let line = first.unwrap_or_default();
    cut(first_sentence(&line))
}

fn first_sentence(line: &str) -> &str {
    for (at, _) in line.match_indices(' ') {
        let sentence = &line[..at];
        let ends = sentence.ends_with(['.', '!', '?']);
        if ends && !ABBREVIATIONS.iter().any(|word| sentence.ends_with(word)) {
            return sentence;
        }
    }
    match line.find('\u{3002}') {
        Some(at) => &line[..at + '\u{3002}'.len_utf8()],
        None => line,
    }
}

/// Cuts at a space, where one is near.
fn cut(sentence: &str) -> String {
    let sentence = sentence.strip_suffix('.').unwrap_or(sentence);
    let Some((end, _)) = sentence.char_indices().nth(MOST_CHARS) else {
        return sentence.to_owned();
    };
    let (room, _) = sentence[..end].char_indices().nth(MOST_CHARS - 3).unwrap_or((end, ' '));
    let kept = &sentence[..room];
    let kept = kept.rfind(' ').filter(|at| *at > room / 2).map_or(kept, |at| &kept[..at]);
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_the_first_sentence_in_one_line() {
        let table = [
            ("", ""),
            ("Reads a file. Then more.", "Reads a file"),
            ("Reads a file.", "Reads a file"),
            ("Is it there? Yes.", "Is it there?"),
            ("Takes a path, e.g. /tmp, or none. More.", "Takes a path, e.g. /tmp, or none"),
            ("Reads a.txt\nor b.txt\n\nArgs:\n  x", "Reads a.txt or b.txt"),
            ("\n\n  Indented\t text \r\n", "Indented text"),
            ("\u{8bfb}\u{3002}\u{5199}", "\u{8bfb}\u{3002}"),
            ("a\u{1b}[31mb\u{202e}c\u{200b}", "a[31mbc"),
        ];
        for (text, expected) in table {
            assert_eq!(short(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_space() {
        let text = "word ".repeat(40);
        assert_eq!(short(&text), format!("{}...", "word ".repeat(15).trim_end()));
        assert_eq!(short(&"x".repeat(81)), format!("{}...", "x".repeat(77)));
        assert_eq!(short(&"x".repeat(80)), "x".repeat(80));
    }

    proptest! {
        #[test]
        fn it_is_short_and_plain(text in any::<String>()) {
            let short = short(&text);
            prop_assert!(short.chars().count() <= MOST_CHARS);
            prop_assert!(!short.chars().any(visible::is_hidden));
        }
    }
}

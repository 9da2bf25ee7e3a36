//! Finds passages of prose in an output that has little prose: words among base64, minified or
//! numeric text.
//!
//! Words are separated by spaces, so anything else is skipped by searching for the next space. If
//! an output has more than a few passages of prose, the search stops and nothing is reported.

use crate::model::Unlike;

// Maximum number of bytes of a word, minimum number of words of a passage, and maximum number of
// passages.
const WORD: usize = 20;
const WORDS: usize = 4;
const PASSAGES: usize = 6;
// Minimum number of bytes of an output, and minimum ratio of the size of the output to the size of
// its prose and spaces.
const BYTES: u64 = 4000;
const BULK: u64 = 20;
// Number of bytes after which the search stops if the output has too many spaces.
const JUDGED: u64 = 64 << 10;
const KEPT: u64 = 400;

/// Finds the prose in a stream. `lines` is the number of newlines, and `start` is the offset of the
/// last line. Both include the current block up to index `counted`. `spaces` counts the spaces
/// between words outside passages.
#[derive(Debug, Clone, Default)]
pub(super) struct ProseFinder {
    seen: u64,
    lines: u64,
    start: u64,
    counted: usize,
    prose: u64,
    spaces: u64,
    tail: Vec<u8>,
    run: Option<WordRun>,
    found: Vec<Unlike>,
    is_off: bool,
}

/// A run of consecutive words. `offset`, `line` and `column` are the position of the first byte,
/// and `end` is the end of the last complete word. `words` counts the complete words, and `plain`
/// counts those of them that consist only of letters and punctuation. `open` is the length of the
/// incomplete word at the end.
#[derive(Debug, Clone, Copy)]
struct WordRun {
    offset: u64,
    line: u64,
    column: u64,
    end: u64,
    words: usize,
    plain: usize,
    open: usize,
    letters: bool,
}

impl ProseFinder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while !self.is_off && at < bytes.len() {
            at = match self.run.take() {
                Some(run) => self.go_on(run, bytes, at),
                None => self.begin(bytes, at),
            };
        }
        if !self.is_off {
            self.count_lines(bytes, bytes.len());
        }
        self.counted = 0;
        self.seen += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(WORD + 1)..]);
        self.tail.drain(..self.tail.len().saturating_sub(WORD + 1));
    }

    pub(super) fn finish(&self) -> Vec<Unlike> {
        let mut ended = self.clone();
        if let Some(run) = ended.run.take() {
            ended.end(run.with_word(self.seen));
        }
        let is_bulk = self.seen >= BYTES && BULK * (ended.prose + ended.spaces) <= self.seen;
        if is_bulk && !ended.is_off { ended.found } else { Vec::new() }
    }

    // Begins a run at the word before the next space.
    fn begin(&mut self, bytes: &[u8], at: usize) -> usize {
        let Some(space) = memchr::memchr(b' ', &bytes[at..]) else { return bytes.len() };
        let space = at + space;
        let offset = self.seen + space as u64;
        let word = self.word_before(&bytes[..space]);
        let line = self.count_lines(bytes, space);
        let first = offset - word as u64;
        self.run = Some(WordRun {
            offset: first,
            line,
            column: first.saturating_sub(self.start) + 1,
            end: first,
            words: 0,
            plain: 0,
            open: word,
            letters: word > 0,
        });
        space
    }

    // Returns the length of the word at the end of the bytes, or 0 if there is none.
    fn word_before(&self, bytes: &[u8]) -> usize {
        let before = || self.tail.iter().chain(bytes).rev();
        let letters = before().take(WORD).take_while(|byte| byte.is_ascii_alphabetic());
        let length = letters.count();
        let is_part = before()
            .nth(length)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte));
        if is_part { 0 } else { length }
    }

    fn count_lines(&mut self, bytes: &[u8], at: usize) -> u64 {
        let more = &bytes[self.counted..at];
        if let Some(last) = memchr::memrchr(b'\n', more) {
            self.lines += memchr::memchr_iter(b'\n', &more[..=last]).count() as u64;
            self.start = self.seen + (self.counted + last) as u64 + 1;
        }
        self.counted = at;
        self.lines + 1
    }

    fn go_on(&mut self, mut run: WordRun, bytes: &[u8], mut at: usize) -> usize {
        while let Some(byte) = bytes.get(at) {
            let offset = self.seen + at as u64;
            if run.words == 0 && run.open == 0 {
                run.column += offset - run.offset;
                (run.offset, run.end) = (offset, offset);
            }
            match byte {
                b' ' => run = run.with_word(offset),
                b'a'..=b'z' | b'A'..=b'Z' | b'.' | b',' | b':' | b';' | b'!' | b'?' | b'\'' => {
                    run.open += 1;
                    run.letters |= run.open == 1;
                }
                b'0'..=b'9' | b'-' | b'_' | b'(' | b')' | b'/' | b'%' | 0x80.. => {
                    run.open += 1;
                    run.letters = false;
                }
                _ => {
                    self.end(run.with_word(offset));
                    return at + 1;
                }
            }
            if run.open > WORD {
                self.end(run);
                return at + 1;
            }
            at += 1;
        }
        self.run = Some(run);
        at
    }

    fn end(&mut self, run: WordRun) {
        if run.words < WORDS || 2 * run.plain < run.words {
            self.spaces += run.words.max(1) as u64;
            self.is_off |= run.end > JUDGED && BULK * self.spaces > run.end;
            return;
        }
        if self.found.len() == PASSAGES {
            self.is_off = true;
            return;
        }
        self.prose += run.end - run.offset;
        let length = u32::try_from((run.end - run.offset).min(KEPT)).unwrap_or(u32::MAX);
        let WordRun { offset, line, column, .. } = run;
        self.found.push(Unlike { line, last: line, column: Some(column), offset, length });
    }
}

impl WordRun {
    fn with_word(mut self, offset: u64) -> Self {
        if self.open > 0 {
            self.words += 1;
            self.plain += usize::from(self.letters);
            self.end = offset;
        }
        Self { open: 0, letters: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, step: usize) -> Vec<Unlike> {
        let mut prose = ProseFinder::default();
        text.as_bytes().chunks(step).for_each(|part| prose.push(part));
        prose.finish()
    }

    fn told(text: &str) -> Vec<String> {
        let tell = |passage: &Unlike| {
            let start = usize::try_from(passage.offset).unwrap();
            let text = &text[start..start + passage.length as usize];
            format!("{}@{} {text}", passage.line, passage.column.unwrap_or(0))
        };
        found(text, usize::MAX).iter().map(tell).collect()
    }

    /// Returns text like base64, with `newline` after each 76 bytes.
    fn bulk(lines: usize, newline: &str) -> String {
        let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0";
        format!("{line}{newline}").repeat(lines)
    }

    #[test]
    fn prose_in_bulk_is_found_with_its_place() {
        let text = format!(
            "{}The door code is on the back.\n{}\"note\":\"ask the night porter first\",{}",
            bulk(60, "\n"),
            bulk(70, ""),
            bulk(10, "\n")
        );
        let expected = ["61@1 The door code is on the back.", "62@5329 ask the night porter first"];
        assert_eq!(told(&text), expected);
        let at_the_end = format!("{} and this is the end", bulk(100, ""));
        assert_eq!(told(&at_the_end), ["1@7602 and this is the end"]);
    }

    #[test]
    fn ordinary_text_has_none() {
        let prose = "This line is one of many that say something in words.\n".repeat(200);
        assert_eq!(told(&prose), Vec::<String>::new());
        let log = "2026-11-23 10:00:00 INFO handled 12 requests in 7 ms\n".repeat(200);
        assert_eq!(told(&log), Vec::<String>::new());
        assert_eq!(told("The only line of a short text.\n"), Vec::<String>::new());
        assert_eq!(told(&bulk(100, "\n")), Vec::<String>::new());
        assert_eq!(told(&"00 1f 2e 3d 4c 5b\n".repeat(900)), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "the door is open today", " ", "\n", "a", "=", "QUJDREVGR0hJSktMTU5PUFFSU1RVVl",
                    "\"say it in few words\"", "12 of 40,", "\u{e9}t\u{e9} ",
                ]),
                0..30,
            ),
            step in 1_usize..50,
        ) {
            let text = parts.concat() + &bulk(80, "") + &parts.concat();
            prop_assert_eq!(found(&text, step), found(&text, usize::MAX));
        }
    }
}

//! `.wrap`: the whole artifact, with long lines folded.

use std::io;
use std::io::{BufWriter, Write};

use crate::number::portion;
use crate::range::TextPosition;
use crate::{RenderError, Rendered, scan};
use ctxfs_core::model::Subject;

// Maximum number of characters in a line that is shown unchanged, and in a piece of a longer line.
const WIDTH: usize = 400;
// Number of characters before the end of a piece in which a suitable place to fold is searched.
const SLACK: usize = 100;
// Number of bytes that suffice to decide whether a line is long and where it is folded.
const FOLD_BYTES: usize = 4 * WIDTH + 4;
// Number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
// Number of bytes that are collected before they are written.
const FLUSH_BYTES: usize = 64 << 10;

/// Writes all lines. Splits lines of more than 400 characters into pieces.
///
/// Each piece of a line except the first begins with `line@column:`, its place in the artifact.
/// Without these marks and the newlines before them, the text equals the artifact byte for byte,
/// except that NUL bytes are shown as their symbol. Memory does not grow with the length of lines.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let mut folder = LineFolder::new(out);
    let mut text = Vec::new();
    let mut read = 0;
    let mut whole = true;
    loop {
        if expired() {
            whole = false;
            break;
        }
        let kept = text.len();
        text.resize(kept + READ_BYTES, 0);
        let got = subject.content.read_at(read, &mut text[kept..])?;
        text.truncate(kept + got);
        read += got as u64;
        let used = folder.push(&text, got == 0)?;
        text.drain(..used);
        if got == 0 {
            break;
        }
    }
    folder.out.flush()?;
    let out_of_time = (!whole).then(|| folder.out_of_time(subject, read - text.len() as u64));
    let notices = [out_of_time, folder.first.map(folded)];
    let notice: String = notices.into_iter().flatten().collect();
    Ok(Rendered { notice: (!notice.is_empty()).then_some(notice), whole })
}

fn folded(at: TextPosition) -> String {
    let TextPosition { line, column } = at;
    format!(
        "# long lines are folded: `{at}:` begins what line {line} has from byte column {column} on\n"
    )
}

/// Writes lines in pieces. Before each piece of a line except the first, writes its place in the
/// artifact. `at` is the place of the next byte, and `first` is the first fold.
struct LineFolder<'a> {
    out: BufWriter<&'a mut dyn Write>,
    at: TextPosition,
    first: Option<TextPosition>,
}

impl<'a> LineFolder<'a> {
    fn new(out: &'a mut dyn Write) -> Self {
        let out = BufWriter::with_capacity(FLUSH_BYTES, out);
        Self { out, at: TextPosition { line: 1, column: 1 }, first: None }
    }

    /// Writes the pieces of `text` that are known to be complete, or all of `text` if `last` is
    /// true. Returns the number of bytes of `text` that were written.
    fn push(&mut self, text: &[u8], last: bool) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = &text[at..];
            let near = &rest[..rest.len().min(FOLD_BYTES)];
            let end = memchr::memchr(b'\n', near);
            let piece = match end {
                None if near.is_empty() || (near.len() < FOLD_BYTES && !last) => return Ok(at),
                end => fold(&near[..end.unwrap_or(near.len())]),
            };
            self.mark()?;
            let ends = end == Some(piece);
            self.write(&near[..piece + usize::from(ends)])?;
            at += piece + usize::from(ends);
            if ends {
                self.at = TextPosition { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += piece as u64;
            }
        }
    }

    fn mark(&mut self) -> io::Result<()> {
        if self.at.column == 1 {
            return Ok(());
        }
        self.first.get_or_insert(self.at);
        write!(self.out, "\n{}:", self.at)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while let Some(nul) = memchr::memchr(0, rest) {
            self.out.write_all(&rest[..nul])?;
            self.out.write_all("\u{2400}".as_bytes())?;
            rest = &rest[nul + 1..];
        }
        self.out.write_all(rest)
    }

    fn out_of_time(&self, subject: &Subject<'_>, done: u64) -> String {
        format!(
            "# out of time after {}; what was folded follows. Go on: {}\n",
            portion(done, subject.content.len()),
            subject.place.of_view(&format!(".grep/--from={} -o .{{1,{WIDTH}}}", self.at)).file(),
        )
    }
}

// Returns the length of the first piece of `line`, which is the whole line if it is short.
fn fold(line: &[u8]) -> usize {
    let most = scan::forward(line, 0, WIDTH);
    if most == line.len() {
        return most;
    }
    let least = scan::forward(line, 0, WIDTH - SLACK);
    let good = line[least..most].iter().rposition(|byte| b" \t,;>|&})]".contains(byte));
    good.map_or_else(|| scan::char_floor(line, most), |good| least + good + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::View;
    use crate::fixture::Fixture;

    fn wrapped(text: impl Into<Vec<u8>>) -> Vec<u8> {
        Fixture::new(text).bytes(&View::Wrap)
    }

    /// Recovers the artifact: removes the notice, and removes marks wherever a fold can be.
    fn unfolded(view: &[u8]) -> Vec<u8> {
        let notices = view.starts_with(b"# long");
        let mut text: Vec<u8> = Vec::new();
        let mut at = TextPosition { line: 0, column: 1 };
        for line in view.split_inclusive(|byte| *byte == b'\n').skip(usize::from(notices)) {
            let mark = format!("{at}:");
            let rest = line.strip_prefix(mark.as_bytes()).filter(|_| at.column > 1);
            if rest.is_some() {
                text.pop();
            } else {
                at = TextPosition { line: at.line + 1, column: 1 };
            }
            let rest = rest.unwrap_or(line);
            text.extend_from_slice(rest);
            at.column += rest.len() as u64 - u64::from(rest.ends_with(b"\n"));
        }
        text
    }

    #[test]
    fn short_lines_pass() {
        for text in ["", "\n", "a\n\nb", &format!("{}\n", "x".repeat(400)), "\u{20ac}\r\n"] {
            assert_eq!(wrapped(text), text.as_bytes());
        }
        let wide = "\u{1f600}".repeat(400);
        assert_eq!(wrapped(wide.as_str()), wide.as_bytes());
    }

    #[test]
    fn a_long_line_folds_at_a_good_place() {
        let word = "x".repeat(39);
        let line = format!("{} {}", [word.as_str(); 9].join(" "), "y".repeat(100));
        let text = format!("first\n{line}\nlast\n");
        let want = format!(
            "# long lines are folded: `2@361:` begins what line 2 has from byte column 361 on\n\
             first\n{} \n2@361:{}\nlast\n",
            [word.as_str(); 9].join(" "),
            "y".repeat(100)
        );
        assert_eq!(String::from_utf8(wrapped(text)).unwrap(), want);
    }

    #[test]
    fn a_line_without_good_places_folds_between_characters() {
        let text = "\u{e9}".repeat(1000);
        let view = String::from_utf8(wrapped(text.as_str())).unwrap();
        let lines: Vec<&str> = view.lines().skip(1).collect();
        assert_eq!(lines[1], format!("1@801:{}", "\u{e9}".repeat(400)));
        assert_eq!(lines[2], format!("1@1601:{}", "\u{e9}".repeat(200)));
        assert_eq!(unfolded(view.as_bytes()), text.as_bytes());
    }

    #[test]
    fn nul_bytes_are_shown_as_their_symbol() {
        let mut fixture = Fixture::new("text");
        fixture.bytes = b"a\0b\n".to_vec();
        assert_eq!(fixture.text(&View::Wrap), "a\u{2400}b\n");
    }

    #[test]
    fn time_can_run_out() {
        let fixture = Fixture::new("x".repeat(3 * READ_BYTES));
        let calls = std::cell::Cell::new(0);
        let expired = || calls.replace(calls.get() + 1) == 1;
        let (body, rendered) = fixture.render_until(&View::Wrap, &expired).unwrap();
        let notice = rendered.notice.unwrap();
        assert!(!rendered.whole);
        assert!(notice.starts_with("# out of time after 260.8 of 786.4 kB; what was folded"));
        let again = "Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=1@260801 -o .{1,400}\n";
        assert!(notice.contains(again), "{notice}");
        assert!(notice.contains("\n# long lines are folded: `1@401:`"), "{notice}");
        assert_eq!(unfolded(&body), vec![b'x'; 260_800]);
    }

    #[test]
    fn one_huge_line_takes_little_memory() {
        let text = "word, ".repeat(300_000);
        let view = wrapped(text.as_str());
        assert!(view.split(|byte| *byte == b'\n').all(|line| line.len() <= 420));
        assert!(unfolded(&view) == text.as_bytes());
    }

    proptest! {
        #[test]
        fn without_marks_it_is_the_artifact(
            lines in prop::collection::vec((prop::collection::vec(1u8.., 0..8), 0..400usize), 0..8),
            end: bool,
        ) {
            let lines = lines.iter().map(|(word, times)| word.repeat(*times));
            // The text begins this way because no binary format does.
            let mut text = b"text\n".to_vec();
            text.extend(lines.collect::<Vec<Vec<u8>>>().join(&b'\n'));
            text.extend(end.then_some(b'\n'));
            let view = wrapped(text.as_slice());
            prop_assert_eq!(unfolded(&view), text);
            let fits = |line: &[u8]| scan::forward(line, 0, WIDTH + 30) == line.len();
            prop_assert!(view.split(|byte| *byte == b'\n').all(fits));
        }

        #[test]
        fn characters_are_never_cut(text in "(\\PC{0,40} ?[a-z\u{20ac}\u{1f600}]{0,900}){0,4}") {
            prop_assert!(String::from_utf8(wrapped(text)).is_ok());
        }
    }
}

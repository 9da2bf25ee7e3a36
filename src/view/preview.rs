//! `.preview`: what the message log holds of a long output.

use std::io::Write;

use bstr::ByteSlice as _;

use crate::materialize::Analyzer;
use crate::model::Limits;
use crate::model::Subject;
use crate::redact::MaskCounts;
use crate::view::RenderError;
use crate::view::Rendered;
use crate::view::cut;
use crate::view::kind;
use crate::view::number::counted;

/// Bytes that tell text from what is none. Not the whole: a preview of a long output is cheap, and
/// the same before and after it is analysed.
const SNIFFED: usize = 64 << 10;
/// Lines that follow the text: a blank one, and the path.
const LINES_AFTER: usize = 2;
/// Bytes of the line that says what is redacted.
const REDACTED_BYTES: usize = 256;

/// Whether an output is longer than what the message log holds of one itself.
pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    subject.size() > subject.limits.message_threshold
}

/// Writes the first characters, a blank line and the path (`formats.md`, section 4). Where secrets
/// are masked in the first characters, a line after them says so.
pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let path = cut::line(&format!("[Full output: {}]", subject.place.file()));
    let start = subject.content.bytes(0, SNIFFED)?;
    let mut analyzer = Analyzer::new();
    analyzer.push(&start);
    let found = analyzer.finish();
    if found.is_binary() {
        let bytes = counted(subject.size(), "byte");
        write!(out, "[not text: {}, {bytes}]", kind::brief(&found))?;
    } else {
        let bytes = Limits::STAND_IN_BYTES - path.len() - "\n\n\n".len();
        let lines = Limits::STAND_IN_LINES - LINES_AFTER;
        out.write_all(text(subject, &start, Room { bytes, lines }).as_bytes())?;
    }
    write!(out, "\n\n{path}\n")?;
    Ok(Rendered::plain())
}

#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    lines: usize,
}

/// The first characters, and what is redacted in them.
fn text(subject: &Subject<'_>, start: &[u8], room: Room) -> String {
    let chars = subject.limits.message_preview;
    let all = first(start, chars, room);
    if MaskCounts::of(&all, subject.redacts).is_empty() {
        return all;
    }
    let less = Room { bytes: room.bytes - REDACTED_BYTES, lines: room.lines - 1 };
    let less = first(start, chars, less);
    let newline = if less.ends_with('\n') { "" } else { "\n" };
    let redacted = MaskCounts::of(&less, subject.redacts);
    if redacted.is_empty() {
        less
    } else {
        format!("{less}{newline}[Redacted: {}]", redacted.text())
    }
}

/// The first characters that keep within the limits of a stand-in. Bytes that are not UTF-8 are
/// shown as U+FFFD.
fn first(bytes: &[u8], chars: usize, room: Room) -> String {
    let mut text = String::new();
    let (mut lines, mut column) = (1, 0);
    for (_, _, c) in bytes.char_indices().take(chars) {
        (lines, column) = if c == '\n' { (lines + 1, 0) } else { (lines, column + 1) };
        let full = text.len() + c.len_utf8() > room.bytes
            || lines > room.lines
            || column > Limits::LINE_CHARS;
        if full {
            break;
        }
        text.push(c);
    }
    text
}

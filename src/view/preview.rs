//! `.preview`: what the message log holds of a long output.

use std::io::Write;

use bstr::ByteSlice as _;

use crate::materialize::Analyzer;
use crate::model::Limits;
use crate::model::Subject;
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

/// Whether an output is longer than what the message log holds of one itself.
pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    subject.content.len() > subject.limits.message_threshold
}

/// Writes the first characters, a blank line and the path (`formats.md`, section 4).
pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let path = cut::line(&format!("[Full output: {}]", subject.place.file()));
    let start = subject.content.bytes(0, SNIFFED)?;
    let mut analyzer = Analyzer::new();
    analyzer.push(&start);
    let found = analyzer.finish();
    if found.is_binary() {
        let bytes = counted(subject.content.len(), "byte");
        write!(out, "[not text: {}, {bytes}]", kind::brief(&found))?;
    } else {
        let room = Limits::STAND_IN_BYTES - path.len() - "\n\n\n".len();
        out.write_all(first(&start, subject.limits.message_preview, room).as_bytes())?;
    }
    write!(out, "\n\n{path}\n")?;
    Ok(Rendered::plain())
}

/// The first characters that keep within the limits of a stand-in. Bytes that are not UTF-8 are
/// shown as U+FFFD.
fn first(bytes: &[u8], chars: usize, room: usize) -> String {
    let mut text = String::new();
    let (mut lines, mut column) = (1, 0);
    for (_, _, c) in bytes.char_indices().take(chars) {
        (lines, column) = if c == '\n' { (lines + 1, 0) } else { (lines, column + 1) };
        let full = text.len() + c.len_utf8() > room
            || lines > Limits::STAND_IN_LINES - LINES_AFTER
            || column > Limits::LINE_CHARS;
        if full {
            break;
        }
        text.push(c);
    }
    text
}

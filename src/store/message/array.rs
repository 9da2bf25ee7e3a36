//! `messages.json`: the log as one JSON array.

use std::fs::File;
use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::Artifact;
use crate::message::layout::MessageLayout;
use crate::message::lines::whole_of;
use crate::message::{BLOCK, Log, LogLine, LogLines, MessageError};
use ctxfs_core::model::Content as _;

/// Writes the messages of `log` as a JSON array, one a line and otherwise unchanged.
///
/// A line that is not a message, which only a program that bypasses ctxfs can write, becomes a
/// string in the array.
pub fn array(log: Log, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut before: &[u8] = b"\n";
    for line in LogLines::of(log) {
        let line = line?;
        out.write_all(before)?;
        match MessageLayout::of(&line) {
            Ok(_) => line.read(|block| out.write_all(block))?,
            Err(MessageError::NotAMessage(_)) => quoted(&line, out)?,
            Err(error) => return Err(io::Error::other(error)),
        }
        before = b",\n";
    }
    out.write_all(if before == b"\n" { b"]\n" } else { b"\n]\n" })
}

/// Writes any bytes as a JSON string, with U+FFFD for what is not UTF-8.
fn quoted(line: &LogLine, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut offset = 0;
    while offset < line.len() {
        let mut block = line.bytes(offset, BLOCK)?;
        // A character that the end of the block cuts goes to the next block.
        let whole = std::str::from_utf8(&block).map_or_else(
            |error| if error.error_len().is_none() { error.valid_up_to() } else { block.len() },
            str::len,
        );
        if whole > 0 && offset + (block.len() as u64) < line.len() {
            block.truncate(whole);
        }
        let text = serde_json::to_string(&String::from_utf8_lossy(&block))?;
        out.write_all(&text.as_bytes()[1..text.len() - 1])?;
        offset += block.len() as u64;
    }
    out.write_all(b"\"")
}

/// Checks that `file` can be a log: every line must be a message. Adds the newline of the last line
/// if it is missing.
pub fn check(file: &Arc<File>) -> Result<(), MessageError> {
    let whole = whole_of(Arc::clone(file))?;
    let (size, end) = (file.metadata()?.len(), whole.len());
    for (number, line) in (1..).zip(LogLines::of(whole)) {
        checked(number, &line?)?;
    }
    if end == size {
        return Ok(());
    }
    let last = LogLine::Part(Artifact::new(Arc::clone(file), size).into(), end, size - end);
    if !last.is_blank()? {
        MessageLayout::of(&last)?;
    }
    std::os::unix::fs::FileExt::write_all_at(&**file, b"\n", size)?;
    Ok(())
}

fn checked(number: u64, line: &LogLine) -> Result<(), MessageError> {
    match MessageLayout::of(line) {
        Err(MessageError::NotAMessage(why)) => {
            Err(MessageError::NotAMessage(format!("line {number}, not counting blank ones: {why}")))
        }
        other => other.map(|_| ()),
    }
}

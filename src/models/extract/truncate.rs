//! The text without a model: the head, the errors and the tail.

use std::fmt::Write as _;
use std::io;

use crate::extract::{Document, DocumentError};
use ctxfs_core::model::Content;

/// Returns at most about `most` bytes of a document. What is left out is named.
pub(super) fn truncated(document: &dyn Document, most: usize) -> Result<String, DocumentError> {
    let content = document.content();
    if content.len() <= most as u64 {
        return Ok(String::from_utf8_lossy(&content.bytes(0, most)?).into_owned());
    }
    let head = head(content, most / 4)?;
    let tail = tail(content, most / 4)?;
    let mut text = String::from_utf8_lossy(&head).into_owned();
    let cut = content.len() - (head.len() + tail.len()) as u64;
    let _ = writeln!(ended(&mut text), "[... {cut} of {} bytes are not shown ...]", content.len());
    if let Some(errors) = errors(document, most / 2)? {
        let _ = writeln!(text, "[the lines that look like errors:]\n{}", errors.trim_end());
        let _ = writeln!(text, "[the end:]");
    }
    text.push_str(&String::from_utf8_lossy(&tail));
    Ok(text)
}

fn ended(text: &mut String) -> &mut String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns the beginning, as many whole lines as `most` bytes hold; a longer line is cut.
fn head(content: &dyn Content, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = content.bytes(0, most)?;
    let end = memchr::memrchr(b'\n', &bytes).map_or_else(|| whole_characters(&bytes), |at| at + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// Returns the end in the same way.
fn tail(content: &dyn Content, most: usize) -> io::Result<Vec<u8>> {
    let bytes = content.bytes(content.len().saturating_sub(most as u64), most)?;
    let last = bytes.len().saturating_sub(1);
    let start = memchr::memchr(b'\n', &bytes[..last]).map_or_else(
        || bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count(),
        |at| at + 1,
    );
    Ok(bytes[start..].to_vec())
}

/// Returns the length of the whole characters in `bytes`, as far as they are UTF-8.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Returns the view of errors, whole lines of it, if there are any.
fn errors(document: &dyn Document, most: usize) -> Result<Option<String>, DocumentError> {
    let text = match document.view("errors") {
        Ok(text) => text,
        Err(DocumentError::View { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
    let mut shown = String::new();
    for (index, line) in lines.iter().enumerate() {
        if shown.len() + line.len() >= most {
            let _ = writeln!(shown, "[... {} more lines ...]", lines.len() - index);
            break;
        }
        let _ = writeln!(shown, "{line}");
    }
    Ok((!lines.is_empty()).then_some(shown))
}

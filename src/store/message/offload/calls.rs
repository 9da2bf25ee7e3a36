//! Outputs in the text of a message: `<function_call>{..., "response": ...}</function_call>`.
//!
//! Text is decoded to find calls in it, and a change is made at the bytes of the line that stand
//! for the output. What is no such call stays as it is.

use std::io;
use std::io::BufRead as _;

use crate::message::json_string::{JsonStringReader, places_in_line};
use crate::message::layout::{MessageLayout, MessageMember, values_of_list};
use crate::message::offload::output::MessageOutput;
use crate::message::offload::texts::{TextFinder, contains};
use crate::message::offload::{Offload, Replacement};
use crate::message::span::{Span, SpanReader};
use crate::message::stored::CollectingWriter;
use crate::message::{AppendContext, MessageError};
use ctxfs_core::model::Content;

const OPENING: &[u8] = b"<function_call>";
const CLOSING: &[u8] = b"</function_call>";
/// The most parts of a content in which calls are looked for.
const MOST_PARTS: usize = 1024;

/// Stores the long outputs of calls in the text of a message. Returns the changes to make in its
/// line.
pub(super) fn edits(
    line: &dyn Content,
    layout: &MessageLayout,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    let Some(content) = layout.span(MessageMember::Content) else { return Ok(Vec::new()) };
    let mut edits = Vec::new();
    for text in texts(line, content)? {
        let reader = JsonStringReader::new(SpanReader::new(line, text.clone()))?;
        if contains(reader, OPENING)? {
            let id = none_if_refused(layout.short(line, MessageMember::Id))?.flatten();
            edits.extend(edits_of_text(line, &text, id.as_deref(), context)?);
        }
    }
    Ok(edits)
}

/// Returns the strings of a content: itself, or the texts of its parts.
fn texts(line: &dyn Content, content: &Span) -> io::Result<Vec<Span>> {
    let first = |span: &Span| MessageOutput::of(line, span).map(|value| value.first);
    match first(content)? {
        b'"' => return Ok(vec![content.clone()]),
        b'[' => {}
        _ => return Ok(Vec::new()),
    }
    let mut texts = Vec::new();
    for part in values_of_list(line, content.clone(), MOST_PARTS)? {
        let part = MessageLayout::of_part(line, part)?;
        let text = part.and_then(|part| part.span(MessageMember::Content).cloned());
        if let Some(text) = text
            && first(&text)? == b'"'
        {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn edits_of_text(
    line: &dyn Content,
    string: &Span,
    id: Option<&str>,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    let mut collected = CollectingWriter::new(context);
    let mut reader = JsonStringReader::new(SpanReader::new(line, string.clone()))?;
    io::copy(&mut reader, &mut collected)?;
    let text = collected.line()?;
    let mut finder = TextFinder::new(&text, OPENING);
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(tag) = finder.find(at)? {
        at = tag + OPENING.len() as u64;
        let Some((call, end)) = call_at(&text, at)? else { continue };
        at = end;
        let offload = none_if_refused(Offload::of(&text, &call, id, context))?.flatten();
        edits.extend(offload.into_iter().flat_map(Offload::edits));
    }
    Ok(in_line(line, string, edits)?)
}

/// Returns the call whose object begins at `start`, and its end, if the closing tag follows.
fn call_at(text: &dyn Content, start: u64) -> io::Result<Option<(MessageLayout, u64)>> {
    let Some((call, end)) = MessageLayout::of_call(text, start)? else { return Ok(None) };
    let mut rest = SpanReader::new(text, end..text.len());
    let mut at = end;
    while rest.fill_buf()?.first().is_some_and(u8::is_ascii_whitespace) {
        rest.consume(1);
        at += 1;
    }
    let is_closed = text.bytes(at, CLOSING.len())? == CLOSING;
    Ok(is_closed.then_some((call, at)))
}

/// Returns the changes to a text as those to the string in the line that stands for it.
fn in_line(
    line: &dyn Content,
    string: &Span,
    mut edits: Vec<Replacement>,
) -> io::Result<Vec<Replacement>> {
    edits.sort_by_key(|(span, _)| span.start);
    let places: Vec<u64> = edits.iter().flat_map(|(span, _)| [span.start, span.end]).collect();
    let places = places_in_line(line, string, &places)?;
    let moved = |((_, text), place): (Replacement, &[u64])| (place[0]..place[1], escaped(text));
    Ok(edits.into_iter().zip(places.chunks_exact(2)).map(moved).collect())
}

/// Returns a text as it stands in a string.
fn escaped(text: String) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A call that would be refused as a message stays as it is.
fn none_if_refused<T>(result: Result<T, MessageError>) -> Result<Option<T>, MessageError> {
    match result {
        Err(MessageError::NotAMessage(_)) => Ok(None),
        other => other.map(Some),
    }
}

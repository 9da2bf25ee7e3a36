//! Outputs that are themselves responses of the common protocol.

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::members::{MemberRanges, members};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Content, Json, Subject};

// A larger `stats`, `context` or `error` is named in the text of the envelope instead.
const CARRIED_BYTES: u64 = 16 << 10;
// Fits `partial` with its quotes and every character escaped as `\uXXXX`, and some white space.
const WORD_BYTES: u64 = 128;
const BLOCK: usize = 256 << 10;

// `data` and `text` are replaced by the envelope; the last three are carried over.
const NAMES: [&str; 6] = ["status", "data", "text", "stats", "context", "error"];
const STATUS: usize = 0;
const STATS: usize = 3;
const CONTEXT: usize = 4;
const ERROR: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResponseStatus {
    Success,
    Partial,
    Error,
}

/// The members of a response that its envelope keeps.
///
/// `left_out` names the members that are too large or unreadable to carry over, with their sizes in
/// bytes. `skip` is true if the response asks to be left as it is (`context.truncation_skip`).
pub(super) struct Response {
    pub(super) status: ResponseStatus,
    pub(super) stats: Option<Box<RawValue>>,
    pub(super) context: Option<Box<RawValue>>,
    pub(super) error: Option<Box<RawValue>>,
    pub(super) left_out: Vec<(&'static str, u64)>,
    pub(super) skip: bool,
}

pub(super) enum Recognized {
    Response(Response),
    Other,
    OutOfTime,
}

/// Reads a response: a JSON object whose `status` is `success`, `partial` or `error`, with `data`,
/// `text` or `error` beside it. Memory is bounded for any size.
pub(super) fn read(subject: &Subject<'_>, expired: &dyn Fn() -> bool) -> io::Result<Recognized> {
    let content = subject.content;
    if subject.analysis.bytes != content.len() {
        return Ok(Recognized::OutOfTime);
    }
    match is_json(subject, expired)? {
        Some(true) => {}
        Some(false) => return Ok(Recognized::Other),
        None => return Ok(Recognized::OutOfTime),
    }
    let found = match members(content, 0..content.len(), &NAMES, expired)? {
        MemberRanges::Found(found) => found,
        MemberRanges::NotAnObject => return Ok(Recognized::Other),
        MemberRanges::OutOfTime => return Ok(Recognized::OutOfTime),
    };
    let others = [1, 2, ERROR].into_iter().any(|index| found[index].is_some());
    let status = word(content, found[STATUS].as_ref())?.filter(|_| others);
    let Some(status) = status else { return Ok(Recognized::Other) };
    let Some(skip) = skips(content, found[CONTEXT].clone(), expired)? else {
        return Ok(Recognized::OutOfTime);
    };
    let mut left_out = Vec::new();
    let mut carry = |index: usize| carried(content, index, found[index].clone(), &mut left_out);
    let (stats, context, error) = (carry(STATS)?, carry(CONTEXT)?, carry(ERROR)?);
    Ok(Recognized::Response(Response { status, stats, context, error, left_out, skip }))
}

/// Returns true if the content is JSON as it is shown. A mask may replace more than a part of a
/// string, so masked content is parsed again. Returns `None` if time ran out.
fn is_json(subject: &Subject<'_>, expired: &dyn Fn() -> bool) -> io::Result<Option<bool>> {
    let is_document = |json: &Json| matches!(json, Json::Document { .. });
    if subject.redacts.is_none() || !is_document(&subject.analysis.json) {
        return Ok(Some(is_document(&subject.analysis.json)));
    }
    let mut analyzer = Analyzer::new();
    loop {
        let block = subject.content.bytes(analyzer.seen(), BLOCK)?;
        if block.is_empty() {
            return Ok(Some(is_document(&analyzer.finish().json)));
        }
        if expired() {
            return Ok(None);
        }
        analyzer.push(&block);
    }
}

fn word(content: &dyn Content, range: Option<&Range<u64>>) -> io::Result<Option<ResponseStatus>> {
    let Some(range) = range.filter(|range| range.end - range.start <= WORD_BYTES) else {
        return Ok(None);
    };
    Ok(serde_json::from_slice(&bytes(content, range)?).ok())
}

fn skips(
    content: &dyn Content,
    context: Option<Range<u64>>,
    expired: &dyn Fn() -> bool,
) -> io::Result<Option<bool>> {
    let Some(context) = context else { return Ok(Some(false)) };
    let found = match members(content, context, &["truncation_skip"], expired)? {
        MemberRanges::Found(found) => found,
        MemberRanges::NotAnObject => return Ok(Some(false)),
        MemberRanges::OutOfTime => return Ok(None),
    };
    let short = found[0].as_ref().filter(|range| range.end - range.start <= WORD_BYTES);
    let Some(range) = short else { return Ok(Some(false)) };
    Ok(Some(bytes(content, range)?.trim_ascii() == b"true"))
}

/// Returns the value in `range` as it is spelled, unless it is too large, or some parsers cannot
/// read it: it is nested too deeply, has a number out of range or half of a surrogate pair.
fn carried(
    content: &dyn Content,
    index: usize,
    range: Option<Range<u64>>,
    left_out: &mut Vec<(&'static str, u64)>,
) -> io::Result<Option<Box<RawValue>>> {
    let Some(range) = range else { return Ok(None) };
    let size = range.end - range.start;
    let mut value = None;
    if size <= CARRIED_BYTES {
        let text = String::from_utf8(bytes(content, &range)?).ok();
        let text = text.filter(|text| is_readable(text)).map(|text| text.trim().to_owned());
        value = text.and_then(|text| RawValue::from_string(text).ok());
    }
    if value.is_none() {
        left_out.push((NAMES[index], size));
    }
    Ok(value)
}

// The envelope nests the value deeper than the response does.
fn is_readable(value: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(&format!("[[{value}]]")).is_ok()
}

fn bytes(content: &dyn Content, range: &Range<u64>) -> io::Result<Vec<u8>> {
    content.bytes(range.start, usize::try_from(range.end - range.start).unwrap_or(0))
}

//! Recognizes outputs that are already responses of the tool-output protocol, which is the protocol
//! of `.envelope.json` (`formats.md`, section 2).

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use ctxfs_core::materialize::Analyzer;
use ctxfs_core::materialize::json::{Events, ScanOutcome, Scanner};
use ctxfs_core::model::{Analysis, Content, Json, Subject};

// A `stats`, `context` or `error` above this size is not carried over. The text of the envelope
// names it instead.
const CARRIED_BYTES: u64 = 16 << 10;
// Enough for `"partial"` with every character escaped as `\uXXXX`.
const WORD_BYTES: u64 = 128;
const READ_BYTES: usize = 256 << 10;

// The envelope replaces `data` and `text`, and carries over `stats`, `context` and `error`.
const MEMBER_NAMES: [&str; 6] = ["status", "data", "text", "stats", "context", "error"];
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
/// bytes. `skip` is true if the response sets `context.truncation_skip`. Such a response is left
/// unchanged.
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

/// Reads a response: a JSON object whose `status` is `success`, `partial` or `error` and that has
/// `data`, `text` or `error`. Memory is bounded for any size.
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
    let found = match members(content, 0..content.len(), &MEMBER_NAMES, expired)? {
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

/// Returns true if the content is valid JSON in the form that readers see. Masked content is parsed
/// again, because a mask may extend beyond a string. Returns `None` if time ran out.
fn is_json(subject: &Subject<'_>, expired: &dyn Fn() -> bool) -> io::Result<Option<bool>> {
    let is_document = |analysis: &Analysis| {
        matches!(analysis.json, Json::Document { .. }) && analysis.loose.is_empty()
    };
    if subject.redacts.is_none() || !is_document(subject.analysis) {
        return Ok(Some(is_document(subject.analysis)));
    }
    let mut analyzer = Analyzer::new();
    loop {
        let block = subject.content.bytes(analyzer.seen(), READ_BYTES)?;
        if block.is_empty() {
            return Ok(Some(is_document(&analyzer.finish())));
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
    Ok(Some(bytes(content, range)? == b"true"))
}

/// Returns the raw text of the value in `range`, or `None` without a range. Adds the member to
/// `left_out` and returns `None` if the value is too large, or if some parsers cannot read the
/// value. They cannot read deep nesting, a number out of range or half a surrogate pair.
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
        let text = text.filter(|text| is_readable(text));
        value = text.and_then(|text| RawValue::from_string(text).ok());
    }
    if value.is_none() {
        left_out.push((MEMBER_NAMES[index], size));
    }
    Ok(value)
}

// Checks the value inside two arrays, because the envelope nests it deeper than the response does.
fn is_readable(value: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(&format!("[[{value}]]")).is_ok()
}

fn bytes(content: &dyn Content, range: &Range<u64>) -> io::Result<Vec<u8>> {
    content.bytes(range.start, usize::try_from(range.end - range.start).unwrap_or(0))
}

/// The ranges of the values of the requested members, in the order of their names. If a member
/// occurs twice, its last value is used, as most parsers do.
enum MemberRanges {
    Found(Vec<Option<Range<u64>>>),
    NotAnObject,
    OutOfTime,
}

// Finds the members `names` of the value in `range`, which must be JSON.
fn members(
    content: &dyn Content,
    range: Range<u64>,
    names: &[&str],
    expired: &dyn Fn() -> bool,
) -> io::Result<MemberRanges> {
    let mut scan = MemberScan { found: vec![None; names.len()], names, ..MemberScan::default() };
    let mut scanner = Scanner::default();
    let mut offset = range.start;
    let mut begun = false;
    while offset < range.end {
        if expired() {
            return Ok(MemberRanges::OutOfTime);
        }
        let length = usize::try_from(range.end - offset).unwrap_or(READ_BYTES).min(READ_BYTES);
        let block = content.bytes(offset, length)?;
        if block.is_empty() {
            break;
        }
        let blank = |byte: &&u8| !begun && byte.is_ascii_whitespace();
        let blanks = block.iter().take_while(blank).count();
        begun |= blanks < block.len();
        if begun {
            scan.block(offset + blanks as u64);
            let outcome = scanner.push(&block[blanks..], &mut scan);
            if !scan.is_object || outcome != ScanOutcome::More {
                break;
            }
        }
        offset += block.len() as u64;
    }
    Ok(if scan.is_object { MemberRanges::Found(scan.found) } else { MemberRanges::NotAnObject })
}

#[derive(Default)]
struct MemberScan<'a> {
    names: &'a [&'a str],
    found: Vec<Option<Range<u64>>>,
    is_object: bool,
    depth: u64,
    // The offset of the bytes that the scanner is processing.
    base: u64,
    // The index in `names` of the last key, if the key is one of them.
    named: Option<usize>,
    // The start of the last value at depth 1.
    start: u64,
}

impl Events for MemberScan<'_> {
    // A longer key cannot be one of `names`, even if every character of it is escaped.
    const KEY_BYTES: usize = 128;

    fn block(&mut self, offset: u64) {
        self.base = offset;
    }

    fn begins(&mut self, at: usize) {
        if self.depth == 1 {
            self.start = self.base + at as u64;
        }
    }

    fn key(&mut self, key: &[u8]) {
        if self.depth == 1 {
            let quoted = [b"\"", key, b"\""].concat();
            let key = serde_json::from_slice::<String>(&quoted).ok();
            self.named = key.and_then(|key| self.names.iter().position(|name| *name == key));
        }
    }

    fn begin_object(&mut self) {
        self.is_object |= self.depth == 0;
        self.depth += 1;
    }

    fn begin_array(&mut self) {
        self.depth += 1;
    }

    fn end(&mut self) {
        self.depth -= 1;
    }

    fn ends(&mut self, at: usize) {
        if self.depth == 1
            && let Some(index) = self.named.take()
        {
            self.found[index] = Some(self.start..self.base + at as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const NAMES: [&str; 3] = ["a", "status", "\u{e9}\"\\"];

    fn found(text: &str) -> Vec<Option<String>> {
        let content: Vec<u8> = text.into();
        match members(&content, 0..content.len() as u64, &NAMES, &|| false).unwrap() {
            MemberRanges::Found(found) => {
                let text =
                    |range: Range<u64>| text[range.start as usize..range.end as usize].trim();
                found.into_iter().map(|range| range.map(|range| text(range).to_owned())).collect()
            }
            MemberRanges::NotAnObject => Vec::new(),
            MemberRanges::OutOfTime => unreachable!(),
        }
    }

    fn values(a: Option<&str>, status: Option<&str>, odd: Option<&str>) -> Vec<Option<String>> {
        [a, status, odd].map(|value| value.map(str::to_owned)).to_vec()
    }

    #[test]
    fn values_are_found_by_key() {
        assert_eq!(found("{}"), values(None, None, None));
        assert_eq!(
            found(r#" {"x": {"a": 1}, "a" : [1, {"status": "}"}] , "status":"a\"b\\"}"#),
            values(Some(r#"[1, {"status": "}"}]"#), Some(r#""a\"b\\""#), None)
        );
        assert_eq!(
            found(r#"{"\u0061": 1, "\u00e9\"\\": -2.5e3}"#),
            values(Some("1"), None, Some("-2.5e3"))
        );
        assert_eq!(found("{\"a\": 1, \"a\": \n null \n}"), values(Some("null"), None, None));
    }

    #[test]
    fn other_values_are_no_objects() {
        for text in ["[1, {\"a\": 1}]", "\"{\"", "12", "true"] {
            assert_eq!(found(text), Vec::new(), "{text}");
        }
    }

    #[test]
    fn values_are_found_in_a_part_of_any_size() {
        let inner = format!("{{\"a\":\"{}\"}}", "\\\"x".repeat(READ_BYTES));
        let text = format!("[{inner}]");
        let content: Vec<u8> = text.clone().into();
        let range = 1..text.len() as u64 - 1;
        let found = members(&content, range, &["a"], &|| false).unwrap();
        let MemberRanges::Found(found) = found else { unreachable!() };
        assert_eq!(found, [Some(6..text.len() as u64 - 2)]);
    }

    #[test]
    fn time_can_run_out() {
        let out = members(&b"{}".to_vec(), 0..2, &NAMES, &|| true).unwrap();
        assert!(matches!(out, MemberRanges::OutOfTime));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}|[\"\\\\{}\\[\\],:]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let key = prop_oneof![Just("a".to_owned()), Just("status".to_owned()), "\\PC{0,4}"];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((key, inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_parser_finds(value in value(), pretty in any::<bool>()) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let found = found(&text);
            prop_assert_eq!(found.is_empty(), !value.is_object());
            for (name, range) in NAMES.iter().zip(found) {
                let parsed = range.map(|text| serde_json::from_str::<Value>(&text).unwrap());
                prop_assert_eq!(parsed.as_ref(), value.get(name));
            }
        }
    }
}

//! Analysis of JSON, compared with another parser, and all views of arbitrary content.

use std::ffi::OsStr;

use serde::de::IgnoredAny;

use crate::subject::Artifact;
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::materialize::json::BOM;
use ctxfs_core::model::{Json, Limits};
use ctxfs_view::{Derived, View, ViewDir, readings};

/// Views without arguments.
const VIEWS: [&str; 13] = [
    ".summary",
    ".tail",
    ".head",
    ".errors",
    ".terms",
    ".records",
    ".wrap",
    ".shape",
    ".pretty",
    ".meta.json",
    ".envelope.json",
    ".handle",
    ".preview",
];

/// Asserts these properties: The analysis recognizes what another parser accepts as JSON,
/// regardless of how the stream is divided. `.pretty` changes only white space. Every view can be
/// rendered.
pub fn json(data: &[u8]) {
    let artifact = Artifact::new(data);
    let analysis = artifact.analysis();
    let half = data.first().map_or(0, |first| usize::from(*first) * data.len() / 256);
    let mut pieces = Analyzer::new();
    pieces.push(&data[..half]);
    pieces.push(&data[half..]);
    assert_eq!(&pieces.finish().of_text(), analysis, "cut at {half}");
    let data = artifact.bytes();
    match &analysis.json {
        Json::Document { .. } => assert!(is_json(data)),
        Json::Lines { documents, .. } => assert_eq!(Some(*documents), values_in_lines(data)),
        Json::No | Json::Broken { .. } => assert!(!must_be_seen(data)),
    }
    pages(&artifact, data);
    // `.pretty` leaves the byte order mark out.
    let data = without_mark(data);
    for name in VIEWS {
        let name = format!("x{name}");
        let (_, reading) = readings(OsStr::new(&name)).next().expect("a view");
        let Derived::File(view) = reading.derived else { panic!("{name} is a directory") };
        let shown = artifact.show(&view).expect("every file has it");
        if view == View::Pretty && matches!(analysis.json, Json::Document { .. }) {
            let same = without_blanks(without_notices(&shown)) == without_blanks(data);
            assert!(same, "{}", shown.escape_ascii());
        }
    }
}

/// Asserts that the concatenated pages of a text equal the text.
fn pages(artifact: &Artifact, data: &[u8]) {
    let page = |number: usize| {
        let reading = ViewDir::Pages.child(OsStr::new(&format!("{number:04}")))?;
        let Derived::File(page) = reading.derived else { return None };
        artifact.show(&page).inspect(|text| assert!(text.len() <= Limits::STAND_IN_BYTES))
    };
    if !artifact.analysis().is_binary() {
        let whole: Vec<u8> = (1..).map_while(page).flatten().collect();
        assert!(whole == data, "{}", whole.escape_ascii());
    }
}

/// Returns `bytes` without a byte order mark, which the other parser does not accept.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// Returns true if `bytes` are one JSON value, possibly after a byte order mark. The parser skips
/// values in a loop, so it does not recurse.
fn is_json(bytes: &[u8]) -> bool {
    let bytes = without_mark(bytes);
    str::from_utf8(bytes).is_ok() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Returns true if `bytes` must be recognized as JSON: one object or array, or several, each on a
/// separate line.
fn must_be_seen(bytes: &[u8]) -> bool {
    is_in_brackets(bytes) && is_json(bytes)
        || values_in_lines(bytes).is_some_and(|values| values > 1)
            && lines(bytes).all(is_in_brackets)
}

fn is_in_brackets(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
}

/// Returns the lines that are not blank.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.iter().all(u8::is_ascii_whitespace))
}

/// Returns the number of lines that are not blank, if each of them is one JSON value. Otherwise
/// returns `None`.
fn values_in_lines(bytes: &[u8]) -> Option<u64> {
    lines(bytes).map(|line| is_json(line).then_some(1)).sum()
}

/// Removes the notices from a view. Notices are the first lines that begin with `#`; JSON never
/// begins with `#`.
fn without_notices(mut shown: &[u8]) -> &[u8] {
    while let (Some(b'#'), Some(end)) = (shown.first(), memchr::memchr(b'\n', shown)) {
        shown = &shown[end + 1..];
    }
    shown
}

/// Returns `json` without white space between tokens.
fn without_blanks(json: &[u8]) -> Vec<u8> {
    let (mut inside, mut escaped) = (false, false);
    let mut kept = Vec::with_capacity(json.len());
    for byte in json {
        if inside || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            kept.push(*byte);
        }
        if inside && (escaped || *byte == b'\\') {
            escaped = !escaped;
        } else if *byte == b'"' {
            inside = !inside;
        }
    }
    kept
}

//! The type of an output, in words.

use crate::number::{counted, grouped};
use ctxfs_core::model::{Analysis, Encoding, Json, LineEnd};

// Returns the type of an output: `text`, `JSON`, `text/html`, `image/png`.
pub(super) fn brief(analysis: &Analysis) -> &str {
    match analysis.json {
        Json::Document { .. } => "JSON",
        Json::Lines { .. } if analysis.loose.joined => "JSON",
        Json::Lines { .. } => "JSON Lines",
        Json::No | Json::Broken { .. } if analysis.mime == "text/plain" => "text",
        Json::No | Json::Broken { .. } if analysis.mime.is_empty() => "unknown type",
        Json::No | Json::Broken { .. } => &analysis.mime,
    }
}

// Returns the type of an output with details on JSON and encoding.
pub(super) fn full(analysis: &Analysis) -> String {
    let kind = match &analysis.json {
        Json::Document { .. } => match analysis.loose.words() {
            None => "JSON, valid".to_owned(),
            Some(words) => format!("JSON {words}"),
        },
        Json::Lines { documents, .. } => {
            let with = analysis.loose.words().map(|words| format!(" {words}")).unwrap_or_default();
            format!("{}, {}{with}", brief(analysis), counted(*documents, "value"))
        }
        Json::Broken { offset, line } => format!(
            "{} that begins like JSON, and is not from line {} on (byte {})",
            brief(analysis),
            grouped(*line),
            grouped(*offset),
        ),
        Json::No => brief(analysis).to_owned(),
    };
    let ends = match analysis.reading.line_end {
        LineEnd::Newline => "",
        LineEnd::Return => ", lines end in carriage returns",
        LineEnd::Nul => ", entries end in NUL bytes",
    };
    match (analysis.encoding, &analysis.charset) {
        (Encoding::Binary, _) => format!("binary, {}", brief(analysis)),
        (Encoding::Broken, None) => {
            format!("{kind}{ends}, with bytes that are not UTF-8 (shown as U+FFFD)")
        }
        (Encoding::Broken, Some(charset)) => format!(
            "{kind}{ends}, probably in {charset} (bytes that are not UTF-8 are shown as U+FFFD)"
        ),
        (_, Some(charset)) => format!("{kind} in {charset}{ends}"),
        (_, None) => format!("{kind}{ends}"),
    }
}

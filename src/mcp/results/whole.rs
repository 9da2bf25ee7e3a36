//! All of a result, stored whole, however short: what a batch refers to.

use std::io;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::envelope::raw;
use crate::message::Message;
use crate::pending::Call;
use crate::raw_object::{RawObject, elements};
use crate::results::parts::{Part, PartKind, part, parts};
use crate::results::stored::{InPlace, Keeper, Kept};
use crate::shelf::LazyShelf;
use ctxfs_engine::Replace;

/// The longest text that is held to be shown whole.
const SHOWN: u64 = 64 * 1024;
/// The most parts that are stored by themselves.
const MOST_PARTS: usize = 16;
/// The longest result that passes although it cannot be stored.
const PASSES: usize = 1 << 20;

/// A result of a call, stored.
pub(crate) struct StoredResult {
    /// True if the tool says that it failed.
    pub(crate) failed: bool,
    pub(crate) parts: Vec<StoredPart>,
}

/// A part of a result.
#[derive(Debug)]
pub(crate) struct StoredPart {
    /// The reference of what was stored; `None` for a text that is a stand-in itself.
    pub(crate) reference: Option<String>,
    /// The text, if it is short enough to be shown whole.
    pub(crate) text: Option<String>,
    /// The stand-in.
    pub(crate) summary: String,
    /// One line on what was stored.
    pub(crate) hint: String,
}

/// Stores all parts of the result at `range`; one of very many parts as a whole. Waits for the disk.
pub(crate) fn store_all(
    shelf: &LazyShelf,
    call: &Call,
    message: &Message,
    range: &Range<usize>,
) -> Result<StoredResult, String> {
    let result = raw(message, range.clone()).ok_or("it is no JSON")?;
    let object = RawObject::parse(result).unwrap_or_default();
    let failed = object.get("isError").is_some_and(|failed| failed.get() == "true");
    let keeper = Keeper::new(shelf, call, failed)?;
    let blocks = object.get("content").and_then(elements).unwrap_or_default();
    if blocks.len() > MOST_PARTS || message.hole(result).is_some() {
        let part = kept(shelf, call, &keeper, &Part::json(message, result))?;
        return Ok(StoredResult { failed, parts: vec![part] });
    }
    let all = all_parts(message, &object, &blocks).map_err(|error| error.to_string())?;
    let texts: Vec<&Part<'_>> = all.iter().filter(|part| part.kind == PartKind::Text).collect();
    let told = |part: &&Part<'_>| {
        part.kind != PartKind::Structured || !texts.iter().any(|text| text.says_same(part))
    };
    let parts = all.iter().filter(told).map(|part| kept(shelf, call, &keeper, part));
    Ok(StoredResult { failed, parts: parts.collect::<Result<_, _>>()? })
}

/// Returns every part of a result: a block of another kind, such as a link, as its JSON.
fn all_parts<'a>(
    message: &'a Message,
    result: &RawObject<'a>,
    blocks: &[&'a RawValue],
) -> io::Result<Vec<Part<'a>>> {
    let known = |block| Ok(part(message, block)?.unwrap_or_else(|| Part::json(message, block)));
    let mut parts: Vec<Part<'a>> = blocks.iter().copied().map(known).collect::<io::Result<_>>()?;
    parts.extend(result.get("structuredContent").map(|value| Part::json(message, value)));
    Ok(parts)
}

fn kept(
    shelf: &LazyShelf,
    call: &Call,
    keeper: &Keeper<'_>,
    part: &Part<'_>,
) -> Result<StoredPart, String> {
    let text = part.json_or_text().filter(|_| part.bytes <= SHOWN);
    let limits = shelf.limits(&call.tool_name());
    let in_place = InPlace::StandIn(Replace::Always);
    let Some(kept) = keeper.keep_unless_stand_in(part, &limits, in_place)? else {
        let summary = text.clone().unwrap_or_default();
        return Ok(StoredPart { reference: None, text, summary, hint: String::new() });
    };
    let Kept { text: summary, uri, hint, .. } = kept;
    Ok(StoredPart { reference: Some(uri), text, summary, hint })
}

/// Returns the texts of a short result that cannot be stored.
pub(crate) fn texts(message: &Message, range: &Range<usize>) -> Option<String> {
    if range.len() > PASSES {
        return None;
    }
    let object = RawObject::parse(raw(message, range.clone())?)?;
    let all = parts(message, &object).ok()?;
    let texts: Vec<String> = all.iter().filter_map(Part::json_or_text).collect();
    Some(texts.join("\n"))
}

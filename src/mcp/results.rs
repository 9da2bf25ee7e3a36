//! Processes tool results: stores long parts and puts stand-ins in their place.

pub(crate) mod parts;
pub(crate) mod stored;

use std::io;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::context::location::uri;
use crate::json_rpc::{self, failed_call, raw};
use crate::message::{Edit, Message, ObjectMember, Outgoing};
use crate::pending::ToolCall;
use crate::raw_object::{RawObject, elements, quoted};
use crate::results::parts::{PartKind, ResultPart, part, parts, reason};
use crate::results::stored::{InPlace, PartStore, StoredStandIn};
use crate::revision::translation::with_first;
use crate::shelf::LazyShelf;
use ctxfs_core::model::Limits;
use ctxfs_engine::Replace;

// Maximum number of stand-ins with an excerpt per result. Further stand-ins only name the artifact.
const MAX_SUMMARIES: usize = 2;
// Maximum length in bytes of a text kept in memory to be shown whole.
const SHOWN: u64 = 64 * 1024;
// A result with more parts is stored as a whole.
const MAX_PARTS: usize = 16;
// Maximum size in bytes of a result that passes unchanged if it cannot be stored.
const PASSES: usize = 1 << 20;

/// The answer to a call, with the positions of the id and the result in the message. If the call
/// `is_refused`, the answer is a JSON-RPC error, and `result` is the position of that error. The
/// members in `first`, each followed by a comma, are inserted at the start of a result that the
/// gateway builds or that is not in memory. If `keeps_structure` is true, `structuredContent` stays
/// in the result.
pub(crate) struct Answered {
    pub(crate) call: ToolCall,
    pub(crate) client_id: String,
    pub(crate) id: Range<usize>,
    pub(crate) result: Range<usize>,
    pub(crate) is_refused: bool,
    pub(crate) message: Message,
    pub(crate) max_binary: u64,
    pub(crate) keeps_structure: bool,
    pub(crate) first: &'static str,
}

impl Answered {
    pub(crate) fn is_error(&self) -> bool {
        if self.is_refused {
            return true;
        }
        let result = raw(&self.message, self.result.clone()).and_then(RawObject::parse);
        result.and_then(|result| result.get("isError")).is_some_and(|failed| failed.get() == "true")
    }
}

/// Returns true if a result may be over the limits, or if `mirror` is set, because results within
/// the limits are then stored too. Does not access the disk, because most results are within the
/// limits.
pub(crate) fn may_be_long(shelf: &LazyShelf, answered: &Answered) -> bool {
    let limits = shelf.source.limits(&answered.call.tool_name());
    if limits.mirror {
        return true;
    }
    let most = limits.max_inline_bytes.min(limits.max_inline_chars).min(answered.max_binary);
    limits.may_replace()
        && (answered.message.has_holes() || answered.message.text().len() as u64 > most)
}

/// Returns the result for the client, with long parts stored and replaced by stand-ins. Blocks on
/// the disk, so call it from a blocking thread.
pub(crate) fn treat(shelf: &LazyShelf, answered: Answered) -> Outgoing {
    let limits = shelf.source.limits(&answered.call.tool_name());
    let rules = ResultRules {
        limits,
        max_binary: answered.max_binary,
        is_refused: answered.is_refused,
        keeps_structure: answered.keeps_structure,
        first: answered.first,
    };
    let Answered { call, client_id, id, result, message, first, .. } = answered;
    let mut edits = match edits(shelf, &call, &message, &result, &rules) {
        Ok(edits) => edits,
        Err(why) if message.has_holes() => {
            let text = format!("The result is too long, and it cannot be stored: {why}");
            let failed = with_first(first, &failed_call(&text));
            return json_rpc::answer(&client_id, &failed).into();
        }
        Err(why) => note(&message, &result, &why).into_iter().collect(),
    };
    edits.push(Edit::new(id, client_id));
    message.edited(edits)
}

/// Like [`treat`], for a result of the gateway itself. `max_inline_chars` does not apply, because
/// `tool_output` without a language model returns a text that may be as long as a stand-in.
pub(crate) fn treat_own(shelf: &LazyShelf, call: &ToolCall, result: String) -> String {
    let limits =
        Limits { max_inline_chars: Limits::NEVER, ..shelf.source.limits(&call.tool_name()) };
    let rules = ResultRules {
        limits,
        max_binary: u64::MAX,
        is_refused: false,
        keeps_structure: false,
        first: "",
    };
    let whole = 0..result.len();
    let message = Message::whole(result);
    let edits = match edits(shelf, call, &message, &whole, &rules) {
        Ok(edits) => edits,
        Err(why) => note(&message, &whole, &why).into_iter().collect(),
    };
    message.with(edits)
}

fn note(message: &Message, result: &Range<usize>, why: &str) -> Option<Edit> {
    let content = RawObject::parse(raw(message, result.clone())?)?.get("content")?;
    let range = message.range_of(content);
    let text = format!("[ctxfs] The result that follows is not stored: {why}");
    let comma = if elements(content)?.is_empty() { "" } else { "," };
    let block = format!("{}{comma}", text_block(&text));
    Some(Edit::insert(range.start + 1, block))
}

struct ResultRules {
    limits: Limits,
    max_binary: u64,
    is_refused: bool,
    keeps_structure: bool,
    first: &'static str,
}

fn edits(
    shelf: &LazyShelf,
    call: &ToolCall,
    message: &Message,
    range: &Range<usize>,
    rules: &ResultRules,
) -> Result<Vec<Edit>, String> {
    let Some(result) = raw(message, range.clone()) else { return Ok(Vec::new()) };
    let ResultRules { limits, max_binary, is_refused, keeps_structure, first } = rules;
    if message.hole(result).is_some() {
        let keeper = PartStore::new(shelf, call, false)?;
        let kept =
            keeper.keep(&ResultPart::json(message, result), InPlace::StandIn(Replace::Always))?;
        let edit = kept.map(|kept| {
            let content = format!("{}{}", text_block(&kept.text), link(call, &kept));
            let with = with_first(first, &format!("{{\"content\":[{content}]}}"));
            Edit::new(range.clone(), with)
        });
        return Ok(edit.into_iter().collect());
    }
    let Some(object) = RawObject::parse(result) else { return Ok(Vec::new()) };
    let failed = *is_refused || object.get("isError").is_some_and(|failed| failed.get() == "true");
    let parts = if *is_refused { reason(message, &object) } else { parts(message, &object) };
    let parts = parts.map_err(|error| error.to_string())?;
    let plan = ReplacementPlan::new(&parts, limits, *max_binary);
    if plan.is_empty() && !limits.mirror {
        return Ok(Vec::new());
    }
    let keeper = PartStore::new(shelf, call, failed)?;
    if limits.mirror {
        for part in parts.iter().filter(|part| part.kind == PartKind::Text) {
            keeper.keep(part, InPlace::Name(Replace::Always))?;
        }
        return Ok(Vec::new());
    }
    let (mut edits, mut staying) = (Vec::new(), Vec::new());
    for (number, part) in plan.stored.iter().enumerate() {
        let is_named = number >= MAX_SUMMARIES || limits.are_kept_by(part.bytes, part.chars);
        let in_place = if is_named { InPlace::Name } else { InPlace::StandIn };
        let in_place = in_place(Replace::TooLong);
        match keeper.keep_unless_stand_in(part, limits, in_place)? {
            Some(kept) => edits.extend(replaced(message, part, call, &kept)),
            None => staying.push(part),
        }
    }
    let stays = |part: &ResultPart<'_>| {
        edits.is_empty() && limits.are_kept_by(part.bytes, part.chars)
            || staying.iter().any(|text| text.says_same(part))
    };
    if let Some(structured) = plan.structured.filter(|part| !stays(part)) {
        let keeps = *keeps_structure;
        edits.extend(structured_edits(message, &object, structured, &plan, &keeper, keeps)?);
    }
    Ok(edits)
}

/// The parts of a result to replace. The largest texts are replaced until the remaining texts are
/// within the limits. Binary content is replaced if it is over its limit. Structured content is
/// replaced if any text is replaced, or if it is too long itself.
struct ReplacementPlan<'a> {
    stored: Vec<&'a ResultPart<'a>>,
    structured: Option<&'a ResultPart<'a>>,
    is_alone: bool,
}

impl<'a> ReplacementPlan<'a> {
    fn new(parts: &'a [ResultPart<'a>], limits: &Limits, max_binary: u64) -> Self {
        let is = |kind: PartKind| move |part: &&ResultPart<'_>| part.kind == kind;
        let mut texts: Vec<&ResultPart<'_>> = parts.iter().filter(is(PartKind::Text)).collect();
        let is_alone = texts.is_empty();
        texts.sort_by_key(|part| part.bytes);
        let (mut bytes, mut chars) = (0u64, 0u64);
        for text in &texts {
            bytes = bytes.saturating_add(text.bytes);
            chars = chars.saturating_add(text.chars);
        }
        let mut stored = Vec::new();
        while !limits.are_kept_by(bytes, chars)
            && let Some(text) = texts.pop()
        {
            bytes = bytes.saturating_sub(text.bytes);
            chars = chars.saturating_sub(text.chars);
            stored.push(text);
        }
        let structured = parts.iter().find(is(PartKind::Structured));
        let structured = structured
            .filter(|part| !stored.is_empty() || !limits.are_kept_by(part.bytes, part.chars));
        let large =
            |part: &&ResultPart<'_>| part.kind == PartKind::Binary && part.bytes > max_binary;
        stored.extend(parts.iter().filter(large));
        Self { stored, structured, is_alone }
    }

    fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.structured.is_none()
    }
}

fn replaced(
    message: &Message,
    part: &ResultPart<'_>,
    call: &ToolCall,
    kept: &StoredStandIn,
) -> Vec<Edit> {
    let link = link(call, kept);
    let block = message.range_of(part.block);
    if part.is_plain_text {
        let text = message.range_of(part.value);
        let after = Edit::insert(block.end, link);
        return vec![Edit::new(text, quoted(&kept.text)), after];
    }
    let with = format!("{}{link}", text_block(&kept.text));
    vec![Edit::new(block, with)]
}

fn structured_edits(
    message: &Message,
    object: &RawObject<'_>,
    structured: &ResultPart<'_>,
    plan: &ReplacementPlan<'_>,
    keeper: &PartStore<'_>,
    keeps: bool,
) -> Result<Vec<Edit>, String> {
    let Some(member) = ObjectMember::of(message, object, "structuredContent") else {
        return Ok(Vec::new());
    };
    let removed = (!keeps).then(|| member.removed());
    if plan.stored.iter().any(|part| part.says_same(structured)) {
        return Ok(removed.into_iter().collect());
    }
    let kept = if plan.is_alone {
        keeper.keep(structured, InPlace::StandIn(Replace::TooLong))?
    } else {
        keeper.keep_beside(structured)?
    };
    // Beside a text, structured content that stays needs no stand-in.
    let Some(kept) = kept.filter(|_| plan.is_alone || !keeps) else { return Ok(Vec::new()) };
    let blocks = format!("{}{}", text_block(&kept.text), link(keeper.call, &kept));
    let Some(content) = object.get("content") else {
        let content = format!("\"content\":[{blocks}]");
        let edit = if keeps { member.preceded(&content) } else { member.replaced(&content) };
        return Ok(vec![edit]);
    };
    let range = message.range_of(content);
    let added = match elements(content) {
        Some(others) => {
            let comma = if others.is_empty() { "" } else { "," };
            Edit::insert(range.end - 1, format!("{comma}{blocks}"))
        }
        None => Edit::new(range, format!("[{blocks}]")),
    };
    Ok(removed.into_iter().chain([added]).collect())
}

fn text_block(text: &str) -> String {
    let block = rmcp::model::ContentBlock::text(text);
    serde_json::to_string(&block).unwrap_or_default()
}

fn link(call: &ToolCall, kept: &StoredStandIn) -> String {
    if !call.links {
        return String::new();
    }
    let resource = rmcp::model::Resource::new(uri(&kept.uri), kept.name.clone())
        .with_size(kept.size)
        .with_mime_type(kept.mime.clone())
        .with_description(kept.hint.clone());
    let block = rmcp::model::ContentBlock::resource_link(resource);
    serde_json::to_string(&block).map(|block| format!(",{block}")).unwrap_or_default()
}

pub(crate) struct StoredResult {
    pub(crate) failed: bool,
    pub(crate) parts: Vec<StoredPart>,
}

/// A stored part of a result. `reference` is `None` if the text is already a stand-in. `text` is
/// set if it is short enough to be shown whole. `hint` is one line.
#[derive(Debug)]
pub(crate) struct StoredPart {
    pub(crate) reference: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) summary: String,
    pub(crate) hint: String,
}

/// Stores all parts of a result, regardless of length. A result with more than [`MAX_PARTS`] parts
/// is stored as a whole. Blocks on the disk.
pub(crate) fn store_all(
    shelf: &LazyShelf,
    call: &ToolCall,
    message: &Message,
    range: &Range<usize>,
) -> Result<StoredResult, String> {
    let result = raw(message, range.clone()).ok_or("it is no JSON")?;
    let object = RawObject::parse(result).unwrap_or_default();
    let failed = object.get("isError").is_some_and(|failed| failed.get() == "true");
    let keeper = PartStore::new(shelf, call, failed)?;
    let blocks = object.get("content").and_then(elements).unwrap_or_default();
    if blocks.len() > MAX_PARTS || message.hole(result).is_some() {
        let part = kept(shelf, call, &keeper, &ResultPart::json(message, result))?;
        return Ok(StoredResult { failed, parts: vec![part] });
    }
    let all = all_parts(message, &object, &blocks).map_err(|error| error.to_string())?;
    let texts: Vec<&ResultPart<'_>> =
        all.iter().filter(|part| part.kind == PartKind::Text).collect();
    let is_named = |part: &&ResultPart<'_>| {
        part.kind != PartKind::Structured || !texts.iter().any(|text| text.says_same(part))
    };
    let parts = all.iter().filter(is_named).map(|part| kept(shelf, call, &keeper, part));
    Ok(StoredResult { failed, parts: parts.collect::<Result<_, _>>()? })
}

fn all_parts<'a>(
    message: &'a Message,
    result: &RawObject<'a>,
    blocks: &[&'a RawValue],
) -> io::Result<Vec<ResultPart<'a>>> {
    let known =
        |block| Ok(part(message, block)?.unwrap_or_else(|| ResultPart::json(message, block)));
    let mut parts: Vec<ResultPart<'a>> =
        blocks.iter().copied().map(known).collect::<io::Result<_>>()?;
    parts.extend(result.get("structuredContent").map(|value| ResultPart::json(message, value)));
    Ok(parts)
}

fn kept(
    shelf: &LazyShelf,
    call: &ToolCall,
    keeper: &PartStore<'_>,
    part: &ResultPart<'_>,
) -> Result<StoredPart, String> {
    let text = part.json_or_text().filter(|_| part.bytes <= SHOWN).map(str::to_owned);
    let limits = shelf.source.limits(&call.tool_name());
    let in_place = InPlace::StandIn(Replace::Always);
    let Some(kept) = keeper.keep_unless_stand_in(part, &limits, in_place)? else {
        let summary = text.clone().unwrap_or_default();
        return Ok(StoredPart { reference: None, text, summary, hint: String::new() });
    };
    let StoredStandIn { text: summary, uri, hint, .. } = kept;
    Ok(StoredPart { reference: Some(uri), text, summary, hint })
}

pub(crate) fn texts(message: &Message, range: &Range<usize>) -> Option<String> {
    if range.len() > PASSES {
        return None;
    }
    let object = RawObject::parse(raw(message, range.clone())?)?;
    let all = parts(message, &object).ok()?;
    let texts: Vec<&str> = all.iter().filter_map(ResultPart::json_or_text).collect();
    Some(texts.join("\n"))
}

#[cfg(test)]
mod tests;

//! Results of tools: what is long goes to the store, and a stand-in takes its place.

mod parts;
mod stored;
mod whole;

use std::ops::Range;

use crate::bridge::with_first;
use crate::envelope;
use crate::envelope::raw;
use crate::member::Member;
use crate::message::{Edit, Message, Outgoing};
use crate::pending::Call;
use crate::raw_object::{RawObject, elements, quoted};
use crate::relay::failure;
use crate::results::parts::{Part, PartKind, parts};
pub(super) use crate::results::stored::keep_broken;
use crate::results::stored::{InPlace, Keeper, Kept};
pub(super) use crate::results::whole::{StoredPart, store_all, texts};
use crate::shelf::LazyShelf;
use ctxfs_core::model::Limits;
use ctxfs_engine::Replace;

/// The most stand-ins of a result that show something of what they stand for. Others name it.
const MOST_SUMMARIES: usize = 2;

/// The result of a call, which has come.
pub(super) struct Answered {
    pub(super) call: Call,
    pub(super) client_id: String,
    /// The places of id and result in the message.
    pub(super) id: Range<usize>,
    pub(super) result: Range<usize>,
    pub(super) message: Message,
    /// The most bytes of binary content that passes.
    pub(super) max_binary: u64,
    /// The members, each with a comma, that a result gets in front which is not in memory or is
    /// made here.
    pub(super) first: &'static str,
}

impl Answered {
    /// Returns true if the tool says that it failed.
    pub(super) fn is_error(&self) -> bool {
        let result = raw(&self.message, self.result.clone()).and_then(RawObject::parse);
        result.and_then(|result| result.get("isError")).is_some_and(|said| said.get() == "true")
    }
}

/// Returns false if a result is surely within the limits. Asks neither the disk nor the store.
pub(super) fn may_be_long(shelf: &LazyShelf, answered: &Answered) -> bool {
    let limits = shelf.limits(&answered.call.tool_name());
    if limits.mirror {
        return true;
    }
    let most = limits.max_inline_bytes.min(limits.max_inline_chars).min(answered.max_binary);
    limits.may_replace()
        && (answered.message.has_holes() || answered.message.text().len() as u64 > most)
}

/// Returns what the client gets of a result. Waits for the disk.
pub(super) fn treat(shelf: &LazyShelf, answered: Answered) -> Outgoing {
    let Answered { call, client_id, id, result, message, max_binary, first } = answered;
    let limits = shelf.limits(&call.tool_name());
    let rules = Rules { limits, max_binary, first };
    let edits = match edits(shelf, &call, &message, &result, &rules) {
        Ok(edits) => edits,
        Err(why) if message.has_holes() => {
            let text = format!("The result is too long, and it cannot be stored: {why}");
            let failed = with_first(first, &failure(&text));
            return envelope::answer(&client_id, &failed).into();
        }
        Err(why) => note(&message, &result, &why).into_iter().collect(),
    };
    let id = Edit { range: id, with: client_id.into_bytes() };
    let mut edits: Vec<Edit> = edits.into_iter().chain([id]).collect();
    edits.sort_by_key(|edit| edit.range.start);
    message.edited(edits)
}

/// Returns a result of the gateway's own. One over `max_inline_bytes` is stored like that of any tool.
/// Characters do not count: the end of an answer of no model is as long as a stand-in. Waits for the
/// disk.
pub(super) fn treat_own(shelf: &LazyShelf, call: &Call, result: String) -> String {
    let limits = Limits { max_inline_chars: Limits::NEVER, ..shelf.limits(&call.tool_name()) };
    let rules = Rules { limits, max_binary: u64::MAX, first: "" };
    let whole = 0..result.len();
    let message = Message::whole(result);
    let edits = match edits(shelf, call, &message, &whole, &rules) {
        Ok(edits) => edits,
        Err(why) => note(&message, &whole, &why).into_iter().collect(),
    };
    message.with(edits)
}

/// Returns the edit that puts a note before a result that passes although it is long.
fn note(message: &Message, result: &Range<usize>, why: &str) -> Option<Edit> {
    let content = RawObject::parse(raw(message, result.clone())?)?.get("content")?;
    let range = message.range_of(content);
    let text = format!("[ctxfs] The result that follows is not stored: {why}");
    let comma = if elements(content)?.is_empty() { "" } else { "," };
    let block = format!("{}{comma}", text_block(&text));
    Some(Edit { range: range.start + 1..range.start + 1, with: block.into_bytes() })
}

/// What may stay in a result.
struct Rules {
    limits: Limits,
    max_binary: u64,
    /// See [`Answered::first`].
    first: &'static str,
}

/// Stores what is long. Returns the edits that replace it, in the order of their places.
fn edits(
    shelf: &LazyShelf,
    call: &Call,
    message: &Message,
    range: &Range<usize>,
    rules: &Rules,
) -> Result<Vec<Edit>, String> {
    let Some(result) = raw(message, range.clone()) else { return Ok(Vec::new()) };
    let Rules { limits, max_binary, first } = rules;
    if message.hole(result).is_some() {
        let keeper = Keeper::new(shelf, call, false)?;
        let kept = keeper.keep(&Part::json(message, result), InPlace::StandIn(Replace::Always))?;
        let edit = kept.map(|kept| {
            let content = format!("{}{}", text_block(&kept.text), link(call, &kept));
            let with = with_first(first, &format!("{{\"content\":[{content}]}}"));
            Edit { range: range.clone(), with: with.into_bytes() }
        });
        return Ok(edit.into_iter().collect());
    }
    let Some(object) = RawObject::parse(result) else { return Ok(Vec::new()) };
    let failed = object.get("isError").is_some_and(|failed| failed.get() == "true");
    let parts = parts(message, &object).map_err(|error| error.to_string())?;
    let plan = Plan::new(&parts, limits, *max_binary);
    if plan.is_empty() && !limits.mirror {
        return Ok(Vec::new());
    }
    let keeper = Keeper::new(shelf, call, failed)?;
    if limits.mirror {
        for part in parts.iter().filter(|part| part.kind == PartKind::Text) {
            keeper.keep(part, InPlace::Name(Replace::Always))?;
        }
        return Ok(Vec::new());
    }
    let (mut edits, mut staying) = (Vec::new(), Vec::new());
    for (number, part) in plan.stored.iter().enumerate() {
        let is_named = number >= MOST_SUMMARIES || limits.are_kept_by(part.bytes, part.chars);
        let in_place = if is_named { InPlace::Name } else { InPlace::StandIn };
        let in_place = in_place(Replace::TooLong);
        match keeper.keep_unless_stand_in(part, limits, in_place)? {
            Some(kept) => edits.extend(replaced(message, part, call, &kept)),
            None => staying.push(part),
        }
    }
    let stays = |part: &Part<'_>| {
        edits.is_empty() && limits.are_kept_by(part.bytes, part.chars)
            || staying.iter().any(|text| text.says_same(part))
    };
    if let Some(structured) = plan.structured.filter(|part| !stays(part)) {
        edits.extend(structured_edits(message, &object, structured, &plan, call, &keeper)?);
    }
    edits.sort_by_key(|edit| edit.range.start);
    Ok(edits)
}

/// The parts of a result that do not stay in it.
struct Plan<'a> {
    stored: Vec<&'a Part<'a>>,
    structured: Option<&'a Part<'a>>,
    /// True if the result has no text beside its structured content.
    is_alone: bool,
}

impl<'a> Plan<'a> {
    /// The largest texts go first, until the rest is within the limits.
    fn new(parts: &'a [Part<'a>], limits: &Limits, max_binary: u64) -> Self {
        let is = |kind: PartKind| move |part: &&Part<'_>| part.kind == kind;
        let mut texts: Vec<&Part<'_>> = parts.iter().filter(is(PartKind::Text)).collect();
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
        let large = |part: &&Part<'_>| part.kind == PartKind::Binary && part.bytes > max_binary;
        stored.extend(parts.iter().filter(large));
        Self { stored, structured, is_alone }
    }

    fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.structured.is_none()
    }
}

/// Returns the edits that put a stand-in where a part of `content` is.
fn replaced(message: &Message, part: &Part<'_>, call: &Call, kept: &Kept) -> Vec<Edit> {
    let link = link(call, kept);
    let block = message.range_of(part.block);
    if part.is_plain_text {
        let text = message.range_of(part.value);
        let after = Edit { range: block.end..block.end, with: link.into_bytes() };
        return vec![Edit { range: text, with: quoted(&kept.text).into_bytes() }, after];
    }
    let with = format!("{}{link}", text_block(&kept.text));
    vec![Edit { range: block, with: with.into_bytes() }]
}

/// Returns the edits that take the structured content out, and link to it.
fn structured_edits(
    message: &Message,
    object: &RawObject<'_>,
    structured: &Part<'_>,
    plan: &Plan<'_>,
    call: &Call,
    keeper: &Keeper<'_>,
) -> Result<Vec<Edit>, String> {
    let Some(member) = Member::of(message, object, "structuredContent") else {
        return Ok(Vec::new());
    };
    if plan.stored.iter().any(|part| part.says_same(structured)) {
        return Ok(vec![member.removed()]);
    }
    let kept = if plan.is_alone {
        keeper.keep(structured, InPlace::StandIn(Replace::TooLong))?
    } else {
        keeper.keep_beside(structured)?
    };
    let Some(kept) = kept else { return Ok(Vec::new()) };
    let blocks = format!("{}{}", text_block(&kept.text), link(call, &kept));
    let Some(content) = object.get("content") else {
        return Ok(vec![member.replaced(&format!("\"content\":[{blocks}]"))]);
    };
    let range = message.range_of(content);
    let added = match elements(content) {
        Some(others) => {
            let comma = if others.is_empty() { "" } else { "," };
            let with = format!("{comma}{blocks}");
            Edit { range: range.end - 1..range.end - 1, with: with.into_bytes() }
        }
        None => Edit { range, with: format!("[{blocks}]").into_bytes() },
    };
    Ok(vec![member.removed(), added])
}

fn text_block(text: &str) -> String {
    let block = rmcp::model::ContentBlock::text(text);
    serde_json::to_string(&block).unwrap_or_default()
}

/// Returns the block that links to an artifact, after a comma.
fn link(call: &Call, kept: &Kept) -> String {
    if !call.links {
        return String::new();
    }
    let resource = rmcp::model::Resource::new(kept.uri.clone(), kept.name.clone())
        .with_size(kept.size)
        .with_mime_type(kept.mime.clone())
        .with_description(kept.hint.clone());
    let block = rmcp::model::ContentBlock::resource_link(resource);
    serde_json::to_string(&block).map(|block| format!(",{block}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! Stateless translation of messages between revisions.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::json_rpc::{Envelope, error_in, raw};
use crate::message::{self, Edit, Message, ObjectMember, Outgoing};
use crate::raw_object::{self, RawObject, elements, quoted, text};
use crate::revision::{InputKind, InputKinds, REQUEST_KEYS};

// Members that 2026-07-28 adds to every result, or to results that clients may cache.
const COMPLETE: &str = r#""resultType":"complete","#;
const TTL: &str = r#""ttlMs":0,"#;
const SCOPE: &str = r#""cacheScope":"private","#;
const NEW: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const COMPLETE_AND_KEPT: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#;
// Error code for a missing resource, before and since 2026-07-28.
const OLD_NOT_FOUND: &str = "-32002";
const NOT_FOUND: &str = "-32602";
// Error code of 2025-11-25 for a call that requires the user to visit pages.
const URL_REQUIRED: &str = "-32042";
const MAX_INPUTS: usize = 32;
// Lists that can change, by their names in capabilities and in subscription filters.
pub(crate) const LISTS: [(&str, &str); 3] = [
    ("tools", "toolsListChanged"),
    ("prompts", "promptsListChanged"),
    ("resources", "resourcesListChanged"),
];
/// Limits of a subscription: number of resources, and length of a URI in bytes. The client is told
/// which resources were accepted.
pub(crate) const MAX_URIS: usize = 1000;
pub(crate) const MAX_URI_BYTES: usize = 8 << 10;

/// The error for request parameters to which `_meta` cannot be added: they are not an object, or
/// they are so long that they are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPlace;

pub(crate) fn with_meta(
    envelope: &Envelope,
    message: &Message,
    members: &str,
) -> Result<Edit, NoPlace> {
    let at = |at: usize, with: String| Ok(Edit::insert(at, with));
    let Some(params) = envelope.params(message) else {
        let end = message.text().rfind('}').ok_or(NoPlace)?;
        return at(end, format!(r#","params":{{"_meta":{{{members}}}}}"#));
    };
    let range = message.range_of(params);
    if params.get() == "null" {
        let with = format!(r#"{{"_meta":{{{members}}}}}"#);
        return Ok(Edit::new(range, with));
    }
    if message.hole(params).is_some() {
        return Err(NoPlace);
    }
    let object = RawObject::parse(params).ok_or(NoPlace)?;
    let Some(meta) = object.get("_meta") else {
        let comma = if object.0.is_empty() { "" } else { "," };
        return at(range.start + 1, format!(r#""_meta":{{{members}}}{comma}"#));
    };
    let others = RawObject::parse(meta).filter(|_| message.hole(meta).is_none());
    let comma = if others.ok_or(NoPlace)?.0.is_empty() { "" } else { "," };
    at(message.range_of(meta).start + 1, format!("{members}{comma}"))
}

/// Returns the edit that removes the 2026-07-28 `_meta` keys from a request. With these keys, an
/// older server over HTTP would refuse the request.
pub(crate) fn without_meta(envelope: &Envelope, message: &Message) -> Option<Edit> {
    let meta = RawObject::parse(envelope.params(message)?)?.get("_meta")?;
    let members = RawObject::parse(meta)?;
    let is_new = |key: &str| REQUEST_KEYS.contains(&key);
    if message.hole(meta).is_some() || !members.0.iter().any(|(key, _)| is_new(key)) {
        return None;
    }
    let kept = members.0.iter().filter(|(key, _)| !is_new(key));
    let with = raw_object::object(kept.map(|(key, value)| raw_object::member(key, value)));
    Some(Edit::new(message.range_of(meta), with))
}

/// Returns the members to insert at the start of a result for a client of revision 2026-07-28.
/// `is_kept` is true if clients may cache the result.
pub(crate) fn modern_members(is_kept: bool) -> &'static str {
    if is_kept { COMPLETE_AND_KEPT } else { COMPLETE }
}

pub(crate) fn with_first(first: &str, result: &str) -> String {
    match result.strip_prefix('{') {
        Some(rest) if rest.starts_with('}') => format!("{{{}{rest}", first.trim_end_matches(',')),
        Some(rest) => format!("{{{first}{rest}"),
        None => result.to_owned(),
    }
}

pub(crate) fn is_kept(method: &str) -> bool {
    method.ends_with("/list") || matches!(method, "resources/read" | "server/discover")
}

/// Returns the edits that turn the result of a server of an older revision into a result for a
/// client of revision 2026-07-28. Returns no edits for a result that is not in memory.
pub(crate) fn completed(message: &Message, result: &Range<usize>, is_kept: bool) -> Vec<Edit> {
    let Some(json) = raw(message, result.clone()) else { return Vec::new() };
    if message.hole(json).is_some() {
        return Vec::new();
    }
    let Some(object) = RawObject::parse(json) else {
        let with = format!("{{{}}}", modern_members(is_kept).trim_end_matches(','));
        return vec![Edit::new(result.clone(), with)];
    };
    let missing = |name: &str, members: &'static str| {
        if object.get(name).is_none() { members } else { "" }
    };
    let mut members = missing("resultType", COMPLETE).to_owned();
    if is_kept {
        members.push_str(missing("ttlMs", TTL));
        members.push_str(missing("cacheScope", SCOPE));
    }
    let members = if object.0.is_empty() { members.trim_end_matches(',') } else { &members };
    let at = result.start + 1;
    vec![Edit::insert(at, members)]
}

pub(crate) fn modern_error(message: &Message) -> Vec<Edit> {
    let found = || {
        let code = error_in(message)?.get("code").filter(|code| code.get() == OLD_NOT_FOUND)?;
        Some(Edit::new(message.range_of(code), NOT_FOUND))
    };
    found().into_iter().collect()
}

/// Converts an error into a result that asks for input. The error is from a server of a revision
/// before 2026-07-28, and says that the user must visit pages. Returns `None` for other errors.
pub(crate) fn pages(message: &Message) -> Option<String> {
    let error = error_in(message)?;
    error.get("code").filter(|code| code.get() == URL_REQUIRED)?;
    let pages = elements(RawObject::parse(error.get("data")?)?.get("elicitations")?)?;
    let request = |(number, params): (usize, &&RawValue)| {
        format!(r#""page{number}":{{"method":"elicitation/create","params":{params}}}"#)
    };
    let requests: Vec<String> = pages.iter().enumerate().map(request).collect();
    if requests.is_empty() {
        return None;
    }
    let requests = requests.join(",");
    Some(format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}}}}"#))
}

pub(crate) fn without_new(message: &Message, result: &Range<usize>) -> Vec<Edit> {
    let object = raw(message, result.clone()).and_then(RawObject::parse).unwrap_or_default();
    message::without_members(message, &object, result.start, &NEW)
}

/// Returns the edits that turn the result of a call from a server of revision 2026-07-28 into a
/// result for a client of an older revision. Structured content that is not an object is removed.
/// If `links` is false, each `resource_link` becomes text.
pub(crate) fn older(message: &Message, result: &Range<usize>, links: bool) -> Vec<Edit> {
    let Some(object) = raw(message, result.clone()).and_then(RawObject::parse) else {
        return Vec::new();
    };
    let content = object.get("content");
    let is_long = content.is_some_and(|content| message.hole(content).is_some());
    let blocks = content.filter(|_| !is_long).and_then(elements).unwrap_or_default();
    let mut edits = Vec::new();
    if !links {
        edits.extend(blocks.iter().filter_map(|block| without_link(message, block)));
    }
    edits.extend(structured(message, &object, blocks.is_empty() && !is_long));
    edits
}

fn without_link(message: &Message, block: &RawValue) -> Option<Edit> {
    let link = RawObject::parse(block)?;
    if link.text("type")? != "resource_link" {
        return None;
    }
    let (name, uri) = (link.text("name").unwrap_or_default(), link.text("uri")?);
    let with = text_block(&format!("{name}: {uri}"));
    Some(Edit::new(message.range_of(block), with))
}

/// Returns the edits that remove structured content that is not an object, because a client of a
/// revision before 2026-07-28 accepts only objects. If the result has no other content
/// (`is_alone`), the structured content becomes a text.
fn structured(message: &Message, object: &RawObject<'_>, is_alone: bool) -> Vec<Edit> {
    let Some(value) = object.get("structuredContent") else { return Vec::new() };
    let member = ObjectMember::of(message, object, "structuredContent");
    let Some(member) = member.filter(|_| !value.get().starts_with('{')) else { return Vec::new() };
    if message.hole(value).is_some() {
        return Vec::new();
    }
    if !is_alone {
        return vec![member.removed()];
    }
    let blocks = format!("[{}]", text_block(value.get()));
    match object.get("content") {
        Some(content) => {
            let range = message.range_of(content);
            vec![member.removed(), Edit::new(range, blocks)]
        }
        None => vec![member.replaced(&format!("\"content\":{blocks}"))],
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

/// A result of a server of revision 2026-07-28 that asks for input before the call can continue.
/// `state` is returned to the server as written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputRequired {
    pub(crate) requests: Vec<InputRequest>,
    pub(crate) state: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputRequest {
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) params: Option<String>,
}

pub(crate) type InputResponse = (String, String);

pub(crate) fn is_input_required(result: &RawValue) -> bool {
    let kind = RawObject::parse(result).and_then(|result| result.text("resultType"));
    kind.as_deref() == Some("input_required")
}

impl InputRequired {
    /// Reads a result that asks for input. The error text is a predicate whose subject is the
    /// server: `asks for more than 32 things at once`.
    pub(crate) fn of(result: &RawValue, client: InputKinds) -> Result<Self, String> {
        let result = RawObject::parse(result).unwrap_or_default();
        let state = result.get("requestState").filter(|state| state.get().starts_with('"'));
        let requests = match result.get("inputRequests") {
            Some(requests) => {
                RawObject::parse(requests).ok_or("asks in a way that is not known")?
            }
            None => RawObject::default(),
        };
        if requests.0.len() > MAX_INPUTS {
            return Err(format!("asks for more than {MAX_INPUTS} things at once"));
        }
        if requests.0.is_empty() && state.is_none() {
            return Err("asks for input, but not for which".to_owned());
        }
        let each = requests.0.iter();
        let requests = each.map(|(key, request)| InputRequest::of(key, request, client));
        let requests = requests.collect::<Result<_, _>>()?;
        Ok(Self { requests, state: state.map(|state| state.get().to_owned()) })
    }
}

impl InputRequest {
    fn of(key: &str, request: &RawValue, client: InputKinds) -> Result<Self, String> {
        let request = RawObject::parse(request).unwrap_or_default();
        let (method, params) = (request.text("method").unwrap_or_default(), request.get("params"));
        if !InputKind::of(&method, params).is_some_and(|ask| client.has(ask)) {
            return Err(format!("asks for `{method}`, which the client cannot do"));
        }
        let params = params.map(|params| params.get().to_owned());
        Ok(Self { key: key.to_owned(), method: method.into_owned(), params })
    }

    pub(crate) fn request(&self, id: u64) -> String {
        let members = self.with_elicitation_id(id).unwrap_or_else(|| self.members());
        format!(r#"{{"jsonrpc":"2.0","id":{id},{members}}}"#)
    }

    /// Returns the members of a request to visit a page, including the id that revisions before
    /// 2026-07-28 require.
    fn with_elicitation_id(&self, id: u64) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(self.params.as_deref()?).ok()?;
        let params = RawObject::parse(raw)?;
        if InputKind::of(&self.method, Some(raw)) != Some(InputKind::Url)
            || params.get("elicitationId").is_some()
        {
            return None;
        }
        let rest = raw.get().strip_prefix('{')?;
        Some(format!(r#""method":"{}","params":{{"elicitationId":"{id}",{rest}"#, self.method))
    }

    pub(crate) fn members(&self) -> String {
        let params = self.params.as_ref().map(|params| format!(",\"params\":{params}"));
        format!("\"method\":{}{}", quoted(&self.method), params.unwrap_or_default())
    }
}

pub(crate) fn repeated(responses: &[InputResponse], state: Option<&str>) -> String {
    let state = state.map(|state| format!("\"requestState\":{state}"));
    let responses = (!responses.is_empty()).then(|| {
        let each = responses.iter().map(|(key, result)| format!("{}:{result}", quoted(key)));
        format!("\"inputResponses\":{{{}}}", each.collect::<Vec<_>>().join(","))
    });
    responses.into_iter().chain(state).collect::<Vec<_>>().join(",")
}

/// Returns `request` with the id `number` and with `members` appended to its parameters. The
/// parameters must not be empty.
pub(crate) fn with_members(request: &Outgoing, number: u64, members: &str) -> Outgoing {
    let outline = request.outline();
    let mut request = request.clone();
    let Ok(envelope) = Envelope::of(&outline) else { return request };
    let id = envelope.id.map(|range| Edit::new(range, number.to_string()));
    let more = envelope.params.filter(|_| !members.is_empty());
    let more = more.map(|params| Edit::insert(params.end - 1, format!(",{members}")));
    request.edit(id.into_iter().chain(more).collect());
    request
}

/// The notifications that a 2026-07-28 subscription requests. `lists` is in the order of [`LISTS`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SubscriptionFilter {
    pub(crate) lists: [bool; LISTS.len()],
    pub(crate) uris: BTreeSet<String>,
}

impl SubscriptionFilter {
    pub(crate) fn of(params: Option<&RawValue>) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        let asked = params.get("notifications").and_then(RawObject::parse).unwrap_or_default();
        let is_asked =
            |(_, name): (&str, &str)| asked.get(name).is_some_and(|value| value.get() == "true");
        let uris = asked.get("resourceSubscriptions").and_then(elements).unwrap_or_default();
        let uris = uris.into_iter().filter_map(text).filter(|uri| uri.len() <= MAX_URI_BYTES);
        let uris = uris.map(std::borrow::Cow::into_owned);
        Self { lists: LISTS.map(is_asked), uris: uris.take(MAX_URIS).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.uris.is_empty() && self.lists.iter().all(|is_asked| !is_asked)
    }

    pub(crate) fn has(&self, notification: &str) -> bool {
        place_of(notification).is_some_and(|place| self.lists[place])
    }

    pub(crate) fn json(&self) -> String {
        let lists = LISTS.iter().zip(self.lists).filter(|(_, is_asked)| *is_asked);
        let mut members: Vec<String> =
            lists.map(|((_, name), _)| format!("\"{name}\":true")).collect();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| quoted(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!("{{{}}}", members.join(","))
    }
}

fn place_of(notification: &str) -> Option<usize> {
    let changed = notification.strip_prefix("notifications/")?.strip_suffix("/list_changed")?;
    LISTS.iter().position(|(list, _)| *list == changed)
}

#[cfg(test)]
mod tests;

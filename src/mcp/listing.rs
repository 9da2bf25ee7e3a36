//! What the gateway adds to, and takes out of, the listings and the capabilities of a server.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::bridge::era::Between;
use crate::envelope::raw;
use crate::message::{Edit, Message};
use crate::pending::{ListKind, PendingKind};
use crate::raw_object::{RawObject, elements, quoted};
use crate::relay::{Declared, Relay};
use crate::upstream::Upstream;
use crate::{context, own, raw_object};

/// Returns the edits of a `result` of a server.
pub(super) fn edits(
    relay: &Relay,
    from: &Upstream,
    kind: &PendingKind,
    own_rows: Vec<String>,
    message: &Message,
    result: Range<usize>,
) -> Vec<Edit> {
    let Some(object) = raw(message, result.clone()).and_then(RawObject::parse) else {
        return Vec::new();
    };
    if raw(message, result.clone()).is_some_and(|result| message.hole(result).is_some()) {
        return Vec::new();
    }
    let place = Placed { message, result };
    match kind {
        PendingKind::Handshake => handshake(relay, from, &object, &place),
        PendingKind::Listing(kind) => {
            let own = own_rows.into_iter();
            listed(relay, from, *kind, &object, &place, own)
        }
        _ => Vec::new(),
    }
}

/// A result, and the message that it is part of.
struct Placed<'a> {
    message: &'a Message,
    result: Range<usize>,
}

impl Placed<'_> {
    /// Returns the edit that replaces a member.
    fn replace(&self, object: &RawObject<'_>, name: &str, with: String) -> Option<Edit> {
        let range = self.range(object.get(name)?);
        Some(Edit { range, with: with.into_bytes() })
    }

    /// Returns the edit that adds members at the end. They begin with a comma.
    fn add(&self, object: &RawObject<'_>, members: String) -> Edit {
        let members = if object.0.is_empty() { members[1..].to_owned() } else { members };
        let at = self.result.end - 1;
        Edit { range: at..at, with: members.into_bytes() }
    }

    /// Returns where a part of the result stands. It was borrowed from the message.
    fn range(&self, part: &RawValue) -> Range<usize> {
        self.message.range_of(part)
    }
}

fn handshake(
    relay: &Relay,
    from: &Upstream,
    object: &RawObject<'_>,
    place: &Placed<'_>,
) -> Vec<Edit> {
    from.set_handshake(|handshake| handshake.is_done = handshake.initialize.is_some());
    if let Some(revision) = object.text("protocolVersion") {
        relay.set_revision(&revision);
    }
    let capabilities = object.get("capabilities").and_then(RawObject::parse).unwrap_or_default();
    let has = |name: &str| capabilities.get(name).is_some();
    relay.set_declared(Declared { tools: has("tools"), resources: has("resources") });
    if !relay.context_tools {
        return Vec::new();
    }
    let mut more = Vec::new();
    let mut edits = Vec::new();
    let missing = ["tools", "resources"].into_iter().filter(|name| !has(name));
    let members = capabilities.0.iter().map(|(name, value)| raw_object::member(name, value));
    let all = raw_object::object(members.chain(missing.map(|name| raw_object::member(name, "{}"))));
    match place.replace(object, "capabilities", all.clone()) {
        Some(edit) => edits.push(edit),
        None => more.push(format!(",\"capabilities\":{all}")),
    }
    let said = object.text("instructions").unwrap_or_default();
    let separator = if said.is_empty() { "" } else { "\n\n" };
    let told = quoted(&format!("{said}{separator}{}", own::INSTRUCTIONS));
    match place.replace(object, "instructions", told.clone()) {
        Some(edit) => edits.push(edit),
        None => more.push(format!(",\"instructions\":{told}")),
    }
    if !more.is_empty() {
        edits.push(place.add(object, more.concat()));
    }
    edits
}

fn listed(
    relay: &Relay,
    from: &Upstream,
    kind: ListKind,
    object: &RawObject<'_>,
    place: &Placed<'_>,
    own: impl Iterator<Item = String>,
) -> Vec<Edit> {
    let name = kind.member();
    let Some(rows) = object.get(name) else { return Vec::new() };
    if place.message.has_holes_in(&place.range(rows)) {
        return Vec::new();
    }
    let Some(listed) = elements(rows) else { return Vec::new() };
    let row = |row: &&RawValue| match kind {
        ListKind::Tools => tool(relay, from, row).unwrap_or_else(|| row.get().to_owned()),
        _ => row.get().to_owned(),
    };
    let mut all: Vec<String> = listed.iter().map(row).collect();
    if object.next_cursor().is_none() {
        all.extend(own);
    }
    let all = format!("[{}]", all.join(","));
    place.replace(object, name, all).into_iter().collect()
}

/// Returns a tool without its `outputSchema`, if its results may be replaced by stand-ins, which
/// would not fit, and with another name if the gateway has a tool of its name. `None` if it is
/// listed as it is.
fn tool(relay: &Relay, from: &Upstream, row: &RawValue) -> Option<String> {
    let tool = RawObject::parse(row)?;
    let name = tool.text("name")?;
    let limits = relay.shelf.limits(&format!("{}/{name}", from.name));
    let schema = tool.get("outputSchema");
    let goes = schema.is_some_and(|schema| limits.may_replace() || is_foreign(relay, from, schema));
    let is_taken = relay.context_tools && context::is_tool(&name);
    if !goes && !is_taken {
        return None;
    }
    let other = quoted(&from.other_name(&name));
    let member = |(key, value): &(Cow<'_, str>, &RawValue)| match &**key {
        "outputSchema" if goes => None,
        key @ "name" if is_taken => Some(raw_object::member(key, &other)),
        key => Some(raw_object::member(key, value)),
    };
    Some(raw_object::object(tool.0.iter().filter_map(member)))
}

/// Returns true if a client of an older revision would not take a schema: it is of another type than
/// an object.
pub(super) fn is_foreign(relay: &Relay, from: &Upstream, schema: &RawValue) -> bool {
    relay.bridge.between(from.era()) == Some(Between::OldClient)
        && RawObject::parse(schema).and_then(|schema| schema.text("type")).as_deref()
            != Some("object")
}

impl ListKind {
    /// Returns the member of the result that has the rows.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

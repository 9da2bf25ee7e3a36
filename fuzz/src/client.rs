//! Bytes from an MCP client. The first byte selects the gateway: `0` has one server, and `1` is for
//! one of several servers. `2` offers an index of tools, and `3` an index that asks for permission.
//! With `4`, the input is a list of tool names, one per line.
//!
//! The second byte determines the length of the pieces that are read at once.

mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::gateway::{FuzzShelf, Head, is_same_but_for, messages, one_line, pieces};
use ctxfs_core::model::Limits;
use ctxfs_mcp::in_memory::{InMemoryGateway, Sent};
use ctxfs_mcp::permission::{Risk, RuleAuthor, Rules, Verdict};
use ctxfs_mcp::{IndexOptions, OfferMode};

/// Text of another conversation. The gateway must not show it.
const SECRET: &str = "the-other-conversation-3f9a";
/// Content of the output `known` of the conversation.
const KNOWN: &str = "one \"quoted\" line\nERROR: caf\u{e9} \u{1f600}\n{\"a\": 1}\n";

/// Asserts these properties: Each request has one answer, unless it was cancelled. A message that
/// is forwarded to a server differs from the message of the client only in its id. Every sent
/// message is one line of JSON. No message shows an output of another conversation.
pub fn client(data: &[u8]) {
    let [mode, length, stream @ ..] = data else { return };
    let (mode, through) = match mode % 5 {
        0 => (OfferMode::Through, true),
        1 => (OfferMode::Direct, false),
        2 => (index(Verdict::Allow), false),
        3 => (index(Verdict::Ask), false),
        _ => return names::names(stream),
    };
    let shelf = FuzzShelf::new(Limits::default());
    shelf.put("c7", "known.txt", KNOWN);
    shelf.put("c7", "data.json", "{\"items\": [1, 2.50, \"three\"]}\n");
    shelf.put("c8", "secret.txt", SECRET);
    let mut gateway = InMemoryGateway::new(Arc::clone(&shelf) as _, mode);
    let sent = gateway.client_says(&pieces(stream, *length));
    drop(gateway);
    let messages = messages(stream);
    are_answered(&messages, &sent);
    for sent in sent.to_client.iter().chain(&sent.to_server) {
        let sent = one_line(sent);
        assert!(!sent.contains(SECRET) || messages.iter().any(|m| m.contains(SECRET)), "{sent}");
    }
    if through {
        have_passed(&messages, &sent);
    }
}

/// Returns the index mode, with `verdict` for all calls that may do more than read.
fn index(verdict: Verdict) -> OfferMode {
    let mut rules = Rules::default();
    for risk in [Risk::Write, Risk::Execute, Risk::Unknown] {
        let added = rules.add(risk.as_str(), verdict, RuleAuthor::User);
        added.expect("a word for a risk");
    }
    OfferMode::Index(Box::new(IndexOptions {
        rules,
        batch_budget: 4096,
        ..IndexOptions::default()
    }))
}

/// Asserts that each request has its answer.
fn are_answered(messages: &[String], sent: &Sent) {
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages {
        if let Some(head) = Head::of(message).filter(Head::is_request) {
            *asked.entry(head.id().unwrap_or_default()).or_default() += 1;
        }
    }
    let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
    for sent in &sent.to_client {
        if let Some(head) = Head::of(one_line(sent)).filter(|head| head.method.is_none()) {
            *answered.entry(head.id().unwrap_or_default()).or_default() += 1;
        }
    }
    let cancelled: Vec<String> = messages.iter().filter_map(|message| cancelled(message)).collect();
    let has_others = messages.iter().any(|message| !is_known(message));
    for (id, count) in asked {
        let found = answered.get(id).copied().unwrap_or_default();
        let is_cancelled = cancelled.iter().any(|other| other == id);
        // Invalid messages are answered too, perhaps with the same id.
        let is_good = found == count || is_cancelled || found > count && has_others;
        assert!(is_good, "{found} answers to {count} requests {id}: {sent:?}");
    }
}

/// Returns true for a request, a notification, a response, and a batch of them.
fn is_known(message: &str) -> bool {
    let is_known = |head: Head<'_>| head.method.is_some() || head.is_response();
    message.trim_start().starts_with('[') || Head::of(message).is_some_and(is_known)
}

/// Returns the id that a cancellation names.
fn cancelled(message: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let head = Head::of(message)?;
    head.method.filter(|method| method == "notifications/cancelled")?;
    let params: Params<'_> = serde_json::from_str(head.params?.get()).ok()?;
    Some(params.id.get().to_owned())
}

/// Parts of messages that the gateway changes: references, names of tools that the gateway has too,
/// and texts of a newer protocol revision that the server does not support.
const CHANGED: [&str; 4] = ["$ctx", "srv__", "io.modelcontextprotocol/", "server/discover"];

/// Asserts that the server received the messages of the client, with other ids.
fn have_passed(messages: &[String], sent: &Sent) {
    let is_changed = |text: &str| CHANGED.iter().any(|part| text.contains(part));
    if messages.iter().any(|message| is_changed(message)) {
        return;
    }
    for sent in &sent.to_server {
        let sent = one_line(sent);
        let head = Head::of(sent).unwrap_or_else(|| panic!("{sent}"));
        let is_it = |message: &String| match head.id() {
            Some(id) => is_same_but_for(message, sent, id),
            None => {
                message == sent
                    || cancelled(sent).is_some_and(|id| is_same_but_for(message, sent, &id))
            }
        };
        assert!(messages.iter().any(is_it), "{sent}");
    }
}

//! Results of one revision as the other has them.

use std::ops::Range;

use serde_json::value::RawValue;

use crate::envelope::{error_in, raw};
use crate::member;
use crate::member::Member;
use crate::message::{Edit, Message};
use crate::raw_object::{RawObject, elements, quoted};

/// The members that all results have since 2026-07-28, and those that may be kept.
const COMPLETE: &str = r#""resultType":"complete","#;
const TTL: &str = r#""ttlMs":0,"#;
const SCOPE: &str = r#""cacheScope":"private","#;
/// All of them.
const NEW: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const COMPLETE_AND_KEPT: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#;

/// The code for a resource that does not exist, before and since 2026-07-28.
const OLD_NOT_FOUND: &str = "-32002";
const NOT_FOUND: &str = "-32602";
/// The code of 2025-11-25 for a call that needs pages to be visited.
const URL_REQUIRED: &str = "-32042";

/// Returns the members that a result gets in front for a new client. True for `is_kept` if the
/// client may keep it for later.
pub(crate) fn first(is_kept: bool) -> &'static str {
    if is_kept { COMPLETE_AND_KEPT } else { COMPLETE }
}

/// Returns a result, an object, with `first` in front.
pub(crate) fn with_first(first: &str, result: &str) -> String {
    match result.strip_prefix('{') {
        Some(rest) if rest.starts_with('}') => format!("{{{}{rest}", first.trim_end_matches(',')),
        Some(rest) => format!("{{{first}{rest}"),
        None => result.to_owned(),
    }
}

/// Returns true for requests whose results a client may keep.
pub(super) fn is_kept(method: &str) -> bool {
    method.ends_with("/list") || matches!(method, "resources/read" | "server/discover")
}

/// Returns the edits of an old server's result for a new client. A result that is not in memory has
/// none.
pub(super) fn completed(message: &Message, result: &Range<usize>, is_kept: bool) -> Vec<Edit> {
    let Some(json) = raw(message, result.clone()) else { return Vec::new() };
    if message.hole(json).is_some() {
        return Vec::new();
    }
    let Some(object) = RawObject::parse(json) else {
        let with = format!("{{{}}}", first(is_kept).trim_end_matches(',')).into_bytes();
        return vec![Edit { range: result.clone(), with }];
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
    vec![Edit { range: at..at, with: members.as_bytes().to_vec() }]
}

/// Returns the edits of an old server's error for a new client.
pub(super) fn error(message: &Message) -> Vec<Edit> {
    let found = || {
        let code = error_in(message)?.get("code").filter(|code| code.get() == OLD_NOT_FOUND)?;
        Some(Edit { range: message.range_of(code), with: NOT_FOUND.into() })
    };
    found().into_iter().collect()
}

/// Returns the result that asks for what an old server's error says: pages that a person has to visit
/// before the call is made again.
pub(super) fn pages(message: &Message) -> Option<String> {
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

/// Returns the edits that take the members out of a new server's result that no old client knows.
pub(super) fn without_new(message: &Message, result: &Range<usize>) -> Vec<Edit> {
    let object = raw(message, result.clone()).and_then(RawObject::parse).unwrap_or_default();
    member::without(message, &object, result.start, &NEW)
}

/// Returns the edits of a new server's result of a tool for an old client: it loses what that would
/// not take. False for `links` if it does not know the type `resource_link`.
pub(super) fn older(message: &Message, result: &Range<usize>, links: bool) -> Vec<Edit> {
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
    edits.sort_by_key(|edit| edit.range.start);
    edits
}

/// Returns the edit that puts a text in place of a link.
fn without_link(message: &Message, block: &RawValue) -> Option<Edit> {
    let link = RawObject::parse(block)?;
    if link.text("type")? != "resource_link" {
        return None;
    }
    let (name, uri) = (link.text("name").unwrap_or_default(), link.text("uri")?);
    let with = text_block(&format!("{name}: {uri}"));
    Some(Edit { range: message.range_of(block), with: with.into_bytes() })
}

/// Returns the edits that take out structured content that is no object, and put it in a text if
/// there is nothing else.
fn structured(message: &Message, object: &RawObject<'_>, is_alone: bool) -> Vec<Edit> {
    let Some(value) = object.get("structuredContent") else { return Vec::new() };
    let member = Member::of(message, object, "structuredContent");
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
            vec![member.removed(), Edit { range, with: blocks.into_bytes() }]
        }
        None => vec![member.replaced(&format!("\"content\":{blocks}"))],
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::{Envelope, Kind};

    fn changed(result: &str, edits: impl FnOnce(&Message, &Range<usize>) -> Vec<Edit>) -> String {
        let message = Message::whole(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
        let Kind::Response { result: Some(range) } = Envelope::of(&message).unwrap().kind else {
            panic!("no result");
        };
        let edits = edits(&message, &range);
        let text = message.rewritten(edits).text().to_owned();
        text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#)
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap()
            .to_owned()
    }

    #[test]
    fn results_get_what_a_new_client_needs() {
        for (result, is_kept, expected) in [
            (r#"{"n": 1.10}"#, false, r#"{"resultType":"complete","n": 1.10}"#),
            (
                r#"{"n":1}"#,
                true,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","n":1}"#,
            ),
            ("{}", false, r#"{"resultType":"complete"}"#),
            ("{ }", true, r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private" }"#),
            (r#"{"resultType":"task"}"#, false, r#"{"resultType":"task"}"#),
            (
                r#"{"ttlMs":5,"cacheScope":"public"}"#,
                true,
                r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#,
            ),
            (
                r#"{"ttlMs":5}"#,
                true,
                r#"{"resultType":"complete","cacheScope":"private","ttlMs":5}"#,
            ),
            ("null", false, r#"{"resultType":"complete"}"#),
        ] {
            let done = changed(result, |message, range| completed(message, range, is_kept));
            assert_eq!(done, expected, "{result}");
        }
    }

    #[test]
    fn a_missing_resource_has_the_code_of_the_revision() {
        let text = |code: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m"}}}}"#)
        };
        for (code, expected) in [("-32002", "-32602"), ("-32603", "-32603"), ("-320020", "-320020")]
        {
            let message = Message::whole(text(code));
            let edits = error(&message);
            assert_eq!(message.rewritten(edits).text(), text(expected));
        }
    }

    #[test]
    fn pages_to_visit_are_asked_for() {
        let text = |code: &str, data: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m","data":{data}}}}}"#
            )
        };
        let page = r#"{"mode":"url","url":"https://x/","message":"m","elicitationId":"e"}"#;
        for (code, data, expected) in [
            (
                "-32042",
                format!(r#"{{"elicitations":[{page}]}}"#),
                Some(format!(
                    r#"{{"resultType":"input_required","inputRequests":{{"page0":{{"method":"elicitation/create","params":{page}}}}}}}"#
                )),
            ),
            ("-32042", r#"{"elicitations":[]}"#.to_owned(), None),
            ("-32042", "1".to_owned(), None),
            ("-32602", format!(r#"{{"elicitations":[{page}]}}"#), None),
        ] {
            assert_eq!(pages(&Message::whole(text(code, &data))), expected, "{code} {data}");
        }
    }

    #[test]
    fn an_old_client_gets_what_it_takes() {
        let link = r#"{"type":"resource_link","uri":"mem://a","name":"a"}"#;
        let same = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1.10}}"#;
        for (result, links, expected) in [
            (same.to_owned(), false, same.to_owned()),
            (
                r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1],"x":1}"#
                    .into(),
                true,
                r#"{"content":[{"type":"text","text":"[1]"}],"x":1}"#.into(),
            ),
            (
                r#"{"structuredContent":[1.10],"x":1}"#.into(),
                true,
                r#"{"content":[{"type":"text","text":"[1.10]"}],"x":1}"#.into(),
            ),
            (
                r#"{"x":1,"structuredContent":null}"#.into(),
                true,
                r#"{"x":1,"content":[{"type":"text","text":"null"}]}"#.into(),
            ),
            (
                r#"{"content":[],"structuredContent":"y"}"#.into(),
                true,
                r#"{"content":[{"type":"text","text":"\"y\""}]}"#.into(),
            ),
            (format!(r#"{{"content":[{link}]}}"#), true, format!(r#"{{"content":[{link}]}}"#)),
            (
                format!(r#"{{"content":[{link}]}}"#),
                false,
                r#"{"content":[{"type":"text","text":"a: mem://a"}]}"#.into(),
            ),
            ("[]".into(), false, "[]".into()),
        ] {
            let done = changed(&result, |message, range| older(message, range, links));
            assert_eq!(done, expected, "{result}");
        }
    }

    /// Any JSON value, as it may be written.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just(" true".to_owned()),
            Just("-1.10e2".to_owned()),
            any::<String>().prop_map(|text| quoted(&text)),
        ];
        let key = prop_oneof![
            any::<String>(),
            Just("content".to_owned()),
            Just("structuredContent".to_owned()),
            Just("resultType".to_owned()),
            Just("type".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|all| format!("[{}]", all.join(" ,"))),
                prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(|all| {
                    let all = all.iter().map(|(key, value)| format!("{} :{value}", quoted(key)));
                    format!("{{ {} }}", all.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_result_is_it_stays_json(result in json(), is_kept in any::<bool>()) {
            let result = result.trim();
            let done = changed(result, |message, range| completed(message, range, is_kept));
            let done: serde_json::Value = serde_json::from_str(&done).unwrap();
            prop_assert!(!done["resultType"].is_null() || result.contains("resultType"));
            let done = changed(result, |message, range| older(message, range, false));
            let done: serde_json::Value = serde_json::from_str(&done).unwrap();
            let structured = done.get("structuredContent");
            prop_assert!(structured.is_none_or(serde_json::Value::is_object), "{result} {done}");
        }
    }

    #[test]
    fn lists_and_resources_may_be_kept() {
        for (method, expected) in [
            ("tools/list", true),
            ("resources/templates/list", true),
            ("resources/read", true),
            ("server/discover", true),
            ("tools/call", false),
            ("prompts/get", false),
            ("completion/complete", false),
        ] {
            assert_eq!(is_kept(method), expected, "{method}");
        }
    }
}

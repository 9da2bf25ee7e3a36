use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::json_rpc::{Envelope, MessageKind};
use crate::shelf::{GatewayConversation, Shelf};
use ctxfs_core::model::{Component, Root};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::Store;
use ctxfs_view::Form;

const MAX_BINARY: u64 = 1 << 20;

struct TestShelf {
    dir: TempDir,
    id: Component,
    limits: Limits,
}

impl Shelf for TestShelf {
    fn limits(&self, _: &str) -> Limits {
        self.limits.clone()
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn answers_questions(&self) -> bool {
        true
    }

    fn open(&self) -> Result<GatewayConversation, String> {
        let store = Store::open(&self.dir.path().join("store")).unwrap();
        let limits = Arc::new(self.limits.clone());
        let options = EngineOptions {
            limits,
            root: Root::All(Root::REFERENCES.to_owned()),
            ..Default::default()
        };
        let engine = Engine::new(store, options);
        let conversation = engine.store().create_conversation(&self.id).unwrap();
        Ok(GatewayConversation { engine, conversation, mounted: false, form: Form::Summary })
    }
}

fn treated_text(result: &str, limits: Limits) -> (String, Vec<String>) {
    treated_answer(&format!(r#""result":{result}"#), limits, false)
}

fn treated_answer(outcome: &str, limits: Limits, keeps: bool) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("store/context/c7/artifacts/tool");
    let shelf = LazyShelf::new(
        Arc::new(TestShelf { dir, id: Component::new("c7").unwrap(), limits }),
        true,
    );
    let message = Message::whole(format!(r#"{{"jsonrpc":"2.0","id":5,{outcome}}}"#));
    let envelope = Envelope::of(&message).unwrap();
    let error = RawObject::of(message.text()).unwrap().get("error");
    let error = error.map(|error| message.range_of(error));
    let is_refused = error.is_some();
    let call = ToolCall {
        id: "call_1".to_owned(),
        server: "srv".to_owned(),
        tool: "tool".to_owned(),
        arguments: Some("{}".to_owned()),
        started: Instant::now(),
        links: !is_refused,
    };
    let answered = Answered {
        call,
        client_id: "\"a\"".to_owned(),
        result: envelope.result().or(error).unwrap(),
        id: envelope.id.unwrap(),
        is_refused,
        message,
        max_binary: MAX_BINARY,
        keeps_structure: keeps,
        first: "",
    };
    let mut out = Vec::new();
    if may_be_long(&shelf, &answered) {
        treat(&shelf, answered).write_to(&mut out).unwrap();
    } else {
        answered.message.edited(Vec::new()).write_to(&mut out).unwrap();
    }
    let listed = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    (String::from_utf8(out).unwrap(), names)
}

fn treated(result: &Value) -> (Value, Vec<String>) {
    let (text, names) = treated_text(&result.to_string(), Limits::default());
    let message: Value = serde_json::from_str(&text).unwrap();
    (message["result"].clone(), names)
}

fn long(line: &str) -> String {
    line.repeat(9000 / line.len())
}

#[test]
fn what_is_within_the_limits_is_not_one_byte_different() {
    let result = r#"{ "content":[{"type":"text","text":"\ud83d 1"}],"x": 1.10, "y":12345678901234567890123,
        "structuredContent":{"a":[1.0,2e3 ]}, "pad":"PAD"}"#;
    let padded = result.replace("PAD", &"p".repeat(5000));
    for result in [result, &padded] {
        let (text, names) = treated_text(result, Limits::default());
        assert!(text.contains(result), "{text}");
        assert_eq!(names, <[String; 0]>::default());
    }
}

#[test]
fn a_long_text_is_stored_and_the_rest_stays() {
    let note = json!({"audience": ["user"]});
    let (result, names) = treated(&json!({
        "_meta": {"k": 1},
        "content": [
            {"type": "text", "text": "small"},
            {"type": "text", "text": long("one line\n"), "annotations": note},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ],
        "isError": false,
    }));
    assert_eq!(names, ["call_1.txt"]);
    assert_eq!(result["content"][0], json!({"type": "text", "text": "small"}));
    let stand_in = result["content"][1]["text"].as_str().unwrap();
    assert!(stand_in.starts_with("[ctxfs] ") && stand_in.contains("context_read"), "{stand_in}");
    assert_eq!(result["content"][1]["annotations"], note);
    let link = &result["content"][2];
    assert_eq!((&link["type"], &link["size"]), (&json!("resource_link"), &json!(9000)));
    assert_eq!(link["uri"], "ctx://c7/artifacts/tool/call_1.txt");
    assert_eq!(result["content"][3]["type"], "image");
    assert_eq!((&result["_meta"]["k"], &result["isError"]), (&json!(1), &json!(false)));
}

#[test]
fn the_largest_texts_go_first() {
    let block = |size: usize| json!({"type": "text", "text": "x".repeat(size)});
    let (result, names) = treated(&json!({"content": [block(6000), block(6500), block(900)]}));
    assert_eq!(names, ["call_1.txt"]);
    assert_eq!(result["content"][0], block(6000));
    let stand_in = result["content"][1]["text"].as_str().unwrap();
    assert!(stand_in.len() < 300 && stand_in.contains("6,500 bytes"), "{stand_in}");
    assert_eq!(result["content"][3], block(900));
}

#[test]
fn structured_content_that_the_text_says_is_left_out() {
    let data = json!({"rows": vec![json!({"a": "\u{e9}\n", "b": 1.5}); 500]});
    for text in [data.to_string(), serde_json::to_string_pretty(&data).unwrap()] {
        for flipped in [false, true] {
            let content = json!([{"type": "text", "text": text}]);
            let result = if flipped {
                format!(r#"{{"structuredContent":{data},"content":{content}}}"#)
            } else {
                format!(r#"{{"content":{content} ,"structuredContent":{data} }}"#)
            };
            let (out, names) = treated_text(&result, Limits::default());
            let out: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(names, ["call_1.json"]);
            assert!(out["result"].get("structuredContent").is_none());
            assert_eq!(out["result"]["content"].as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn other_structured_content_is_stored_too() {
    let data = json!({"rows": vec![1; 5000]});
    let (result, names) = treated(
        &json!({"content": [{"type": "text", "text": "5000 rows"}], "structuredContent": data}),
    );
    assert_eq!(names, ["call_1.structured.json"]);
    assert_eq!(result["content"][0]["text"], "5000 rows");
    assert_eq!(result["content"][2]["name"], "call_1.structured.json");
    assert!(result.get("structuredContent").is_none());
    let long_text = json!([{"type": "text", "text": long("text\n")}]);
    let (result, names) = treated(&json!({"content": long_text, "structuredContent": {"n": 1}}));
    assert_eq!(names, ["call_1.structured.json", "call_1.txt"]);
    assert!(result.get("structuredContent").is_none());
    for result in [
        json!({"structuredContent": data}),
        json!({"a": 1, "structuredContent": data}),
        json!({"structuredContent": data, "z": 1}),
        json!({"content": [], "structuredContent": data}),
    ] {
        let (result, names) = treated(&result);
        assert_eq!(names, ["call_1.json"]);
        assert!(
            result["content"][0]["text"].as_str().unwrap().contains("{rows: [int]}"),
            "{result}"
        );
        assert_eq!(result["content"][1]["type"], "resource_link");
        assert!(result.get("structuredContent").is_none());
    }
}

#[test]
fn structured_content_stays_for_scripts() {
    let kept = |result: &Value| {
        let outcome = format!(r#""result":{result}"#);
        let (text, names) = treated_answer(&outcome, Limits::default(), true);
        let message: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(message["result"]["structuredContent"], result["structuredContent"]);
        (message["result"].clone(), names)
    };
    let data = json!({"rows": vec![json!({"a": "\u{e9}\n", "b": 1.5}); 500]});
    let same = json!([{"type": "text", "text": data.to_string()}]);
    let (result, names) = kept(&json!({"content": same, "structuredContent": data}));
    assert_eq!(names, ["call_1.json"]);
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("[ctxfs] "), "{result}");
    let short = json!([{"type": "text", "text": "500 rows"}]);
    let (result, names) = kept(&json!({"content": short, "structuredContent": data}));
    assert_eq!((&result["content"], &*names), (&short, &["call_1.structured.json".to_owned()][..]));
    for result in [
        json!({"structuredContent": data}),
        json!({"a": 1, "structuredContent": data, "z": 2}),
        json!({"content": [], "structuredContent": data}),
    ] {
        let (result, names) = kept(&result);
        assert_eq!(names, ["call_1.json"]);
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with("[ctxfs] "), "{result}");
        assert_eq!(result["content"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn the_reason_of_an_error_is_stored() {
    let reason = long("at line\n") + "ERROR: the reason";
    let error = json!({"code": -32042, "message": reason, "data": {"n": 1.5}});
    let outcome = format!(r#""error":{error}"#);
    let (text, names) = treated_answer(&outcome, Limits::default(), true);
    let message: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&message["id"], &*names), (&json!("a"), &["call_1.txt".to_owned()][..]));
    let error = &message["error"];
    assert_eq!((&error["code"], &error["data"]), (&json!(-32042), &json!({"n": 1.5})));
    let reason = error["message"].as_str().unwrap();
    assert!(reason.starts_with("[ctxfs] ") && reason.contains("ERROR: the reason"), "{reason}");
    let short = r#""error":{"code":1,"message":"no", "data":1.50}"#;
    let (text, names) = treated_answer(short, Limits::default(), true);
    assert!(text.contains(short) && names.is_empty(), "{text}");
}

#[test]
fn embedded_texts_and_errors_are_stored() {
    let resource = json!({"uri": "file:///x", "mimeType": "text/x-log", "text": long("log\n")});
    let (result, names) =
        treated(&json!({"content": [{"type": "resource", "resource": resource}]}));
    assert_eq!(names, ["call_1.txt"]);
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(result["content"][1]["mimeType"], "text/x-log");
    let text = long("at line\n") + "ERROR: the reason";
    let (result, _) =
        treated(&json!({"content": [{"type": "text", "text": text}], "isError": true}));
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("ERROR: the reason"));
}

#[test]
fn a_stand_in_is_not_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let id = Component::new("c7").unwrap();
    // The limit is smaller than the stand-in itself.
    let limits = Limits { max_inline_chars: 1000, ..Limits::default() };
    let shelf = TestShelf { dir, id, limits };
    let lazy = LazyShelf::new(Arc::new(shelf), true);
    let of = |text: &str, call: &str| {
        let result = json!({"content": [{"type": "text", "text": text}]});
        let message = Message::whole(format!(r#"{{"jsonrpc":"2.0","id":5,"result":{result}}}"#));
        let envelope = Envelope::of(&message).unwrap();
        let MessageKind::Response { result: Some(result) } = envelope.kind else { panic!() };
        let call = ToolCall {
            id: call.to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: None,
            started: Instant::now(),
            links: false,
        };
        let id = envelope.id.unwrap();
        let answered = Answered {
            call,
            client_id: "1".to_owned(),
            id,
            result,
            is_refused: false,
            message,
            max_binary: MAX_BINARY,
            keeps_structure: true,
            first: "",
        };
        let mut out = Vec::new();
        treat(&lazy, answered).write_to(&mut out).unwrap();
        let message: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(message["result"]["content"].as_array().unwrap().len(), 1);
        message["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let stand_in = of(&"a line of some length\nand another\n".repeat(300), "a");
    assert!(stand_in.contains("ctx://c7/artifacts/tool/a.txt"));
    let longer = format!("{stand_in}{}", "\n".repeat(3000));
    assert_eq!(of(&longer, "b"), longer);
}

/// A result passes unchanged if a stand-in would save little.
#[test]
fn a_text_whose_stand_in_would_not_pay_stays() {
    let line = |n: usize| format!("{n} {}\n", "lorem ipsum dolor sit amet ".repeat(n % 7));
    let text = |chars: usize| (1..999).map(line).collect::<String>()[..chars].to_owned();
    let blocks = |texts: &[String]| -> Vec<Value> {
        texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
    };
    let one = json!({"content": blocks(&[text(8100)]), "structuredContent": {"n": 1}});
    let (result, names) = treated(&one);
    let is_whole = result == one;
    assert!(is_whole || result["content"][0]["text"].as_str().unwrap().len() <= 5400, "{result}");
    assert!(names.contains(&"call_1.txt".to_owned()));
    // Naming a short block takes as much space as the block itself.
    let many = json!({"content": blocks(&(0..100).map(|_| text(100)).collect::<Vec<_>>())});
    assert_eq!(treated(&many).0, many);
    let (result, _) = treated(&json!({"content": blocks(&[text(10_000)])}));
    assert!(result["content"][0]["text"].as_str().unwrap().len() <= 6144 + 80);
    // Structured content that repeats the text is kept or removed together with the text.
    let data =
        json!({"rows": (0..900).map(|n| json!({"id": n * 7919 % 1000})).collect::<Vec<_>>()});
    let same = json!({"content": blocks(&[data.to_string()]), "structuredContent": data});
    let (result, _) = treated(&same);
    let is_whole = result["content"][0]["text"].as_str() == Some(&*data.to_string());
    assert_eq!(result.get("structuredContent").is_some(), is_whole, "{result}");
}

fn any_block() -> impl Strategy<Value = (Value, Option<String>)> {
    // Long enough that any stand-in is shorter.
    let long = "[a-z\u{e9}\n\"]{60,200}".prop_map(|text| text.repeat(200));
    let text = prop_oneof!["[a-z\u{e9}\n\"]{0,9}", long];
    let with_text = (text, any::<bool>()).prop_map(|(text, plain)| {
        let block = if plain {
            json!({"annotations": {"priority": 1.5}, "type": "text", "text": text})
        } else {
            json!({"type": "resource", "resource": {"uri": "x:y", "text": text}})
        };
        (block, Some(text))
    });
    let other = prop_oneof![
        Just(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
        Just(json!({"type": "resource_link", "uri": "x:y", "name": "n"})),
        Just(json!({"type": "text"})),
        Just(json!({"type": "text", "text": 7})),
        Just(json!(["no block"])),
    ];
    prop_oneof![3 => with_text, 1 => other.prop_map(|block| (block, None))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_a_result_is_the_rest_of_it_stays(
        blocks in prop::collection::vec(any_block(), 0..5),
        // Within the limits, or long enough that any stand-in is shorter.
        structured in prop::option::of(("[a-z]{20,30}", prop_oneof![Just(1), Just(2000)])),
        order in Just(vec!["content", "structuredContent", "_meta", "isError"]).prop_shuffle(),
        spaces in "[ \n\t]{0,2}",
    ) {
        let content: Vec<&Value> = blocks.iter().map(|(block, _)| block).collect();
        let structured = structured.map(|(text, times)| json!({"said": text.repeat(times)}));
        let members: Vec<String> = order.iter().filter_map(|name| {
            let value = match *name {
                "content" => json!(content),
                "structuredContent" => structured.clone()?,
                "_meta" => json!({"n": 1}),
                _ => json!(true),
            };
            Some(format!("\"{name}\"{spaces}:{spaces}{value}{spaces}"))
        }).collect();
        let limits = Limits { max_inline_chars: 50, ..Limits::default() };
        let (out, stored) = treated_text(&format!("{{{}}}", members.join(",")), limits);
        let out: Value = serde_json::from_str(&out).unwrap();
        let out = &out["result"];
        prop_assert_eq!(&out["_meta"], &json!({"n": 1}));
        prop_assert_eq!(&out["isError"], &json!(true));
        let shown = out["content"].as_array().unwrap();
        let ours = |block: &&Value| block["uri"].as_str().is_some_and(|uri| uri.starts_with("ctx:"));
        prop_assert_eq!(shown.iter().filter(ours).count(), stored.len());
        for (block, _) in blocks.iter().filter(|(_, text)| text.is_none()) {
            prop_assert!(shown.contains(block), "{} lost", block);
        }
        let left: usize = blocks.iter().filter(|(block, _)| shown.contains(block))
            .filter_map(|(_, text)| Some(text.as_ref()?.chars().count())).sum();
        prop_assert!(left <= 50);
        if let Some(structured) = structured {
            let stays = out.get("structuredContent") == Some(&structured);
            prop_assert!(stays != stored.iter().any(|name| name.contains(".json")), "{}", out);
        }
    }
}

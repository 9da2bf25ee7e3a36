//! Tests of calls in the text of a message, with their outputs.

use super::*;

/// Returns the text of a call in the form that hosts write.
fn call(id: &str, response: &Value) -> String {
    let call = json!({ "name": "sh", "arguments": { "a": "<b>" }, "id": id, "response": response });
    format!("<function_call>{call}</function_call>")
}

fn assistant(content: &Value) -> Value {
    json!({ "role": "assistant", "content": content })
}

/// Returns the text of a call whose output has been stored.
fn kept_call(id: &str, response: &Value, path: &str) -> String {
    let path = json!(format!("/ctx/c7/artifacts/tool/{path}"));
    call(id, response).replace(
        &format!("\"response\":{response}"),
        &format!("\"response\":{response},\"fullOutputPath\":{path}"),
    )
}

#[test]
fn a_long_response_becomes_the_artifact_of_its_call() {
    let fixture = Fixture::new();
    let output = "line \u{e9} \"q\" \\ \u{1f600}\n".repeat(50);
    let text = format!("Before \u{e9}\n{} after", call("call_1", &json!(output)));
    fixture.append(&assistant(&json!(text)));
    let kept = fixture.messages().pop().unwrap();
    let wanted = format!(
        "Before \u{e9}\n{} after",
        kept_call("call_1", &json!("line \u{e9} \"q"), "call_1.txt")
    );
    assert_eq!(kept, assistant(&json!(wanted)));
    assert_eq!(fixture.output("call_1.txt"), output);
    let path = RelPath::new("artifacts/tool/call_1.txt").unwrap();
    let record = fixture.conversation.record(&path).unwrap().unwrap();
    assert_eq!(record.provenance.tool.as_deref(), Some("sh"));

    fixture.append(&kept);
    assert_eq!(fixture.messages().pop().unwrap(), kept, "it is short now");
    fixture.append(&assistant(&json!(text)));
    assert_eq!(fixture.messages().pop().unwrap(), kept, "the output is there");
    assert_eq!(fixture.outputs(), ["call_1.txt"]);
}

/// Hosts escape characters in different ways.
#[test]
fn everything_else_stays_byte_for_byte() {
    let fixture = Fixture::new();
    let long = "x".repeat(200);
    let line = |response: &str| {
        let [less, more] = ["\\u003c", "\\u003E"];
        format!(
            "{{ \"role\": \"assistant\",\"n\":1.50, \"content\" : \"\\u00e9\\/ \\ud83d \\ud83d\\ude00 \
             {less}function_call{more}\\n{{ \\\"name\\\" : \\\"sh\\\",\\t\\\"id\\\":\\\"c\\\",\
             \\\"response\\\"\\u003a {response} , \\\"x\\\":[1.0] }} \\n{less}/function_call> \\ude00 \
             end\", \"y\":[ ]}}\n"
        )
    };
    let write = |line: String| {
        fixture.write(&mut UnfinishedLine::default(), line.as_bytes()).unwrap();
        fixture.text().split_inclusive('\n').next_back().unwrap().to_owned()
    };
    let kept = write(line(&format!("\\\"{long}\\\"")));
    // The blank before the value is replaced too, as in a tool's message.
    let path = "\\\"fullOutputPath\\\":\\\"/ctx/c7/artifacts/tool/c.txt\\\"";
    assert_eq!(kept, line(&format!("\\\"xxxxxxxxxx\\\",{path}")));
    assert_eq!(fixture.output("c.txt"), long);
    let short = line("\\\"short\\\"");
    assert_eq!(write(short.clone()), short);
}

#[test]
fn several_calls_in_one_message() {
    let fixture = Fixture::new();
    let outputs = ["1 ", "2 ", "3 "].map(|text| json!(text.repeat(100)));
    let short = json!("short");
    let text = format!(
        "a{}b{}{}c{}d",
        call("c1", &outputs[0]),
        call("c2", &short),
        call("c3", &outputs[1]),
        call("c3", &outputs[2])
    );
    let preview = |number: u32| json!(format!("{number} ").repeat(5));
    let wanted = format!(
        "a{}b{}{}c{}d",
        kept_call("c1", &preview(1), "c1.txt"),
        call("c2", &short),
        kept_call("c3", &preview(2), "c3.txt"),
        kept_call("c3", &preview(3), "c3-2.txt")
    );
    let parts = |text: &str| {
        json!([1, "x", { "type": "text", "text": text }, { "type": "image", "text": 5 }, [],
            { "type": "text", "text": "y" }, { "text": text }])
    };
    for (content, wanted) in [(json!(text), json!(wanted)), (parts(&text), parts(&wanted))] {
        fixture.append(&assistant(&content));
        assert_eq!(fixture.messages().pop().unwrap(), assistant(&wanted));
    }
    assert_eq!(fixture.outputs(), ["c1.txt", "c3-2.txt", "c3.txt"]);
    assert_eq!(json!(fixture.output("c3-2.txt")), outputs[2]);
}

#[test]
fn a_response_of_any_kind() {
    let fixture = Fixture::new();
    let object = json!({ "rows": vec![json!({ "a": "</function_call>" }); 20] });
    let list = json!(vec![1.5; 100]);
    fixture.append(&assistant(&json!(call("c1", &object) + &call("c2", &list))));
    let content = fixture.messages().pop().unwrap()["content"].as_str().unwrap().to_owned();
    let calls: Vec<Value> = content
        .split("<function_call>")
        .skip(1)
        .map(|call| serde_json::from_str(call.strip_suffix("</function_call>").unwrap()).unwrap())
        .collect();
    assert_eq!(calls[0]["response"], "{\"rows\":[{");
    assert_eq!(calls[0]["fullOutputPath"], "/ctx/c7/artifacts/tool/c1.json");
    assert_eq!(calls[1]["response"], json!([{ "type": "text", "text": "[1.5,1.5,1" }]));
    for (name, value) in [("c1.json", object), ("c2.json", list)] {
        assert_eq!(serde_json::from_str::<Value>(&fixture.output(name)).unwrap(), value);
    }
    for short in [json!(null), json!(true), json!(-1.5e30), json!([]), json!({})] {
        let message = assistant(&json!(call("c3", &short)));
        fixture.append(&message);
        assert_eq!(fixture.messages().pop().unwrap(), message);
    }
}

#[test]
fn what_is_no_call_stays_as_it_is() {
    let fixture = Fixture::new();
    let long = "x".repeat(1000);
    let good = call("c1", &json!(long));
    let inner = good.strip_prefix("<function_call>").unwrap();
    for content in [
        json!(long),
        json!(inner),
        json!(good.replace("</function_call>", "")),
        json!(good.replace("</function_call>", "</function_calls>")),
        json!(good.replace("</function_call>", ", </function_call>")),
        json!(good.replace("<function_call>", "<function_call >")),
        json!(good.replace("<function_call>", "<function_call>[")),
        json!(good.replace("\"arguments\"", "arguments")),
        json!(good.replace("\"response\"", "\"result\"")),
        json!(good.replace("\"name\"", "\"response\"")),
        json!(good.replace(&long, &format!("{long}\n"))),
        json!(format!("<function_call>\"{long}\"</function_call>")),
        json!(format!("<function_call>{}", "[".repeat(5000))),
        json!(good.replace("\"c1\"", &format!("\"{}\"", "c".repeat(100_000)))),
        json!(good.replace("\"sh\"", "\"never\"")),
        json!([good]),
        json!({ "text": good }),
        json!(null),
    ] {
        let message = assistant(&content);
        fixture.append(&message);
        assert_eq!(fixture.messages().pop().unwrap(), message, "{content:.200}");
    }
    for role in ["user", "system", "developer", "function"] {
        let message = json!({ "role": role, "content": good });
        fixture.append(&message);
        assert_eq!(fixture.messages().pop().unwrap(), message);
    }
    assert!(fixture.outputs().is_empty());
}

#[test]
fn a_call_after_what_is_none_is_found() {
    let fixture = Fixture::new();
    let output = json!("see <function_call>{} or </function_call> ".repeat(10));
    let good = call("c1", &output);
    for before in
        ["<function_call>", "<function_call>{\"response\":", "</function_call>", "\u{e9}<"]
    {
        fixture.append(&assistant(&json!(format!("{before}{good}"))));
        let kept = fixture.messages().pop().unwrap();
        let wanted = format!("{before}{}", kept_call("c1", &json!("see <funct"), "c1.txt"));
        assert_eq!(kept["content"], wanted);
    }
    assert_eq!(json!(fixture.output("c1.txt")), output);
}

#[test]
fn what_refers_to_something_stored_stays() {
    let fixture = Fixture::new();
    fixture.append(&result("call_1", &"x".repeat(1000)));
    let long = json!("y".repeat(1000));
    let refers = |path: &str| {
        let call = call("call_2", &long);
        call.replacen('{', &format!("{{\"fullOutputPath\":\"{path}\","), 1)
    };
    let message = assistant(&json!(refers("/any/c7/artifacts/tool/call_1.txt")));
    fixture.append(&message);
    assert_eq!(fixture.messages().pop().unwrap(), message);
    let stand_in = format!("ctx://c7/artifacts/tool/call_1.txt{}", " ".repeat(99));
    let message = assistant(&json!(call("call_3", &json!(stand_in))));
    fixture.append(&message);
    assert_eq!(fixture.messages().pop().unwrap(), message);
    assert_eq!(fixture.outputs(), ["call_1.txt"]);

    fixture.append(&assistant(&json!(refers("/elsewhere/call_2.txt"))));
    let kept = fixture.messages().pop().unwrap()["content"].as_str().unwrap().to_owned();
    let wanted = refers("/ctx/c7/artifacts/tool/call_2.txt");
    let wanted = wanted.replace(&long.to_string(), &json!("y".repeat(10)).to_string());
    assert_eq!(kept, wanted);
}

#[test]
fn a_response_without_a_call_is_named_after_its_message_or_its_bytes() {
    let fixture = Fixture::new();
    let bare = format!("<function_call>{}</function_call>", json!({ "response": "x".repeat(500) }));
    let mut message = assistant(&json!(bare));
    fixture.append(&message);
    message["id"] = "m1".into();
    fixture.append(&message);
    let names = fixture.outputs();
    assert!(names.len() == 2 && names[0] == "m1.txt" && names[1].starts_with("message-"));
}

#[test]
fn a_response_for_which_there_is_no_room_refuses_the_message() {
    let fixture = Fixture { room: 500, ..Fixture::new() };
    let message = assistant(&json!(call("c1", &json!("x".repeat(501)))));
    let line = format!("{message}\n");
    let error = fixture.write(&mut UnfinishedLine::default(), line.as_bytes()).unwrap_err();
    assert_eq!(error.raw_os_error(), libc::ENOSPC);
    assert!(fixture.text().is_empty());
}

#[test]
fn long_texts_go_through_a_file() {
    let fixture = Fixture::new();
    let output = "0123456789abcd\u{e9}\n".repeat(3 * HELD / 17);
    let around = "\u{20ac}<".repeat(HELD / 4);
    let calls = call("c1", &json!(output)) + &around + &call("c2", &json!("x".repeat(101)));
    let message = assistant(&json!(format!("{around}{calls}{around}")));
    let mut unfinished = UnfinishedLine::default();
    for piece in format!("{message}\n").as_bytes().chunks(100_000) {
        fixture.write(&mut unfinished, piece).unwrap();
    }
    assert!(fixture.output("c1.txt") == output);
    let content = fixture.messages().pop().unwrap()["content"].as_str().unwrap().to_owned();
    let calls = kept_call("c1", &json!("0123456789"), "c1.txt")
        + &around
        + &kept_call("c2", &json!("xxxxxxxxxx"), "c2.txt");
    assert!(content == format!("{around}{calls}{around}"));
}

/// Tests texts that consist only of opening tags.
#[test]
fn many_tags_are_no_work_without_end() {
    let fixture = Fixture::new();
    let began = std::time::Instant::now();
    for text in [
        "<function_call>",
        "<function_call>{\"a\":\"",
        "<function_call>[",
        "<function_call>{}</function_call>",
    ] {
        let message = assistant(&json!(text.repeat(100_000)));
        fixture.append(&message);
    }
    assert_eq!(fixture.messages().len(), 4);
    assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", began.elapsed());
}

use super::*;

fn detect(bytes: &[u8]) -> Json {
    let mut detector = JsonDetector::default();
    detector.push(bytes, 0, 0, None);
    detector.finish(bytes.len() as u64, bytes.split(|byte| *byte == b'\n').count() as u64).0
}

fn shape(text: &str) -> String {
    match detect(text.as_bytes()) {
        Json::Document { shape, .. } | Json::Lines { shape, .. } => shape,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn shapes() {
    let cases = [
        ("{}", "{}"),
        ("[]", "[]"),
        ("\"text\"", "str"),
        ("[1, 2, 3]", "[int]"),
        ("[1, \"a\", null]", "[int|str|null]"),
        ("[1, 2.5]", "[float]"),
        ("[[1], [2]]", "[[int]]"),
        (
            "{\"a b\": 1, \"\": true, \"9\": 1, \"_x\": {}}",
            "{\"a b\": int, \"\": bool, \"9\": int, _x: {}}",
        ),
        ("[{\"a\": 1, \"b\": 2}, {\"b\": 3}]", "[2 of {a?: int, b: int}]"),
        ("{\"a\": [{\"t\": [{\"x\": 1}]}, {\"t\": []}]}", "{a: [2 of {t: [{x: int}]}]}"),
        ("{\"a\":1}\n\n{\"a\":\"x\"}\n", "2 lines of {a: int|str}"),
        ("[[[[[[[[[[[[1]]]]]]]]]]]]", "[[[[[[[[[[[...]]]]]]]]]]]"),
    ];
    for (text, expected) in cases {
        assert_eq!(shape(text), expected, "{text}");
    }
}

#[test]
fn the_shape_of_a_search_result() {
    let item = |index: usize| {
        let body = "x".repeat(if index == 7 { 17_800 } else { 10 });
        format!(
            "{{\"id\":\"{index}\",\"title\":\"t\",\"labels\":[\"a\",\"b\"],\"body\":\"{body}\"}}"
        )
    };
    let items: Vec<String> = (0..1240).map(item).collect();
    let text = format!("{{\"total\":1240,\"items\":[{}],\"next\":null}}", items.join(","));
    let expected = "{total: int, items: [1240 of {id: str, title: str, labels: [str], \
                    body: str up to 18 kB}], next: null}";
    assert_eq!(shape(&text), expected);
}

#[test]
fn examples_exist() {
    let example = |text: &str| match detect(text.as_bytes()) {
        Json::Document { example, .. } => example,
        other => panic!("{text}: {other:?}"),
    };
    let cases = [
        (r#"{"total": 2, "ids": [1], "items": [{"a": 1}], "more": [{}]}"#, Some(".items[0]")),
        (r#"{"data": {"list": [{"a": 1}, {}]}, "x": 1}"#, Some(".data.list[0]")),
        (r#"{"deep": {"list": [{}]}, "list": [{"a": 1}]}"#, Some(".list[0]")),
        (r#"{"few": [{"a": 1}], "many": [{"a": 1}, {"a": 2}]}"#, Some(".many[0]")),
        (r#"[{"a": 1}]"#, Some(".[0]")),
        ("[[1], 2]", Some(".[0]")),
        ("[1, 2]", Some("-c .[:20]")),
        (r#"{"items": [], "z": 0}"#, Some("-c keys[:20]")),
        (r#"{"a b": {"c/d": [{}]}}"#, Some(".\"a b\".\"c/d\"[0]")),
        (r#"{"q\"": 1, "plain": 2}"#, Some("-c keys[:20]")),
        (r#"{"by": {"a-1": {"v": 1}, "b-2": {"v": 2}}}"#, Some("-c .by|keys[:20]")),
        ("{}", None),
        ("[]", None),
        ("\"text\"", None),
    ];
    for (text, expected) in cases {
        assert_eq!(example(text).as_deref(), expected, "{text}");
    }
}

/// Returns the path, the counts and the lines of the records of each field that indicates errors,
/// and the filter.
fn trouble(text: &str) -> (Vec<String>, String) {
    let mut detector = JsonDetector::default();
    detector.push(text.as_bytes(), 0, 0, None);
    let (json, trouble) = detector.finish(text.len() as u64, 0);
    let told = |trouble: &Trouble| {
        let counts: Vec<String> =
            trouble.counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let at: Vec<String> =
            trouble.records.iter().map(|record| record.offset.to_string()).collect();
        format!("{} {} of {} at {}", trouble.path, counts.join(" "), trouble.of, at.join(" "))
    };
    let (Json::Document { example, .. } | Json::Lines { example, .. }) = json else {
        panic!("{text}");
    };
    (trouble.iter().map(told).collect(), example.unwrap_or_default())
}

#[test]
fn fields_that_tell_of_trouble_are_counted() {
    let cases = [
        (
            r#"[{"f":"a","severity":"LOW"},{"f":"b","severity":"CRITICAL"},{"severity":"odd"}]"#,
            ".[].severity 1 CRITICAL 1 LOW of 3 at 28",
            r#"-c -m10 .[]|select(.severity=="CRITICAL")|{f,severity}"#,
        ),
        (
            r#"{"runs":[{"file":"a","results":[{"level":"warning","message":{"text":"t"}}]}]}"#,
            ".runs[].results[].level 1 warning of 1 at ",
            r#"-c -m10 .runs[]|{file}+(.results[]?|select(.level=="warning")|{level,text:.message.text})"#,
        ),
        (
            "{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"error\",\"msg\":\"b\",\"host\":\"h\"}\n",
            ".level 1 error of 2 at 27",
            r#"-c -m10 select(.level=="error")|{host,msg}"#,
        ),
        (
            r#"[{"path":"/a","status":200},{"path":"/b","status":503},{"path":"/c","status":404}]"#,
            ".[].status 1 5xx 1 4xx of 3 at 28",
            "-c -m10 .[]|select((.status|numbers)>=500)|{path,status}",
        ),
        (
            r#"{"by":{"a/b":{"errors":0,"id":1},"c/d":{"errors":2,"id":3}}}"#,
            ".by[].errors 1 over 0 of 2 at 39",
            "-c -m10 .by[]|select((.errors|numbers)>0)|{id,errors}",
        ),
        (
            r#"{"by":{"a":{"via":["x"]},"b/c":{"via":[{"level":"high","title":"t"}]}}}"#,
            ".by[].via[].level 1 high of 1 at 39",
            r#"-c -m10 .by?[]?.via?[]?|objects|select(.level=="high")|{level,title}"#,
        ),
        (
            r#"[{"message":{"level":"error","message":"m","spans":[{"file_name":"f"}]},"reason":"r"}]"#,
            ".[].message.level 1 error of 1 at 1",
            r#"-c -m10 .[]|select(.message.level?=="error")|{file_name:.message.spans[0].file_name,message:.message.message,reason}"#,
        ),
        (
            r#"[{"name":"x","ok":true},{"name":"y","ok":false}]"#,
            ".[].ok 1 false of 2 at 24",
            "-c -m10 .[]|select(.ok==false)|{name,ok}",
        ),
    ];
    for (text, told, filter) in cases {
        assert_eq!(trouble(text), (vec![told.to_owned()], filter.to_owned()), "{text}");
    }
}

#[test]
fn values_without_trouble_are_not_reported() {
    let texts = [
        r#"{"status": "failed", "errors": 3}"#,
        r#"[{"status": "passed", "errors": 0, "ok": true, "exit_code": 0}]"#,
        r#"[{"severity": "low"}, {"severity": "LOW"}]"#,
        r#"[{"status": 502}, {"status": 40012}]"#,
        r#"[{"severity": 2}, {"severity": 1}]"#,
        r#"[{"level": 50}, {"level": 3}]"#,
        r#"[{"status": "a password that is long: failed"}]"#,
    ];
    for text in texts {
        assert_eq!(trouble(text).0, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn one_record_of_each_kind_is_kept() {
    let record = |n: usize| {
        let rule = if n % 50 == 7 { "rare" } else { "often" };
        format!("{{\"severity\":\"error\",\"rule\":\"{rule}-{}\",\"line\":{n}}}", n % 3)
    };
    let records: Vec<String> = (0..1000).map(record).collect();
    let text = format!("[\n{}]", records.join(",\n"));
    let mut detector = JsonDetector::default();
    detector.push(text.as_bytes(), 0, 0, None);
    let found = detector.finish(text.len() as u64, 1001).1;
    let lines: Vec<(u64, u64)> =
        found[0].records.iter().map(|record| (record.line, record.times)).collect();
    assert_eq!(found[0].counts, [("error".to_owned(), 1000)]);
    assert_eq!(lines, [(2, 327), (3, 326), (4, 327), (9, 7), (59, 7), (109, 6)]);
    for record in &found[0].records {
        assert!(text[usize::try_from(record.offset).unwrap()..].starts_with("{\"severity\""));
    }
}

#[test]
fn any_number_of_fields_and_words_takes_bounded_memory() {
    let record = |n: usize| {
        format!("\"k{n}\":{{\"status\":\"failed\",\"level\":\"error\",\"message\":\"{n}\"}}")
    };
    let records: Vec<String> = (0..5000).map(record).collect();
    let mut detector = JsonDetector::default();
    detector.push(format!("{{{}}}", records.join(",")).as_bytes(), 0, 0, None);
    let found = detector.finish(1, 1).1;
    assert_eq!(found[0].path, ".[].status");
    assert!(found[0].least || found[0].of == 5000, "{found:?}");
    assert!(found.iter().all(|field| field.records.len() <= 16));
}

#[test]
fn an_object_with_many_keys_is_a_map() {
    let pairs: Vec<String> =
        (0..5000).map(|index| format!("\"k{index}\":{{\"v\":{index}}}")).collect();
    assert_eq!(shape(&format!("{{{}}}", pairs.join(","))), "{5000 keys of {v: int}}");
}

#[test]
fn shapes_are_bounded() {
    let key =
        |index: usize| format!("\"a_rather_long_key_number_{index}\": {{\"x\": [{{\"y\": 1}}]}}");
    let keys: Vec<String> = (0..60).map(key).collect();
    let found = shape(&format!("{{{}}}", keys.join(",")));
    assert!(found.chars().count() <= 400, "{found}");
    assert!(found.ends_with(", ...}"), "{found}");
}

#[test]
fn text_is_not_broken_json() {
    let cases = [
        "",
        " \n",
        "42",
        "null",
        "plain",
        "[INFO] starting",
        "[2026-01-01] x",
        "[12] done",
        "{not json}",
        "[]x",
        "{\"a\": 1} trailing",
        "\"quoted\" words",
        "\"open",
        "{{ template }}",
        "[                                                                            ] x",
        "\"a\"\n\"b\"\n",
    ];
    for text in cases {
        assert_eq!(detect(text.as_bytes()), Json::No, "{text}");
    }
}

#[test]
fn broken_json_has_a_position() {
    let good =
        "{\"name\": \"a value long enough to tell\",\n \"other\": [1, 2, 3, 4, 5, 6, 7, 8], ";
    let cases = [
        (format!("{good}oops}}"), good.len() as u64, 2),
        (good.to_owned(), good.len() as u64, 2),
        ("[1, 2".to_owned(), 5, 1),
        ("{\"a".to_owned(), 3, 1),
        (format!("{good}\"k\": 1}}\nDone."), good.len() as u64 + 8, 3),
    ];
    for (text, offset, line) in cases {
        assert_eq!(detect(text.as_bytes()), Json::Broken { offset, line }, "{text}");
    }
}

/// Returns the kind of a text, and what it has that is not in RFC 8259, for every cut of the stream.
fn loose(text: &str) -> (JsonKind, LooseJson) {
    let mut found = Vec::new();
    for step in 1..=text.len() {
        let mut detector = JsonDetector::<Shape>::default();
        for (index, part) in text.as_bytes().chunks(step).enumerate() {
            detector.push(part, (index * step) as u64, 0, None);
        }
        found.push((detector.kind(text.len() as u64, 1), detector.loose()));
    }
    assert!(found.iter().all(|other| *other == found[0]), "{text}");
    found[0]
}

#[test]
fn what_is_not_in_the_standard_is_told() {
    let none = LooseJson::default();
    let (document, two) = (JsonKind::Document, JsonKind::Lines { documents: 2 });
    let joined = LooseJson { joined: true, ..none };
    let comments = LooseJson { comments: true, ..none };
    let commas = LooseJson { commas: true, ..none };
    let cases = [
        ("[1]", document, none),
        ("{\"a\":1}\n{\"a\":2}\n", two, none),
        ("\u{feff}[1]", document, LooseJson { mark: true, ..none }),
        ("[NaN,-Infinity,Infinity,-1]", document, LooseJson { numbers: true, ..none }),
        ("[1,2,]", document, commas),
        ("{\"a\":[[],],}", document, commas),
        ("// a\n{/* b */\"a\"/*c*/:/**/1//d\n,\"b\":2}\n// e", document, comments),
        ("{\"a\":1}{\"a\":2}", two, joined),
        ("{\n\"a\":1\n}\n[2]\n", two, joined),
        ("{\"a\":1} // x\n{\"a\":2}\n", two, comments),
    ];
    for (text, kind, what) in cases {
        assert_eq!(loose(text), (kind, what), "{text}");
    }
    for text in [
        "[,]",
        "{,}",
        "[1,,]",
        "[-NaN]",
        "[Nan]",
        "[INFO]",
        "[1 / 2]",
        "// only\n",
        "/* open",
        "[]]",
        "\u{feff}\u{feff}[1]",
        "[1]\u{feff}",
        "{\"a\":,}",
        "[1] // a\nb",
    ] {
        assert_eq!(loose(text).0, JsonKind::No, "{text}");
    }
    let mut strict = Scanner::strict();
    for text in ["[1,]", "[NaN]", "[-Infinity]", "[/**/1]"] {
        assert!(matches!(
            strict.push(text.as_bytes(), &mut Shape::default()),
            ScanOutcome::Wrong(_)
        ));
        strict = Scanner::strict();
    }
    let all = LooseJson { mark: true, numbers: true, comments: true, commas: true, joined: true };
    let words = "with a byte order mark, NaN or Infinity, comments and trailing commas";
    assert_eq!(all.words().as_deref(), Some(words));
}

#[test]
fn invalid_utf8_is_not_json() {
    let text =
        b"{\"name\": \"a value long enough to tell, and then some more of it \", \"k\": \"\xff\"}";
    let at = text.iter().position(|byte| *byte == 0xff).unwrap() as u64;
    let mut detector = JsonDetector::default();
    detector.push(text, 0, 0, Some(at));
    assert_eq!(detector.finish(text.len() as u64, 1).0, Json::Broken { offset: at, line: 1 });
}

/// The offset of an error does not depend on how the stream is split, even inside a number.
#[test]
fn the_wrong_byte_is_found_wherever_the_stream_is_cut() {
    let good = "{\"name\": \"a value long enough to tell\", \"other\": [1, 2, 3, 4, 5, 6, 7], ";
    for bad in ["\"k\": 1.x", "\"k\": -x", "\"k\": 1e+x", "\"k\": trux", "\"k\": \"\\u00x", "x"] {
        let text = format!("{good}{bad}}}");
        let offset = text.rfind('x').unwrap() as u64;
        for step in 1..text.len() {
            let mut detector = JsonDetector::default();
            for (index, part) in text.as_bytes().chunks(step).enumerate() {
                detector.push(part, (index * step) as u64, 0, None);
            }
            let found = detector.finish(text.len() as u64, 1).0;
            assert_eq!(found, Json::Broken { offset, line: 1 }, "{text} by {step}");
        }
    }
}

#[test]
fn the_lines_of_indented_json_are_counted() {
    let cases = [
        ("{}", 1),
        ("[ ]", 1),
        ("\"text\"", 1),
        ("[1]", 3),
        ("[1, 2]", 4),
        ("{\"a\": {}, \"b\": [[], [1]]}", 9),
        ("{\"a\": 1}\n\n[]\n[1,\t2]\n", 8),
    ];
    for (text, lines) in cases {
        let (Json::Document { pretty_lines, .. } | Json::Lines { pretty_lines, .. }) =
            detect(text.as_bytes())
        else {
            panic!("{text}");
        };
        assert_eq!(pretty_lines, lines, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = 200_000;
    let text = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    assert_eq!(shape(&text), "[[[[[[[[[[[...]]]]]]]]]]]");
    let too_deep = "[".repeat(3 << 20);
    assert!(matches!(detect(too_deep.as_bytes()), Json::No | Json::Broken { .. }));
}

proptest::proptest! {
    #[test]
    fn agrees_with_serde(text in "[\\[{]([\\[\\]{},:\" \\n]|\"[a\\\\u0-9]{0,6}\"|-?[0-9]{1,3}(\\.[0-9])?(e[+-]?1)?|true|null){0,12}[\\]}]") {
        let valid = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        let mut detector = JsonDetector::<Shape>::default();
        detector.push(text.as_bytes(), 0, 0, None);
        let is_document = detector.kind(text.len() as u64, 1) == JsonKind::Document;
        let found = is_document && detector.loose().is_empty();
        proptest::prop_assert_eq!(found, valid, "{}", text);
    }
}

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use crate::View;
use crate::fixture::Fixture;
use ctxfs_core::model::Limits;

fn shape(text: &str) -> String {
    let view = Fixture::new(text).text(&View::Shape);
    assert!(view.len() <= Limits::VIEW_BYTES, "{} bytes", view.len());
    view
}

/// Returns the lines after the notices.
fn lines(text: &str) -> Vec<String> {
    shape(text).lines().filter(|line| !line.starts_with("# ")).map(str::to_owned).collect()
}

/// Splits a line into its columns.
fn columns(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect()
}

#[test]
fn a_document() {
    let item = |id: usize| {
        let tags = if id.is_multiple_of(2) { "[\"a\",\"b\"]" } else { "[]" };
        let body = if id == 3 { ",\"body\":null" } else { ",\"body\":\"text\"" };
        let extra = if id == 5 { ",\"two words\":1.5" } else { "" };
        format!("{{\"id\":{id},\"tags\":{tags}{body}{extra}}}")
    };
    let items: Vec<String> = (1..=1200).map(item).collect();
    let text =
        format!("{{\"total\":1200,\"items\":[{}],\"next\":null,\"ok\":true}}", items.join(","));
    let want = "\
# JSON. A path is a filter: /ctx/c7/artifacts/tool/9f3k.txt.jq/PATH
.                     object                             4 keys
.total                int                                1200
.items                array                              1,200 items
.items[]              object            1,200            3..4 keys
.items[].id           int               1,200 of 1,200   1..1200  1, 2, 3, ...
.items[].tags         array             1,200 of 1,200   0..2 items
.items[].tags[]       str               1,200            1 byte  \"a\", \"b\"
.items[].body         str 1,199|null 1  1,200 of 1,200   4 bytes  \"text\"
.items[].\"two words\"  float             1 of 1,200       1.5
.next                 null
.ok                   bool
";
    let without_blanks =
        |text: &str| -> Vec<String> { text.lines().map(|line| columns(line).join("  ")).collect() };
    assert_eq!(without_blanks(&shape(&text)), without_blanks(want));
}

#[test]
fn values_at_the_root() {
    assert_eq!(lines("\"text\""), [".  str    4 bytes  \"text\""]);
    assert_eq!(columns(&lines("[1, 2]")[1]), [".[]", "int", "2", "1, 2"]);
    assert_eq!(lines("[]"), [".  array    0 items"]);
    let view = shape("{\"a\":1}\n{\"a\":\"x\"}\n{\"b\":[]}\n");
    assert!(view.starts_with("# JSON Lines, 3 values. A path"), "{view}");
    let found = lines("{\"a\":1}\n{\"a\":\"x\"}\n{\"b\":[]}\n");
    assert_eq!(columns(&found[1]), [".a", "int 1|str 1", "2 of 3", "1 byte", "1, \"x\""]);
}

#[test]
fn ranges_of_numbers_are_exact_where_they_can_be() {
    let found = lines("[12345678901234567890, -3, 0, 7]");
    assert_eq!(columns(&found[1])[3], "-3..12345678901234567890");
    let found = lines("[1e3, 2.5, -7, 4]");
    assert_eq!(columns(&found[1])[1..4], ["float", "4", "-7..1000"]);
}

#[test]
fn keys_are_written_as_jq_reads_them() {
    let found =
        lines(r#"{"a b": 1, "9": 2, "": 3, "q\"": 4, "\u00e9": 5, "\ud83d\ude00": 6, "_x1": 7}"#);
    let paths: Vec<&str> = found.iter().map(|line| columns(line)[0]).collect();
    let want =
        [".", ".\"a b\"", ".\"9\"", ".\"\"", ".\"q\\\"\"", ".\"\u{e9}\"", ".\"\u{1f600}\"", "._x1"];
    assert_eq!(paths, want);
}

#[test]
fn an_object_whose_keys_are_data_is_a_map() {
    let pairs: Vec<String> = (0..5000).map(|n| format!("\"k{n}\":{{\"v\":{n}}}")).collect();
    let found = lines(&format!("{{{}}}", pairs.join(",")));
    let columns: Vec<Vec<&str>> = found.iter().map(|line| columns(line)).collect();
    assert_eq!(columns[0], [".", "object", "5,000 keys", "\"k0\", \"k1\", \"k2\", ..."]);
    assert_eq!(columns[1], [".[]", "object", "5,000", "1 key"]);
    assert_eq!(columns[2], [".[].v", "int", "5,000 of 5,000", "0..4999", "0, 1, 2, ..."]);
    assert_eq!(found.len(), 3);
    let few: Vec<String> = (0..9).map(|n| format!("\"k{n}\":{{\"v\":{n},\"w\":[]}}")).collect();
    assert_eq!(lines(&format!("{{{}}}", few.join(","))).len(), 4);
}

#[test]
fn a_wide_record_is_no_map() {
    let record = |row: usize| {
        let fields: Vec<String> = (0..100).map(|n| format!("\"c{n}\":{}", row * n)).collect();
        format!("{{{}}}\n", fields.join(","))
    };
    let text: String = (0..20).map(record).collect();
    assert!(
        lines(&text).len() == 2,
        "all numbers in the first object: data, as far as can be told"
    );
    let mixed = |row: usize| record(row).replacen("\"c0\":0", "\"c0\":\"x\"", 1);
    let text: String = (0..20).map(mixed).collect();
    assert_eq!(lines(&text).len(), 101);
}

#[test]
fn what_is_not_json_has_no_shape() {
    let want = "# not JSON (text/plain, 12 bytes), so it has no shape. What it is: /ctx/c7/artifacts/tool/9f3k.txt.summary\n";
    assert_eq!(shape("[INFO] start"), want);
    assert!(shape("").starts_with("# not JSON"));
    let broken = format!("[{}\"x\": ]", "1, ".repeat(40));
    let view = shape(&broken);
    assert!(view.starts_with("# not JSON from line 1 on (byte 124); the shape"), "{view}");
    assert!(view.contains("\n.[]"), "{view}");
    let view = shape("{\"a\": [1, 2, 3], \"b\": ");
    assert!(view.starts_with("# JSON that lacks its end; the shape"), "{view}");
}

#[test]
fn time_can_run_out() {
    let text = format!("[{}1]", "1234567,".repeat(200_000));
    let calls = Cell::new(0);
    let expired = || calls.replace(calls.get() + 1) == 4;
    let (body, rendered) = Fixture::new(text).render_until(&View::Shape, &expired).unwrap();
    let notice = rendered.notice.unwrap();
    assert!(!rendered.whole);
    assert!(notice.starts_with("# out of time after 0.5 of 1.6 MB; the shape"), "{notice}");
    assert!(String::from_utf8(body).unwrap().contains(".[]"));
}

#[test]
fn a_large_shape_is_cut_at_a_level_and_says_so() {
    let inner: Vec<String> =
        (0..60).map(|n| format!("\"an_inner_key_of_some_length_{n}\":[{{\"x\":{n}}}]")).collect();
    let inner = inner.join(",");
    let outer: Vec<String> =
        (0..15).map(|n| format!("\"outer_key_{n}\":{{\"k{n}\":{{{inner}}}}}")).collect();
    let view = shape(&format!("{{{}}}", outer.join(",")));
    assert!(view.contains("\n# left out: deeper than 2 levels. Look"), "{view:.600}");
    assert!(view.contains("\n.outer_key_14.k14 "));
    let flat: Vec<String> =
        (0..500).map(|n| format!("\"{}{n}\":{}", "k".repeat(150), ["1", "\"\""][n % 2])).collect();
    let view = shape(&format!("{{{}}}", flat.join(",")));
    assert!(view.contains("\n# left out: deeper than 1 level; "), "{view:.600}");
    assert!(view.contains(" of 501 paths"), "{view:.600}");
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    assert!(shape(&deep).contains("# left out: what is marked `...`"));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-d \"]{0,2}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Adds the paths inside of `value`.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for item in value.as_array().into_iter().flatten() {
        paths(item, &format!("{path}[]"), found);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        paths(value, &format!("{path}.{key}"), found);
    }
}

proptest! {
    #[test]
    fn every_path_has_a_line(values in prop::collection::vec(json(), 2..5)) {
        let text: Vec<String> = values.iter().map(|value| format!("[{value}]")).collect();
        let mut found = BTreeSet::from([String::new()]);
        for value in &values {
            paths(value, "[]", &mut found);
        }
        let text = text.join("\n");
        prop_assert_eq!(lines(&text).len(), found.len(), "{}", text);
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn problems(schema: &Value, arguments: &Value) -> Vec<String> {
    match fitness(schema, arguments) {
        Fitness::Unfit(problems) => problems,
        other => panic!("{other:?}: {schema} {arguments}"),
    }
}

#[test]
fn keywords_hold() {
    let table = [
        (json!({"type": "string"}), json!(["", "x"]), json!([1, null, [], {}, true])),
        (json!({"type": "integer"}), json!([1, 1.0, -3, 1e30]), json!([1.5, "1"])),
        (json!({"type": "number"}), json!([1, 1.5]), json!(["1"])),
        (json!({"type": ["string", "null"]}), json!(["x", null]), json!([1])),
        (
            json!({"enum": ["a", 1, {"b": [1]}]}),
            json!(["a", 1.0, {"b": [1.0]}]),
            json!(["b", 2, {}]),
        ),
        (json!({"const": 2}), json!([2, 2.0]), json!([3, "2"])),
        (json!({"minimum": 1, "exclusiveMaximum": 3}), json!([1, 2.9, "x"]), json!([0.9, 3])),
        (json!({"exclusiveMinimum": 1, "maximum": 3}), json!([1.1, 3]), json!([1, 3.1])),
        (json!({"multipleOf": 5}), json!([0, 10, -5, "x"]), json!([3])),
        (json!({"minLength": 1, "maxLength": 2}), json!(["\u{e9}\u{e9}", 9]), json!(["", "abc"])),
        (json!({"minItems": 1, "maxItems": 2}), json!([[1], "x"]), json!([[], [1, 2, 3]])),
        (
            json!({"minProperties": 1, "maxProperties": 1}),
            json!([{"a": 1}]),
            json!([{}, {"a": 1, "b": 2}]),
        ),
        (json!({"pattern": "^a+$"}), json!(["aa", 3]), json!(["ab", ""])),
        (json!({"uniqueItems": true}), json!([[1, 2], []]), json!([[1, 1.0], [[], []]])),
        (json!({"required": ["a"]}), json!([{"a": null}, 3]), json!([{}, {"b": 1}])),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            json!([{"a": "x"}, {"b": 1}]),
            json!([{"a": 1}]),
        ),
        (
            json!({"properties": {"a": true}, "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false}),
            json!([{"a": 1, "x-b": "c"}]),
            json!([{"b": 1}, {"x-b": 1}]),
        ),
        (
            json!({"additionalProperties": {"type": "integer"}}),
            json!([{"a": 1}]),
            json!([{"a": "x"}]),
        ),
        (json!({"propertyNames": {"maxLength": 2}}), json!([{"ab": 1}]), json!([{"abc": 1}])),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!([{"a": 1, "b": 2}, {}]),
            json!([{"a": 1}]),
        ),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!([{}]), json!([{"a": 1}])),
        (json!({"items": {"type": "string"}}), json!([["a"], [], {}]), json!([["a", 1]])),
        (
            json!({"prefixItems": [{"type": "string"}], "items": false}),
            json!([["a"], []]),
            json!([[1], ["a", 1]]),
        ),
        (json!({"contains": {"const": 1}}), json!([[2, 1]]), json!([[], [2]])),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!([1, 2]), json!([0, 3])),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), json!(["x", 5]), json!([4])),
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 2}]}), json!([0, 3]), json!([1.5])),
        (json!({"not": {"type": "string"}}), json!([1]), json!(["x"])),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
            json!([{"a": 1, "b": 1}, {"c": 1}]),
            json!([{"a": 1}, {}]),
        ),
        (
            json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}),
            json!(["x"]),
            json!([1]),
        ),
        (
            json!({"properties": {"left": {"$ref": "#"}, "value": {"type": "integer"}}}),
            json!([{"left": {"left": {"value": 1}}}]),
            json!([{"left": {"left": {"value": "x"}}}]),
        ),
        (json!(true), json!([1]), json!([])),
        (json!(false), json!([]), json!([1])),
        (
            json!({"format": "date", "x-own": {"type": 3}, "description": "d"}),
            json!(["x"]),
            json!([]),
        ),
    ];
    for (schema, fitting, unfit) in table {
        for value in fitting.as_array().unwrap() {
            assert_eq!(fitness(&schema, value), Fitness::Fits, "{schema} {value}");
        }
        for value in unfit.as_array().unwrap() {
            assert!(!problems(&schema, value).is_empty(), "{schema} {value}");
        }
    }
}

#[test]
fn problems_name_place_and_value() {
    let schema = json!({"type": "object", "required": ["owner"], "properties": {
        "labels": {"type": "array", "items": {"type": "string"}},
        "state": {"enum": ["open", "closed"]}}});
    let arguments = json!({"labels": ["a", 5], "state": "opne\u{202e}"});
    assert_eq!(
        problems(&schema, &arguments),
        [
            "`labels[1]` must be string, not 5",
            "`state` must be one of \"open\", \"closed\", not \"opne\\u{202e}\"",
            "the call lacks `owner`",
        ]
    );
    let many = json!({"items": {"type": "string"}});
    assert_eq!(problems(&many, &json!([1, 2, 3, 4, 5, 6, 7])).len(), 5);
    let long = problems(&json!({"type": "integer"}), &json!("x".repeat(1_000_000)));
    assert!(long[0].len() < 300, "{}", long[0].len());
}

#[test]
fn what_is_not_understood_passes() {
    let table = [
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$ref": "#anchor"}),
        json!({"$ref": 3}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "https://x/", "type": "string"}}}),
        json!({"pattern": "(?!x)"}),
        json!({"pattern": "((a{1000}){1000}){1000}"}),
        json!({"unevaluatedProperties": false}),
        json!({"type": 3}),
        json!({"minimum": "x"}),
        json!({"exclusiveMinimum": true}),
        json!({"items": [{"type": "string"}]}),
        json!({"multipleOf": 0.1}),
        json!({"not": {"$ref": "#/nowhere"}}),
        json!("no schema"),
        json!(null),
    ];
    for schema in table {
        let value = if schema.get("unevaluatedProperties").is_some() {
            json!({"a": 1})
        } else if schema.get("items").is_some() {
            json!([1])
        } else if schema.get("pattern").is_some() {
            json!("aaa")
        } else {
            json!(3)
        };
        assert_eq!(fitness(&schema, &value), Fitness::Unknown, "{schema}");
    }
    // An unsupported keyword does not hide a certain problem.
    let schema = json!({"unevaluatedProperties": false, "required": ["a"]});
    assert_eq!(problems(&schema, &json!({})).len(), 1);
}

/// Schemas that make a naive validator run forever or overflow its stack.
#[test]
fn hostile_schemas_end() {
    let chain = |keyword: &str, deep: usize| {
        let link = |n: usize| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({keyword: [next.clone(), next]}))
        };
        let mut parts: serde_json::Map<_, _> = (0..deep).map(link).collect();
        parts.insert(format!("d{deep}"), json!({"type": "object"}));
        json!({"$ref": "#/$defs/d0", "$defs": parts})
    };
    let nested = |value: Value, deep: usize, key: &str| {
        (0..deep).fold(value, |value, _| json!({key: value}))
    };
    let wide = json!({"properties": (0..30_000).map(|n| (n.to_string(), json!({})))
        .collect::<serde_json::Map<_, _>>()});
    let table = [
        (json!({"$ref": "#"}), json!({})),
        (json!({"allOf": [{"$ref": "#"}]}), json!({})),
        (json!({"not": {"$ref": "#"}}), json!({})),
        (
            json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"oneOf": [{"$ref": "#"}]}}}),
            json!({}),
        ),
        (chain("allOf", 40), json!({})),
        (chain("oneOf", 40), json!({})),
        (
            json!({"patternProperties": {"^.*$": {"$ref": "#"}, "^.?.*$": {"$ref": "#"}}}),
            nested(json!({}), 60, "x"),
        ),
        (nested(json!({}), 100, "not"), json!({})),
        (wide, json!({})),
        (json!({"uniqueItems": true}), Value::Array((0..5000).map(Value::from).collect())),
        (json!({"items": {"type": "integer"}}), Value::Array(vec![json!(1); 200_000])),
        (json!({"pattern": "(a*)*b"}), json!("a".repeat(16 << 20))),
    ];
    for (schema, value) in table {
        assert_eq!(fitness(&schema, &value), Fitness::Unknown, "{:.80}", schema.to_string());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        "[ab#/]{0,3}".prop_map(Value::from),
        Just(json!("#")),
        Just(json!("string")),
        Just(json!("object")),
    ];
    let keys = prop::sample::select(vec![
        "type",
        "enum",
        "const",
        "minimum",
        "maxLength",
        "pattern",
        "required",
        "properties",
        "patternProperties",
        "additionalProperties",
        "items",
        "prefixItems",
        "contains",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$defs",
        "uniqueItems",
        "a",
        "b",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Any JSON value can be used as a schema, and every mismatch has a message.
    #[test]
    fn any_schema_is_read(schema in any_json(), value in any_json()) {
        if let Fitness::Unfit(problems) = fitness(&schema, &value) {
            prop_assert!(!problems.is_empty());
        }
    }
    #[test]
    fn a_negation_is_the_opposite(schema in any_json(), value in any_json()) {
        let (plain, negated) = (fitness(&schema, &value), fitness(&json!({"not": schema}), &value));
        // A reference to the root refers to a different schema in each of the two.
        prop_assume!(!schema.to_string().contains("$ref"));
        match plain {
            Fitness::Fits => prop_assert!(matches!(negated, Fitness::Unfit(_))),
            Fitness::Unfit(_) => prop_assert_eq!(negated, Fitness::Fits),
            Fitness::Unknown => prop_assert_eq!(negated, Fitness::Unknown),
        }
    }
}

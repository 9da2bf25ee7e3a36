//! The arguments of a tool in one line.

use serde_json::Value;

use ctxfs_core::model::visible;

/// The most bytes of all arguments, and of one.
const MOST_BYTES: usize = 1000;
const ONE_BYTES: usize = 120;
/// The most values of an enumeration.
const MOST_VALUES: usize = 8;

/// Returns the arguments that fit `schema`, such as `owner: string, state?: "open" | "closed"`.
/// Required ones come first.
pub fn signature(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        return "any object".to_owned();
    };
    let required: Vec<&str> = match &schema["required"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| {
        required.iter().position(|other| other == name).unwrap_or(required.len())
    });
    let one = |(name, schema): &(&String, &Value)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        visible::escaped(&format!("{name}{mark}: {}", kind(schema)), ONE_BYTES)
    };
    let all: Vec<String> = properties.iter().map(one).collect();
    visible::escaped(&all.join(", "), MOST_BYTES)
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().take(MOST_VALUES).map(Value::to_string);
        return values.collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema["items"]["type"].as_str() {
            Some(items) => format!("array of {items}"),
            None => "array".to_owned(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::index::fixture;

    #[test]
    fn required_arguments_come_first() {
        let index = fixture::index();
        let schema = index.get("github__create_issue").unwrap().schema();
        assert_eq!(
            signature(schema),
            "owner: string, repo: string, title: string, labels?: array of string, \
             milestone?: integer, state?: \"open\" | \"closed\""
        );
    }

    #[test]
    fn any_schema_has_one() {
        let odd = [json!(true), json!({}), json!({"properties": []}), json!(3)];
        assert!(odd.iter().all(|schema| signature(schema) == "any object"));
        let odd = json!({"properties": {"a\n": {"type": ["string", "null"]}, "b": 3, "c": true},
                         "required": {"b": 1}});
        assert_eq!(signature(&odd), "a\\n?: string | null, b?: any, c?: any");
        let many: serde_json::Map<_, _> =
            (0..1000).map(|n| (format!("p{n}"), json!({"type": "x".repeat(500)}))).collect();
        assert!(signature(&json!({"properties": many})).len() < MOST_BYTES + 60);
    }
}

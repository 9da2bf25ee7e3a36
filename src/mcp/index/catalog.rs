//! The files of `catalog/`.

use serde_json::Value;

use crate::index::Index;
use crate::index::tool::Tool;

/// Returns the content of `catalog/index.json`: a tool a line, so that a search finds it whole.
pub fn index_json(index: &Index) -> String {
    let entries: Vec<String> = index.tools().map(|tool| tool.entry().to_string()).collect();
    format!("{{\"tools\":[\n{}\n]}}\n", entries.join(",\n"))
}

/// Returns the content of `catalog/tools/<name>.json`: what `get_tool_details` answers, and all
/// else that the server says of the tool.
pub fn tool_json(tool: &Tool) -> String {
    let mut details = tool.details();
    if let (Value::Object(details), Some(listed)) = (&mut details, tool.listed.as_object()) {
        let known = ["name", "description", "inputSchema"];
        let others = listed.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        for (key, value) in others {
            details.entry(key.clone()).or_insert_with(|| value.clone());
        }
        details.insert("tool".to_owned(), tool.true_name.tool.clone().into());
    }
    // A value without maps of other keys than texts can always be written.
    let text = serde_json::to_string_pretty(&details).unwrap_or_default();
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::fixture;

    #[test]
    fn the_index_has_a_line_for_each_tool() {
        let text = index_json(&fixture::index());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["tools"].as_array().unwrap().len(), 5);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("github__create_issue")).collect();
        assert_eq!(
            lines,
            [
                r#"{"description":"Create a new issue in a GitHub repository","kind":"mcp","name":"github__create_issue","risk":"write","server":"github"},"#
            ]
        );
        assert_eq!(index_json(&Index::default()), "{\"tools\":[\n\n]}\n");
    }

    #[test]
    fn a_tool_has_all_that_its_server_says() {
        let index = fixture::index();
        let text = tool_json(index.get("github__create_issue").unwrap());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["name"], &value["tool"]),
            (&"github__create_issue".into(), &"create_issue".into())
        );
        assert_eq!(value["parameters"]["required"][0], "owner");
        assert_eq!(value["annotations"]["destructiveHint"], false);
        assert_eq!(value["risk"], "write");
        assert!(value.get("inputSchema").is_none());
    }
}

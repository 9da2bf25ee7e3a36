//! The answer of `get_tool_details`.

use globset::Glob;
use serde_json::{Value, json};

use crate::index::Index;
use crate::index::resolve::Resolved;
use crate::index::tool::Tool;

/// The most names in one question.
pub const MOST_NAMES: usize = 20;

/// There were more names than a question may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "at most {MOST_NAMES} names at a time, not {0}: ask again for the others, or use a pattern"
)]
pub struct TooManyNames(usize);

/// Answers about `names`, each a name or a glob. A tool that several of them mean is there once.
pub fn details(index: &Index, names: &[String]) -> Result<Value, TooManyNames> {
    if names.len() > MOST_NAMES {
        return Err(TooManyNames(names.len()));
    }
    let (mut found, mut missing) = (Vec::<&Tool>::new(), Vec::new());
    for name in names {
        match meant(index, name) {
            Ok(tools) => {
                for tool in tools {
                    if !found.iter().any(|other| other.name == tool.name) {
                        found.push(tool);
                    }
                }
            }
            Err(alike) => missing.push(json!({"name": name, "did_you_mean": alike})),
        }
    }
    let tools: Vec<Value> = found.into_iter().map(Tool::details).collect();
    Ok(json!({"tools": tools, "missing": missing}))
}

/// Returns the tools of a name or glob, or names that may be meant.
fn meant<'i>(index: &'i Index, name: &str) -> Result<Vec<&'i Tool>, Vec<String>> {
    let is_glob = name.contains(['*', '?', '[', '{']);
    let matcher = Glob::new(name).ok().filter(|_| is_glob).map(|glob| glob.compile_matcher());
    if let (Some(matcher), None) = (&matcher, index.get(name)) {
        let matches = |tool: &&Tool| {
            matcher.is_match(&tool.name) || matcher.is_match(tool.true_name.to_string())
        };
        let tools: Vec<&Tool> = index.tools().filter(matches).collect();
        return if tools.is_empty() { Err(Vec::new()) } else { Ok(tools) };
    }
    match index.resolve(name) {
        Resolved::Tool(tool) => Ok(vec![tool]),
        Resolved::Missing(alike) => Err(alike),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::fixture;

    fn ask(names: &[&str]) -> Value {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        details(&fixture::index(), &names).unwrap()
    }

    fn names(answer: &Value) -> Vec<&str> {
        answer["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn names_and_globs_are_answered_in_their_order_and_once() {
        let answer = ask(&["search_issues", "github__*", "fs/*", "search_issues"]);
        assert_eq!(
            names(&answer),
            [
                "github__search_issues",
                "github__create_issue",
                "github__list_all",
                "fs__list_all",
                "fs__read_file"
            ]
        );
        assert_eq!(answer["missing"], json!([]));
        let tool = &answer["tools"][0];
        assert_eq!((&tool["server"], &tool["risk"]), (&json!("github"), &json!("read")));
        assert_eq!(tool["parameters"]["required"], json!(["q"]));
        assert_eq!(tool["description"], "Search for issues. Across repositories.");
    }

    #[test]
    fn what_is_missing_is_named() {
        let answer = ask(&["creat_issue", "x*", "list_all", "["]);
        assert_eq!(names(&answer), Vec::<&str>::new());
        let missing = answer["missing"].as_array().unwrap();
        assert_eq!(missing[0]["did_you_mean"][0], "github__create_issue");
        assert_eq!(missing[1], json!({"name": "x*", "did_you_mean": []}));
        assert_eq!(missing[2]["did_you_mean"], json!(["fs__list_all", "github__list_all"]));
        assert_eq!(missing[3]["name"], "[");
    }

    #[test]
    fn there_are_at_most_so_many_names() {
        let names = vec!["x".to_owned(); MOST_NAMES + 1];
        let error = details(&Index::default(), &names).unwrap_err();
        assert!(error.to_string().starts_with("at most 20 names at a time, not 21"));
        assert!(details(&Index::default(), &names[1..]).is_ok());
    }
}

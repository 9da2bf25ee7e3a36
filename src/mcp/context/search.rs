//! The name of a search.

use serde_json::Value;

use crate::context::number;

/// Returns the name of the view that makes the search which `arguments` describe.
pub(super) fn query(arguments: &Value) -> Result<String, String> {
    let pattern = arguments["pattern"].as_str().filter(|pattern| !pattern.is_empty());
    let pattern = pattern.ok_or("`pattern` is missing")?;
    let mut words = Vec::new();
    for (name, option) in [("ignore_case", "-i"), ("fixed", "-F")] {
        if arguments[name].as_bool() == Some(true) {
            words.push(option.to_owned());
        }
    }
    for (name, option) in [("context", "-C"), ("max", "-m")] {
        if let Some(number) = number(arguments, name)? {
            words.push(format!("{option}{number}"));
        }
    }
    words.extend(["--".to_owned(), pattern.replace('%', "%25").replace('/', "%2F")]);
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_come_before_the_pattern() {
        let all = json!({"pattern": "-a/b%", "ignore_case": true, "context": 3, "max": "5"});
        assert_eq!(query(&all).unwrap(), "-i -C3 -m5 -- -a%2Fb%25");
        let fixed = json!({"pattern": "a(", "fixed": true});
        assert_eq!(query(&fixed).unwrap(), "-F -- a(");
        assert!(query(&json!({"pattern": ""})).is_err());
        assert!(query(&json!({"pattern": "a", "max": -1})).is_err());
    }
}

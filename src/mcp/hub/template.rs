//! Whether a URI is one of those that a template of RFC 6570 stands for.

use regex::{Regex, RegexBuilder};

/// The longest template, and the most bytes of the program that matches it.
const MOST_BYTES: usize = 2048;
const PROGRAM_BYTES: usize = 1 << 20;

/// Returns true if `template` may have made `uri`.
pub(super) fn fits(template: &str, uri: &str) -> bool {
    expression(template).is_some_and(|expression| expression.is_match(uri))
}

fn expression(template: &str) -> Option<Regex> {
    if template.len() > MOST_BYTES {
        return None;
    }
    let mut text = String::from("^");
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (variables, after) = after.split_once('}')?;
        text += &regex::escape(before);
        text += match variables.chars().next()? {
            // Optional parts, and those that may hold a slash.
            '?' | '&' | '/' | '.' | ';' => ".*",
            '+' | '#' => ".+",
            _ if variables.ends_with('*') => ".+",
            _ => "[^/]+",
        };
        rest = after;
    }
    text += &regex::escape(rest);
    RegexBuilder::new(&(text + "$")).size_limit(PROGRAM_BYTES).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_fit_their_templates() {
        for (template, uri, expected) in [
            ("file:///{path}", "file:///a", true),
            ("file:///{path}", "file:///a/b", false),
            ("file:///{+path}", "file:///a/b", true),
            ("db://{table}/row{?id}", "db://t/row?id=7", true),
            ("db://{table}/row{?id}", "db://t/row", true),
            ("a.b/{x}", "aXb/1", false),
            ("a/{x", "a/1", false),
            ("a/{}", "a/1", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
        assert!(!fits(&"{x}".repeat(5000), "a"));
    }
}

//! Reads typed values from the servers file, and records flaws with their lines.

use std::fmt;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged as _;

pub(crate) struct ValueReader<'a> {
    file: &'a str,
    text: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    flaws: Vec<Flaw>,
}

#[derive(Debug)]
pub(crate) struct InvalidValue;

impl<'a> ValueReader<'a> {
    pub(crate) fn new(
        file: &'a str,
        text: &'a str,
        variable: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { file, text, variable, flaws: Vec::new() }
    }

    pub(crate) fn into_flaws(self) -> Vec<Flaw> {
        self.flaws
    }

    pub(crate) fn flaw(&mut self, severity: Severity, at: usize, keys: &[&str], what: &str) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let (file, key, what) = (self.file.to_owned(), keys.join("."), what.to_owned());
        self.flaws.push(Flaw { severity, file, line, key, what });
    }

    pub(crate) fn wrong(&mut self, value: &Value<'_>, keys: &[&str], what: &str) -> InvalidValue {
        self.flaw(Severity::Error, value.start(), keys, what);
        InvalidValue
    }

    pub(crate) fn text(
        &mut self,
        value: &Value<'_>,
        keys: &[&str],
    ) -> Result<String, InvalidValue> {
        let Some(literal) = value.as_string_lit() else {
            return Err(self.wrong(value, keys, "must be a text"));
        };
        let expanded = expand(&literal.value, self.variable);
        if expanded.has_others {
            // The text is not shown, because it may be part of a secret.
            let what = "has a `${...}` that is no variable, and stays as it is";
            self.flaw(Severity::Warning, value.start(), keys, what);
        }
        if let Some(missing) = expanded.missing.first() {
            let what = format!(
                "needs the variable `{missing}`, which is not set: set it, or write \
                 `${{{missing}:-default}}`"
            );
            return Err(self.wrong(value, keys, &what));
        }
        if expanded.text.contains('\0') {
            return Err(self.wrong(value, keys, "holds a NUL"));
        }
        Ok(expanded.text)
    }

    pub(crate) fn texts(
        &mut self,
        value: &Value<'_>,
        keys: &[&str],
    ) -> Result<Vec<String>, InvalidValue> {
        let Some(array) = value.as_array() else {
            return Err(self.wrong(value, keys, "must be a list of texts"));
        };
        array.elements.iter().map(|element| self.text(element, keys)).collect()
    }

    pub(crate) fn secrets(
        &mut self,
        value: &Value<'_>,
        keys: &[&str],
        is_key: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, Secret)>, InvalidValue> {
        let Some(object) = value.as_object() else {
            return Err(self.wrong(value, keys, "must be an object of texts"));
        };
        let mut read = |property: &ObjectProp<'_>| {
            let name = property.name.as_str();
            let keys = &[keys, &[name]].concat();
            if !is_key(name) {
                return Err(self.wrong(&property.value, keys, "is no name for it"));
            }
            Ok((name.to_owned(), Secret::new(self.text(&property.value, keys)?)))
        };
        object.properties.iter().map(&mut read).collect()
    }

    pub(crate) fn truth(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<bool, InvalidValue> {
        let truth = value.as_boolean_lit().map(|literal| literal.value);
        truth.ok_or_else(|| self.wrong(value, keys, "must be true or false"))
    }

    pub(crate) fn number(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<f64, InvalidValue> {
        let number = value.as_number_lit().and_then(|literal| literal.value.parse().ok());
        number.ok_or_else(|| self.wrong(value, keys, "must be a number"))
    }
}

/// A text with variables substituted. `missing` lists the variables that have neither a value nor a
/// default. `has_others` is true if the text contains something that looks like a variable but is
/// not one, such as `${input:key}`. Such text is unchanged.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expanded {
    pub(crate) text: String,
    pub(crate) missing: Vec<String>,
    has_others: bool,
}

/// Substitutes `${VAR}` and `${VAR:-default}`. The default also replaces an empty value, as in a
/// shell. Substituted values are not expanded again.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Expanded {
    let mut expanded = Expanded::default();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        expanded.text += before;
        let Some(end) = from.find('}') else {
            rest = from;
            break;
        };
        let (reference, after) = from.split_at(end + 1);
        expanded.put_in(reference, variable);
        rest = after;
    }
    expanded.text += rest;
    expanded
}

impl Expanded {
    fn put_in(&mut self, reference: &str, variable: &dyn Fn(&str) -> Option<String>) {
        let inner = &reference[2..reference.len() - 1];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if !is_name(name) {
            self.text += reference;
            self.has_others = true;
            return;
        }
        match (variable(name), default) {
            (Some(value), None) => self.text += &value,
            (Some(value), Some(_)) if !value.is_empty() => self.text += &value,
            (_, Some(default)) => self.text += default,
            (None, None) => self.missing.push(name.to_owned()),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A fault in the file, or an unknown key. `line` is counted from 1, and `key` is the path to the
/// key in question. A flaw is displayed as ``mcp.json:7: `mcpServers.github.env.TOKEN` is wrong``.
/// Values are never shown, because they may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Flaw {
    pub severity: Severity,
    pub file: String,
    pub line: usize,
    pub key: String,
    pub what: String,
}

/// The effect of a flaw. `Error` means that one or all servers are skipped. `Warning` means that a
/// key is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Severity {
    Error,
    Warning,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "`{}` ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

/// A text that may be secret: arguments, environment, URLs and headers of servers. `Debug` hides
/// it. Only the code that starts or contacts the server reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Marks a text as secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. Only for code that starts or contacts the server; do not log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/u".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOME}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn references_become_values() {
        let table = [
            ("", ""),
            ("plain $HOME {HOME}", "plain $HOME {HOME}"),
            ("${HOME}", "/home/u"),
            ("a${HOME}b${HOME}c", "a/home/ub/home/uc"),
            ("${HOME:-x}", "/home/u"),
            ("${NONE:-x y:-z}", "x y:-z"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NESTED}", "${HOME}"),
            ("$${HOME}", "$/home/u"),
            ("${HOME", "${HOME"),
        ];
        for (text, expected) in table {
            let expected = Expanded { text: expected.to_owned(), ..Expanded::default() };
            assert_eq!(expand(text, &variable), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_named() {
        let expanded = expand("${NONE}${input:key}${HOME}${1A}${}", &variable);
        assert_eq!(expanded.missing, ["NONE"]);
        assert!(expanded.has_others);
        assert_eq!(expanded.text, "${input:key}/home/u${1A}${}");
    }

    proptest! {
        #[test]
        fn text_without_references_stays(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &variable).text, text);
        }

        #[test]
        fn any_text_is_read(text in "[${}:A-Z_ -]{0,30}") {
            let expanded = expand(&text, &|_| Some("x".to_owned()));
            prop_assert!(expanded.missing.is_empty());
        }
    }
}

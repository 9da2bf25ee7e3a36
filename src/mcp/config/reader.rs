//! Reading typed values from the tree of a file, with the place of what is wrong.

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged as _;

use crate::config::expand::expand;
use crate::config::flaw::{Flaw, Severity};
use crate::config::secret::Secret;

/// Reads a file, and collects its flaws.
pub(super) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    flaws: Vec<Flaw>,
}

/// A value that was wrong. Its flaw is collected already.
#[derive(Debug)]
pub(super) struct Wrong;

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        variable: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { file, text, variable, flaws: Vec::new() }
    }

    pub(super) fn into_flaws(self) -> Vec<Flaw> {
        self.flaws
    }

    pub(super) fn error(&mut self, at: usize, keys: &[&str], what: &str) {
        self.flaw(Severity::Error, at, keys, what);
    }

    pub(super) fn warning(&mut self, at: usize, keys: &[&str], what: &str) {
        self.flaw(Severity::Warning, at, keys, what);
    }

    fn flaw(&mut self, severity: Severity, at: usize, keys: &[&str], what: &str) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let (file, key, what) = (self.file.to_owned(), keys.join("."), what.to_owned());
        self.flaws.push(Flaw { severity, file, line, key, what });
    }

    /// Collects an error about the value at `keys`.
    pub(super) fn wrong(&mut self, value: &Value<'_>, keys: &[&str], what: &str) -> Wrong {
        self.error(value.start(), keys, what);
        Wrong
    }

    /// Reads a text, with its variables put in.
    pub(super) fn text(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<String, Wrong> {
        let Some(literal) = value.as_string_lit() else {
            return Err(self.wrong(value, keys, "must be a text"));
        };
        let expanded = expand(&literal.value, self.variable);
        if expanded.has_others {
            // It may be a part of a secret, so it is not shown.
            let what = "has a `${...}` that is no variable, and stays as it is";
            self.warning(value.start(), keys, what);
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

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<Vec<String>, Wrong> {
        let Some(array) = value.as_array() else {
            return Err(self.wrong(value, keys, "must be a list of texts"));
        };
        array.elements.iter().map(|element| self.text(element, keys)).collect()
    }

    /// Reads an object of texts, whose keys pass `is_key`.
    pub(super) fn secrets(
        &mut self,
        value: &Value<'_>,
        keys: &[&str],
        is_key: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, Secret)>, Wrong> {
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

    /// Reads true or false.
    pub(super) fn truth(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<bool, Wrong> {
        let truth = value.as_boolean_lit().map(|literal| literal.value);
        truth.ok_or_else(|| self.wrong(value, keys, "must be true or false"))
    }

    /// Reads a number.
    pub(super) fn number(&mut self, value: &Value<'_>, keys: &[&str]) -> Result<f64, Wrong> {
        let number = value.as_number_lit().and_then(|literal| literal.value.parse().ok());
        number.ok_or_else(|| self.wrong(value, keys, "must be a number"))
    }
}

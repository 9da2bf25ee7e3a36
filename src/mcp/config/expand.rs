//! Variables in the texts of a file.

/// A text with its variables put in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Variables without a value and without a default.
    pub(super) missing: Vec<String>,
    /// Whether something looks like a variable and is none, such as `${input:key}`. It stays as it
    /// is.
    pub(super) has_others: bool,
}

/// Puts the value of `VAR` in place of `${VAR}`, and that or the default in place of
/// `${VAR:-default}`. As in a shell, an empty value takes the default. Values are not looked
/// through again.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Expanded {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

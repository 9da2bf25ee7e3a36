//! Builds and parses the addresses of conversations and outputs, and their query parameters.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use ctxfs_core::model::Component;

// All characters except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

// Encodes one component of a path, or the value of a parameter.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

pub(super) fn conversation(id: &Component) -> String {
    format!("/c/{}", encoded(&id.to_text()))
}

pub(super) fn output(id: &Component, path: &str) -> String {
    of_output(id, "o", path)
}

pub(super) fn of_output(id: &Component, what: &str, path: &str) -> String {
    let names: Vec<String> = path.split('/').map(encoded).collect();
    format!("{}/{what}/{}", conversation(id), names.join("/"))
}

pub(super) fn line(address: &str, line: u64) -> String {
    format!("{address}?line={}#L{line}", line.saturating_sub(BEFORE).max(1))
}

// Number of lines shown before the target line of a link.
const BEFORE: u64 = 5;

/// Removes the parameter `name` from a query. Returns the remaining query and the decoded value.
pub(super) fn without_parameter(query: &str, name: &str) -> (String, Option<String>) {
    let mut value = None;
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, given) = pair.split_once('=').unwrap_or((pair, ""));
        if key == name {
            value = Some(percent_decode_str(given).decode_utf8_lossy().into_owned());
        } else {
            rest.push(pair);
        }
    }
    (rest.join("&"), value)
}

// Returns `?name=value&...` for the pairs with a value, or an empty string if there are none.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> =
        given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_an_address() {
        let id = Component::new("a b?c#d").unwrap();
        assert_eq!(conversation(&id), "/c/a%20b%3Fc%23d");
        let address = output(&id, "artifacts/tool/<script>\"'&.txt");
        assert_eq!(address, "/c/a%20b%3Fc%23d/o/artifacts/tool/%3Cscript%3E%22%27%26.txt");
        assert_eq!(line("/x", 3), "/x?line=1#L3");
        assert_eq!(line("/x", 100), "/x?line=95#L100");
    }

    #[test]
    fn parameters_are_taken_out() {
        let (rest, value) = without_parameter("a=1&token=%41b&c", "token");
        assert_eq!((&*rest, value.as_deref()), ("a=1&c", Some("Ab")));
        assert_eq!(without_parameter("", "token"), (String::new(), None));
        assert_eq!(query(&[("q", "a&b"), ("page", ""), ("sort", "name")]), "?q=a%26b&sort=name");
        assert_eq!(query(&[("q", "")]), "");
    }
}

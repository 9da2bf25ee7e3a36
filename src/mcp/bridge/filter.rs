//! Which notifications a subscription of 2026-07-28 is about.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::raw_object::{RawObject, elements, quoted, text};

/// The lists that change, by their names in capabilities and in filters.
pub(crate) const LISTS: [(&str, &str); 3] = [
    ("tools", "toolsListChanged"),
    ("prompts", "promptsListChanged"),
    ("resources", "resourcesListChanged"),
];

/// The most resources of a subscription, and the most bytes of the name of one. Others are not
/// honored, which the client is told.
pub(super) const MOST_URIS: usize = 1000;
pub(crate) const LONGEST_URI: usize = 8 << 10;

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filter {
    /// True for each of [`LISTS`] that is asked for.
    pub(crate) lists: [bool; LISTS.len()],
    pub(crate) uris: BTreeSet<String>,
}

impl Filter {
    /// Returns the filter in the parameters of `subscriptions/listen`.
    pub(crate) fn of(params: Option<&RawValue>) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        let asked = params.get("notifications").and_then(RawObject::parse).unwrap_or_default();
        let is_asked =
            |(_, name): (&str, &str)| asked.get(name).is_some_and(|value| value.get() == "true");
        let uris = asked.get("resourceSubscriptions").and_then(elements).unwrap_or_default();
        let uris = uris.into_iter().filter_map(text).filter(|uri| uri.len() <= LONGEST_URI);
        let uris = uris.map(std::borrow::Cow::into_owned);
        Self { lists: LISTS.map(is_asked), uris: uris.take(MOST_URIS).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.uris.is_empty() && self.lists.iter().all(|is_asked| !is_asked)
    }

    /// Returns true if it is about the notification that a list has changed.
    pub(crate) fn has(&self, notification: &str) -> bool {
        place_of(notification).is_some_and(|place| self.lists[place])
    }

    /// Returns it as JSON.
    pub(crate) fn json(&self) -> String {
        let lists = LISTS.iter().zip(self.lists).filter(|(_, is_asked)| *is_asked);
        let mut members: Vec<String> =
            lists.map(|((_, name), _)| format!("\"{name}\":true")).collect();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| quoted(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!("{{{}}}", members.join(","))
    }
}

/// Returns the place in [`LISTS`] of the list that a notification is about.
fn place_of(notification: &str) -> Option<usize> {
    let changed = notification.strip_prefix("notifications/")?.strip_suffix("/list_changed")?;
    LISTS.iter().position(|(list, _)| *list == changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_what_was_asked_for() {
        for (params, expected) in [
            (r#"{"notifications":{}}"#, "{}"),
            ("{}", "{}"),
            (
                r#"{"notifications":{"toolsListChanged":true,"x":true}}"#,
                r#"{"toolsListChanged":true}"#,
            ),
            (r#"{"notifications":{"toolsListChanged":false,"promptsListChanged":1}}"#, "{}"),
            (
                r#"{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["b","a","b",1]}}"#,
                r#"{"resourcesListChanged":true,"resourceSubscriptions":["a","b"]}"#,
            ),
        ] {
            let filter = Filter::of(serde_json::from_str(params).ok());
            assert_eq!(filter.json(), expected, "{params}");
            assert_eq!(filter.is_empty(), expected == "{}", "{params}");
        }
    }

    #[test]
    fn notifications_are_those_of_the_lists() {
        let filter = Filter { lists: [true, false, true], ..Filter::default() };
        for (notification, expected) in [
            ("notifications/tools/list_changed", true),
            ("notifications/prompts/list_changed", false),
            ("notifications/resources/list_changed", true),
            ("notifications/roots/list_changed", false),
            ("notifications/message", false),
        ] {
            assert_eq!(filter.has(notification), expected, "{notification}");
        }
    }
}

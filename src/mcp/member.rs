//! A member of an object in a message, to be replaced or taken out.

use std::ops::Range;

use crate::message::{Edit, Message};
use crate::raw_object::RawObject;

/// The last member of some name in an object.
pub(super) struct Member {
    /// From the member before to the end of the value, or from the brace before the first one.
    range: Range<usize>,
    is_first: bool,
    /// The end of the comma after it, if there is one.
    comma: Option<usize>,
}

impl Member {
    pub(super) fn of(message: &Message, object: &RawObject<'_>, name: &str) -> Option<Self> {
        let index = object.0.iter().rposition(|(key, _)| key == name)?;
        let value = message.range_of(object.0[index].1);
        let text = message.text();
        let start = match index.checked_sub(1) {
            Some(before) => message.range_of(object.0[before].1).end,
            // Between the brace and the value there is only its name.
            None => text[..value.start].rfind('{')? + 1,
        };
        let has_next = index + 1 < object.0.len();
        let comma =
            if has_next { Some(value.end + text[value.end..].find(',')? + 1) } else { None };
        Some(Self { range: start..value.end, is_first: index == 0, comma })
    }

    pub(super) fn removed(&self) -> Edit {
        let end = self.comma.filter(|_| self.is_first).unwrap_or(self.range.end);
        Edit { range: self.range.start..end, with: Vec::new() }
    }

    pub(super) fn replaced(&self, with: &str) -> Edit {
        let comma = if self.is_first { "" } else { "," };
        Edit { range: self.range.clone(), with: format!("{comma}{with}").into_bytes() }
    }
}

/// Returns the edits that take members out of the object that begins at `start` of a message.
pub(super) fn without(
    message: &Message,
    object: &RawObject<'_>,
    start: usize,
    names: &[&str],
) -> Vec<Edit> {
    let goes: Vec<bool> = object.0.iter().map(|(key, _)| names.contains(&&**key)).collect();
    let ends: Vec<usize> = object.0.iter().map(|(_, value)| message.range_of(value).end).collect();
    // Where a member begins: after the brace, or after the comma.
    let begin = |index: usize| match index.checked_sub(1) {
        None => start + 1,
        Some(before) => {
            let comma = message.text()[ends[before]..].find(',').unwrap_or_default();
            ends[before] + comma + 1
        }
    };
    let mut edits = Vec::new();
    let mut index = 0;
    while index < goes.len() {
        let run = goes[index..].iter().take_while(|goes| **goes).count();
        if run > 0 {
            let range = match (ends.get(index + run), index.checked_sub(1)) {
                (Some(_), _) => begin(index)..begin(index + run),
                (None, Some(before)) => ends[before]..ends[index + run - 1],
                (None, None) => start + 1..ends[index + run - 1],
            };
            edits.push(Edit { range, with: Vec::new() });
        }
        index += run + 1;
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_members_are_taken_out() {
        for (json, expected) in [
            (r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3}"#),
            (r#"{"c":3, "a":1 ,"b":2 }"#, r#"{"c":3 }"#),
            (r#"{"c":3 , "a":1, "d":{"a":1}, "b":2}"#, r#"{"c":3 , "d":{"a":1}}"#),
            (r#"{ "a":{"b":","} , "c":"a" ,"b":2,"a":2,"e":5}"#, r#"{ "c":"a" ,"e":5}"#),
            (r#"{"a":1, "b":2}"#, "{}"),
            (r#"{"c":1}"#, r#"{"c":1}"#),
            ("{}", "{}"),
        ] {
            let message = Message::whole(json.to_owned());
            let object = RawObject::of(message.text()).unwrap();
            let edits = without(&message, &object, 0, &["a", "b"]);
            assert_eq!(message.with(edits), expected, "{json}");
        }
    }
}

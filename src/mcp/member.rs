//! A member of an object in a message, to be replaced or taken out.

use std::ops::Range;

use crate::mcp::message::Edit;
use crate::mcp::message::Message;
use crate::mcp::raw_object::RawObject;

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

//! Limits on outputs, on their stand-ins, and on JSON lists that are received from other programs.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The limits that `formats.md` describes, with their defaults. [`NEVER`](Self::NEVER) turns a
/// limit off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of characters of an output that its summary shows whole. `max_inline_bytes`
    /// applies too.
    pub max_inline_chars: u64,
    /// Maximum number of bytes of an output that its summary shows whole.
    pub max_inline_bytes: u64,
    /// Number of lines of the head in a summary. The tail has the same number.
    pub snippet_lines: usize,
    /// Number of bytes of the head in a summary. The tail has the same number.
    pub snippet_bytes: usize,
    /// Maximum number of lines of an output that an envelope shows whole. `max_bytes` applies too.
    pub max_lines: u64,
    /// Maximum number of bytes of an output that an envelope shows whole.
    pub max_bytes: u64,
    /// The part of an output that an envelope shows.
    pub direction: Direction,
    /// The directory of the tool-output layout, relative to the program's current directory.
    pub dir: PathBuf,
    /// Number of days after which files of the tool-output layout are removed.
    pub retention_days: u32,
    /// Maximum number of bytes of an output that the message log contains whole.
    pub message_threshold: u64,
    /// Number of characters that the message log contains of an output above `message_threshold`.
    pub message_preview: usize,
    /// Maximum number of bytes of an output that is given whole to a host with the `tool_output`
    /// tool.
    pub tool_response_max_bytes: u64,
    /// Maximum number of tokens of an output that is given whole to a host with the `tool_output`
    /// tool. `None` if only the bytes are limited.
    pub token_budget: Option<u64>,
    /// True if outputs within the limits are stored too. A user requests this by setting a limit to
    /// `mirror`.
    pub mirror: bool,
}

/// The part of an output that is shown if the output is too long: the first lines, the last lines,
/// or half from the beginning and half from the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "described above")]
pub enum Direction {
    #[default]
    Head,
    Tail,
    HeadTail,
}

impl Limits {
    /// A limit that is never exceeded. Adding to it does not overflow.
    pub const NEVER: u64 = i64::MAX as u64;
    /// Maximum number of bytes of a stand-in. Hosts truncate outputs at 8 to 50 KB, and a stand-in
    /// must not be truncated.
    pub const STAND_IN_BYTES: usize = 6 * 1024;
    /// Maximum number of lines of a stand-in.
    pub const STAND_IN_LINES: usize = 200;
    /// Maximum number of characters of a line in a stand-in or a search result. Longer lines are
    /// cut.
    pub const LINE_CHARS: usize = 500;
    /// Maximum number of bytes of a view that is not a stand-in. All hosts that were measured read
    /// this much without truncation.
    pub const VIEW_BYTES: usize = 48 * 1024;
    /// Number of lines of `.tail` and `.head`.
    pub const TAIL_LINES: u64 = 200;

    /// Returns true if an output can exceed the limits on inline outputs.
    pub fn may_replace(&self) -> bool {
        self.max_inline_bytes < Self::NEVER || self.max_inline_chars < Self::NEVER
    }

    /// Returns true if an output of `bytes` bytes and `chars` characters is given to a model
    /// unchanged.
    pub fn are_kept_by(&self, bytes: u64, chars: u64) -> bool {
        chars <= self.max_inline_chars && bytes <= self.max_inline_bytes
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_inline_chars: 8000,
            max_inline_bytes: 16384,
            snippet_lines: Self::STAND_IN_LINES,
            snippet_bytes: 2048,
            max_lines: 2000,
            max_bytes: 51200,
            direction: Direction::Head,
            dir: PathBuf::from("tool-output"),
            retention_days: 7,
            message_threshold: 51200,
            message_preview: 500,
            tool_response_max_bytes: 12288,
            token_budget: None,
            mirror: false,
        }
    }
}

/// The limits for the output of each tool. The limits never change, because the bytes of a view
/// depend on them.
pub trait LimitsByTool: Send + Sync + std::fmt::Debug {
    /// Returns the limits of `tool`, as named by `Provenance::tool_name`. A tool without limits of
    /// its own has the default limits.
    fn limits(&self, tool: Option<&str>) -> Limits;
}

// All tools have the same limits.
impl LimitsByTool for Limits {
    fn limits(&self, _: Option<&str>) -> Limits {
        self.clone()
    }
}

/// A JSON list of at most `MOST` entries. Deserializing a longer list fails before the rest of the
/// list is in memory. This protects against servers that send millions of empty blocks.
#[derive(Debug)]
pub struct ShortList<T, const MOST: usize>(pub Vec<T>);

struct ListVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ListVisitor<T, MOST> {
    type Value = ShortList<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut taken = Vec::new();
        while let Some(entry) = list.next_element()? {
            if taken.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            taken.push(entry);
        }
        Ok(ShortList(taken))
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for ShortList<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_refused() {
        let parse = |count: usize| {
            let list = vec!["0"; count].join(",");
            serde_json::from_str::<ShortList<u8, 10_000>>(&format!("[{list}]"))
        };
        assert_eq!(parse(10_000).unwrap().0.len(), 10_000);
        assert!(parse(10_001).unwrap_err().to_string().contains("at most 10000 entries"));
        assert!(serde_json::from_str::<ShortList<u8, 9>>("{}").is_err());
    }
}

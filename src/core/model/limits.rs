//! Limits on outputs, on their stand-ins, and on lists in JSON that others send.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The limits of `formats.md`, with their defaults. A limit of [`NEVER`](Self::NEVER) is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most characters of an output that its summary shows whole.
    pub max_inline_chars: u64,
    /// The most bytes of such an output; the stricter limit decides.
    pub max_inline_bytes: u64,
    /// Lines of head, and of tail, in a summary.
    pub snippet_lines: usize,
    /// Bytes of head, and of tail, in a summary.
    pub snippet_bytes: usize,
    /// The most lines of an output that an envelope shows.
    pub max_lines: u64,
    /// The most bytes that an envelope shows; both limits apply.
    pub max_bytes: u64,
    /// The part of an output that an envelope shows.
    pub direction: Direction,
    /// The directory of the tool-output layout, relative to the program's current directory.
    pub dir: PathBuf,
    /// Days after which files of the tool-output layout are removed.
    pub retention_days: u32,
    /// The most bytes of an output that the message log holds whole.
    pub message_threshold: u64,
    /// Characters of a longer output that the message log holds.
    pub message_preview: usize,
    /// The most bytes of an output that a host with the `tool_output` tool is given whole.
    pub tool_response_max_bytes: u64,
    /// The most tokens of such an output, if limited; either limit triggers.
    pub token_budget: Option<u64>,
    /// True if an output within the limits is stored as well, because some limit is `mirror`.
    pub mirror: bool,
}

/// The part of an output that is shown if not all of it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The first lines.
    #[default]
    Head,
    /// The last lines.
    Tail,
    /// Half of each.
    HeadTail,
}

impl Limits {
    /// A limit that never triggers. Sums with it do not overflow.
    pub const NEVER: u64 = i64::MAX as u64;
    /// Bytes of a stand-in. Hosts cut outputs at 8 to 50 KB, and it must pass through them whole.
    pub const STAND_IN_BYTES: usize = 6 * 1024;
    /// Lines of a stand-in.
    pub const STAND_IN_LINES: usize = 200;
    /// Characters of a line in a stand-in or a search result; longer lines are cut.
    pub const LINE_CHARS: usize = 500;
    /// Bytes of any other view. Every host that was measured reads this much whole.
    pub const VIEW_BYTES: usize = 48 * 1024;
    /// Lines of `.tail` and `.head`.
    pub const TAIL_LINES: u64 = 200;

    /// Returns true if some output exceeds these limits.
    pub fn may_replace(&self) -> bool {
        self.max_inline_bytes < Self::NEVER || self.max_inline_chars < Self::NEVER
    }

    /// Returns true if a model is given an output of `bytes` and `chars` unchanged.
    pub fn are_kept_by(&self, bytes: u64, chars: u64) -> bool {
        chars <= self.max_inline_chars && bytes <= self.max_inline_bytes
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_inline_chars: 8000,
            max_inline_bytes: 16384,
            snippet_lines: 40,
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

/// The limits for the output of each tool. They never change: the bytes of a view depend on them.
pub trait LimitsByTool: Send + Sync + std::fmt::Debug {
    /// Returns the limits of `tool`, a name by `Provenance::tool_name`, or the limits of tools
    /// without their own.
    fn limits(&self, tool: Option<&str>) -> Limits;
}

// One set of limits for every tool.
impl LimitsByTool for Limits {
    fn limits(&self, _: Option<&str>) -> Limits {
        self.clone()
    }
}

/// A list in JSON of at most `MOST` entries. A longer one is an error, before it takes memory: a
/// server may send millions of empty blocks.
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

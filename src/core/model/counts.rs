//! Counts of what was stored, handed out and asked, and of what was saved.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A number of events and their total size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Events.
    pub times: u64,
    /// Bytes.
    pub bytes: u64,
    /// Tokens, as `materialize` estimates them.
    pub tokens: u64,
}

/// Counts of events; each only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Outputs, and later additions to one.
    #[serde(skip_serializing_if = "is_default")]
    pub stored: Amount,
    /// Stand-ins that were given to a model, or the output itself if that is short.
    #[serde(skip_serializing_if = "is_default")]
    pub handed: Amount,
    /// Reads of all other views.
    #[serde(skip_serializing_if = "is_default")]
    pub read: Amount,
    /// Outputs that a rule removed.
    #[serde(skip_serializing_if = "is_default")]
    pub expired: Amount,
    /// Outputs that a person or program removed.
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: Amount,
    /// Calls through the gateway.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: CallCounts,
    /// Light indexes of the gateway.
    #[serde(skip_serializing_if = "is_default")]
    pub index: IndexCounts,
    /// Questions to language models. The log of each conversation has them.
    #[serde(skip_serializing_if = "is_default")]
    pub questions: QuestionCounts,
    /// Reads of each kind of view.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub views: BTreeMap<String, u64>,
}

/// The counts of one day for the outputs of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyCounts {
    /// The day, UTC: `2026-01-13`.
    pub day: String,
    /// The tool, with its server; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The most tools that are counted by name: of a conversation on one day, and in sums. Clients name
/// the tools of their outputs as they like.
pub const MOST_TOOLS: usize = 500;
/// The name under which all other tools are counted.
pub const OTHER_TOOLS: &str = "(other)";
/// The longest name of a tool that is counted, in bytes. Longer ones are among [`OTHER_TOOLS`].
const LONGEST_TOOL: usize = 256;

/// Returns the name under which the outputs of `tool` are counted.
pub fn counted_tool(tool: String) -> String {
    if tool.len() <= LONGEST_TOOL { tool } else { OTHER_TOOLS.to_owned() }
}

/// Sums of counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// The sum of all counts.
    pub total: Counts,
    /// By tool; `""` stands for outputs whose tool is not known. Of more than [`MOST_TOOLS`] the
    /// half with the fewest events is summed up as [`OTHER_TOOLS`].
    pub by_tool: BTreeMap<String, Counts>,
    /// By day.
    pub by_day: BTreeMap<String, Counts>,
}

impl Sums {
    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.total += &other.total;
        for (day, counts) in &other.by_day {
            *self.by_day.entry(day.clone()).or_default() += counts;
        }
        for (tool, counts) in &other.by_tool {
            self.add_tool(tool, counts);
        }
    }

    /// Adds daily counts.
    pub fn add(&mut self, counted: &[DailyCounts]) {
        for DailyCounts { day, tool, counts } in counted {
            self.total += counts;
            self.add_tool(tool, counts);
            *self.by_day.entry(day.clone()).or_default() += counts;
        }
    }
}

impl Sums {
    fn add_tool(&mut self, tool: &str, counts: &Counts) {
        *self.by_tool.entry(tool.to_owned()).or_default() += counts;
        if self.by_tool.len() > MOST_TOOLS {
            let mut all: Vec<_> = std::mem::take(&mut self.by_tool).into_iter().collect();
            all.sort_by_key(|(_, counts)| Reverse(counts.events()));
            let few = all.split_off(MOST_TOOLS / 2);
            self.by_tool.extend(all);
            for (_, counts) in few {
                *self.by_tool.entry(OTHER_TOOLS.to_owned()).or_default() += &counts;
            }
        }
    }
}

impl Amount {
    /// Returns the amount of one event.
    pub fn once(bytes: u64, tokens: u64) -> Self {
        Self { times: 1, bytes, tokens }
    }
}

impl Counts {
    /// Returns true if something happened to an output.
    pub fn is_about_outputs(&self) -> bool {
        let amounts = [self.stored, self.handed, self.read, self.expired, self.deleted];
        amounts.iter().any(|amount| amount.times > 0)
    }

    /// Returns the number of events of all kinds.
    fn events(&self) -> u64 {
        let amounts = [self.stored, self.handed, self.read, self.expired, self.deleted];
        amounts.iter().map(|amount| amount.times).sum::<u64>()
            + self.calls.times
            + self.questions.times
    }

    /// Returns the bytes that the model was spared: those stored, less those it was given. Negative
    /// if it was given more, for example by reading the same part twice.
    pub fn saved_bytes(&self) -> i64 {
        saved(self.stored.bytes, self.handed.bytes, self.read.bytes)
    }

    /// Returns what [`Counts::saved_bytes`] does, in tokens.
    pub fn saved_tokens(&self) -> i64 {
        saved(self.stored.tokens, self.handed.tokens, self.read.tokens)
    }
}

fn saved(stored: u64, handed: u64, read: u64) -> i64 {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    signed(stored).saturating_sub(signed(handed)).saturating_sub(signed(read))
}

fn is_default<T: Default + PartialEq>(counts: &T) -> bool {
    *counts == T::default()
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.stored += other.stored;
        self.handed += other.handed;
        self.read += other.read;
        self.expired += other.expired;
        self.deleted += other.deleted;
        self.calls += other.calls;
        self.index += other.index;
        self.questions += other.questions;
        for (view, times) in &other.views {
            *self.views.entry(view.clone()).or_default() += times;
        }
    }
}

/// Calls of a tool that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounts {
    /// Calls.
    pub times: u64,
    /// Those that failed.
    pub errors: u64,
    /// Milliseconds that they took.
    pub millis: u64,
    /// Bytes of the answers of the server.
    pub received: u64,
    /// Bytes of what the client got of them.
    pub given: u64,
}

/// Light indexes that stood for the schemas of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IndexCounts {
    /// Sessions that were told an index.
    pub times: u64,
    /// Tokens of the indexes.
    pub tokens: u64,
    /// Tokens of the schemas that they stood for.
    pub schemas: u64,
}

/// Questions about outputs, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionCounts {
    /// Questions.
    pub times: u64,
    /// Those that were answered before.
    pub cached: u64,
    /// Calls of models.
    pub calls: u64,
    /// Tokens of the requests.
    pub input: u64,
    /// Tokens of the replies.
    pub output: u64,
    /// Their price in billionths of a dollar.
    pub nanodollars: u64,
    /// Milliseconds that they took.
    pub millis: u64,
}

impl AddAssign for QuestionCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.cached = self.cached.saturating_add(other.cached);
        self.calls = self.calls.saturating_add(other.calls);
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.nanodollars = self.nanodollars.saturating_add(other.nanodollars);
        self.millis = self.millis.saturating_add(other.millis);
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.errors = self.errors.saturating_add(other.errors);
        self.millis = self.millis.saturating_add(other.millis);
        self.received = self.received.saturating_add(other.received);
        self.given = self.given.saturating_add(other.given);
    }
}

impl AddAssign for IndexCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.schemas = self.schemas.saturating_add(other.schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_amounts_may_be_negative() {
        let mut counts = Counts { stored: Amount::once(100, 30), ..Counts::default() };
        counts += &Counts { handed: Amount::once(20, 6), ..Counts::default() };
        assert_eq!((counts.saved_bytes(), counts.saved_tokens()), (80, 24));
        for _ in 0..2 {
            counts += &Counts { read: Amount::once(50, 15), ..Counts::default() };
        }
        assert_eq!((counts.saved_bytes(), counts.saved_tokens()), (-20, -6));
        assert_eq!(counts.read.times, 2);
    }

    #[test]
    fn zero_counts_are_not_written() {
        let mut counted = DailyCounts {
            day: "2026-01-13".into(),
            tool: String::new(),
            counts: Counts::default(),
        };
        assert_eq!(serde_json::to_string(&counted).unwrap(), "{\"day\":\"2026-01-13\"}");
        counted.counts.views.insert("tail".into(), 2);
        counted.counts.expired = Amount::once(1, 1);
        let text = serde_json::to_string(&counted).unwrap();
        assert_eq!(serde_json::from_str::<DailyCounts>(&text).unwrap(), counted);
    }

    #[test]
    fn the_tools_with_most_events_keep_their_names() {
        let mut sums = Sums::default();
        let day = || "2026-01-13".to_owned();
        for number in 0..10 * MOST_TOOLS {
            let counts = Counts { stored: Amount::once(1, 1), ..Counts::default() };
            for tool in [format!("tool-{number}"), "zsh".to_owned()] {
                sums.add(&[DailyCounts { day: day(), tool, counts: counts.clone() }]);
                assert!(sums.by_tool.len() <= MOST_TOOLS);
            }
        }
        assert_eq!(sums.by_tool["zsh"].stored.times as usize, 10 * MOST_TOOLS);
        let all: u64 = sums.by_tool.values().map(|counts| counts.stored.times).sum();
        assert_eq!(all, sums.total.stored.times, "the others count as one");
        let mut twice = sums.clone();
        twice.merge(&sums);
        assert_eq!(twice.by_tool["zsh"].stored.times as usize, 20 * MOST_TOOLS);
    }
}

//! Counts of stored, delivered and saved bytes and tokens, of calls, and of questions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// A number of events, and their total size in bytes and in tokens. `materialize` estimates the
/// tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Amount {
    pub times: u64,
    pub bytes: u64,
    pub tokens: u64,
}

/// Counts of events. A count never decreases.
///
/// - `stored`: outputs, and later additions to them.
/// - `handed`: stand-ins that were given to a model, and outputs that are short enough to be given
///   to it directly.
/// - `read`: reads of all other views. `views` counts the reads of each kind of view.
/// - `expired`: outputs that a rule removed.
/// - `deleted`: outputs that a person or program removed.
/// - `calls`: calls of tools through the gateway. `index` counts the sessions with a light index.
/// - `questions`: questions to language models. The log of each conversation lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Counts {
    #[serde(skip_serializing_if = "is_default")]
    pub stored: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub handed: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub read: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub expired: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub calls: CallCounts,
    #[serde(skip_serializing_if = "is_default")]
    pub index: IndexCounts,
    #[serde(skip_serializing_if = "is_default")]
    pub questions: QuestionCounts,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub views: BTreeMap<String, u64>,
}

/// The counts of one day for the outputs of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyCounts {
    /// The day, UTC: `2026-01-13`.
    pub day: String,
    /// The tool with its server, such as `server/tool`; empty if the tool is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Maximum number of tools that are counted by name: on each day of a conversation, and in
/// [`Sums`]. Clients choose the names of tools, so the number must be bounded.
pub const MOST_TOOLS: usize = 500;
/// The name under which all other tools are counted.
pub const OTHER_TOOLS: &str = "(other)";
// Maximum length in bytes of the name of a tool. Tools with longer names count as [`OTHER_TOOLS`].
const LONGEST_TOOL: usize = 256;

/// Returns the name under which the outputs of `tool` are counted.
pub fn counted_tool(tool: String) -> String {
    if tool.len() <= LONGEST_TOOL { tool } else { OTHER_TOOLS.to_owned() }
}

/// Sums of counts: in total, by tool and by day.
///
/// The tool `""` stands for outputs whose tool is not known. When there are more than
/// [`MOST_TOOLS`] tools, the less frequent half of them is merged into [`OTHER_TOOLS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Sums {
    pub total: Counts,
    pub by_tool: BTreeMap<String, Counts>,
    pub by_day: BTreeMap<String, Counts>,
}

impl Sums {
    /// Adds all counts of `other`.
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
    /// Returns true if any output was stored, read or removed.
    pub fn is_about_outputs(&self) -> bool {
        let amounts = [self.stored, self.handed, self.read, self.expired, self.deleted];
        amounts.iter().any(|amount| amount.times > 0)
    }

    fn events(&self) -> u64 {
        let amounts = [self.stored, self.handed, self.read, self.expired, self.deleted];
        amounts.iter().map(|amount| amount.times).sum::<u64>()
            + self.calls.times
            + self.questions.times
    }

    /// Returns the number of bytes or tokens that the model did not have to read: the stored ones
    /// minus the ones given to the model. `of` selects bytes or tokens. The result is negative if
    /// the model was given more than was stored, for example because it read the same part twice.
    pub fn saved(&self, of: fn(&Amount) -> u64) -> i64 {
        let signed = |amount: &Amount| i64::try_from(of(amount)).unwrap_or(i64::MAX);
        let given = signed(&self.handed).saturating_add(signed(&self.read));
        signed(&self.stored).saturating_sub(given)
    }
}

fn is_default<T: Default + PartialEq>(counts: &T) -> bool {
    *counts == T::default()
}

macro_rules! add_fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }
        }
    )*};
}

add_fields! {
    Amount { times, bytes, tokens }
    CallCounts { times, errors, millis, received, given }
    IndexCounts { times, tokens, schemas }
    QuestionCounts { times, cached, calls, input, output, nanodollars, millis }
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

/// Finished calls of a tool. `times` is the number of calls, `errors` the number of failed calls,
/// and `millis` the total duration in milliseconds. `received` is the number of bytes of the
/// server's answers, and `given` the number of these bytes that were given to the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct CallCounts {
    pub times: u64,
    pub errors: u64,
    pub millis: u64,
    pub received: u64,
    pub given: u64,
}

/// Sessions that were given a light index instead of the schemas of tools. `times` is the number of
/// sessions, `tokens` the size of the indexes in tokens, and `schemas` the size of the schemas in
/// tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct IndexCounts {
    pub times: u64,
    pub tokens: u64,
    pub schemas: u64,
}

/// Questions about outputs, and their cost.
///
/// `times` counts all questions, and `cached` the questions that had been answered before. `calls`
/// counts calls of models. `input` and `output` count the tokens of requests and replies.
/// `nanodollars` is the price in billionths of a dollar. `millis` is the duration in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct QuestionCounts {
    pub times: u64,
    pub cached: u64,
    pub calls: u64,
    pub input: u64,
    pub output: u64,
    pub nanodollars: u64,
    pub millis: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_amounts_may_be_negative() {
        let mut counts = Counts { stored: Amount::once(100, 30), ..Counts::default() };
        counts += &Counts { handed: Amount::once(20, 6), ..Counts::default() };
        assert_eq!(
            (counts.saved(|amount| amount.bytes), counts.saved(|amount| amount.tokens)),
            (80, 24)
        );
        for _ in 0..2 {
            counts += &Counts { read: Amount::once(50, 15), ..Counts::default() };
        }
        assert_eq!(
            (counts.saved(|amount| amount.bytes), counts.saved(|amount| amount.tokens)),
            (-20, -6)
        );
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

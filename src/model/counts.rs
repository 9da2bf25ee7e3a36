//! What was stored, what was handed out, and so what was saved.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Deserialize;
use serde::Serialize;

/// How often something happened, and how much it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How often.
    pub times: u64,
    /// Bytes.
    pub bytes: u64,
    /// Tokens, as `materialize` estimates them.
    pub tokens: u64,
}

/// What was counted; everything only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Outputs, and what was added to one later.
    #[serde(skip_serializing_if = "is_nothing")]
    pub stored: Amount,
    /// Stand-ins: what was given to a model in place of an output, or the output itself where that is
    /// short.
    #[serde(skip_serializing_if = "is_nothing")]
    pub handed: Amount,
    /// What was read through the other views.
    #[serde(skip_serializing_if = "is_nothing")]
    pub read: Amount,
    /// Outputs that a rule removed.
    #[serde(skip_serializing_if = "is_nothing")]
    pub expired: Amount,
    /// Outputs that somebody removed.
    #[serde(skip_serializing_if = "is_nothing")]
    pub deleted: Amount,
    /// How often each kind of view was read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub views: BTreeMap<String, u64>,
}

/// What happened on a day with the outputs of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyCounts {
    /// The day, UTC: `2026-01-13`.
    pub day: String,
    /// The tool, with its server; empty, where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What was counted, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// All of it.
    pub total: Counts,
    /// By tool; `""` is that of outputs whose tool nobody said.
    pub by_tool: BTreeMap<String, Counts>,
    /// By day.
    pub by_day: BTreeMap<String, Counts>,
}

impl Sums {
    /// Takes in other sums.
    pub fn merge(&mut self, other: &Self) {
        self.total += &other.total;
        for (mine, others) in
            [(&mut self.by_tool, &other.by_tool), (&mut self.by_day, &other.by_day)]
        {
            for (name, counts) in others {
                *mine.entry(name.clone()).or_default() += counts;
            }
        }
    }

    /// Takes in what was counted.
    pub fn add(&mut self, counted: &[DailyCounts]) {
        for DailyCounts { day, tool, counts } in counted {
            self.total += counts;
            *self.by_tool.entry(tool.clone()).or_default() += counts;
            *self.by_day.entry(day.clone()).or_default() += counts;
        }
    }
}

impl Amount {
    /// Of something that happened once.
    pub fn once(bytes: u64, tokens: u64) -> Self {
        Self { times: 1, bytes, tokens }
    }
}

impl Counts {
    /// Bytes that the model was spared: those stored, without those it was given. Negative where it
    /// was given more, as by reading the same part twice.
    pub fn saved_bytes(&self) -> i64 {
        saved(self.stored.bytes, self.handed.bytes, self.read.bytes)
    }

    /// As [`Counts::saved_bytes`], in tokens.
    pub fn saved_tokens(&self) -> i64 {
        saved(self.stored.tokens, self.handed.tokens, self.read.tokens)
    }
}

fn saved(stored: u64, handed: u64, read: u64) -> i64 {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    signed(stored).saturating_sub(signed(handed)).saturating_sub(signed(read))
}

fn is_nothing(amount: &Amount) -> bool {
    *amount == Amount::default()
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
        for (view, times) in &other.views {
            *self.views.entry(view.clone()).or_default() += times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_may_be_negative() {
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
    fn what_did_not_happen_is_not_written() {
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
}

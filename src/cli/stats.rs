//! `ctxfs stats`: counts of what was stored and handed out, and of the tokens that this saved.

mod calls;
mod chart;
mod questions;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::args::{Cli, StatsArgs};
use crate::context::Context;
use crate::{ls, unread};
use ctxfs_core::model::{Amount, Counts, Sums, visible};
use ctxfs_engine::{ConversationCounts, Engine, EngineOptions};
use ctxfs_store::Store;

/// Days in the chart.
const DAYS: usize = 30;
/// The label of outputs without a tool.
const NAMELESS: &str = "(no tool)";

/// The counts of one conversation or of all.
struct StatsReport {
    sums: Sums,
    by_conversation: BTreeMap<String, Counts>,
}

pub(super) fn run(args: &StatsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let options = EngineOptions { redaction: settings.redaction()?, ..EngineOptions::default() };
    let engine = Engine::new(Store::open(&settings.store(&context.environment)?)?, options);
    let only = args.conversation.as_ref().map(|id| ls::find(engine.store(), id)).transpose()?;
    let mut counts = engine.counts(only.as_ref().map(|only| only.id()))?;
    let unread = std::mem::take(&mut counts.unread);
    let report = StatsReport::of(counts);
    if report.sums.total == Counts::default() && unread.is_empty() {
        context.printer.say(&"nothing has been counted yet");
    }
    let text = if cli.json { report.json().to_string() + "\n" } else { report.text() };
    context.printer.data(&text)?;
    unread::report(&unread, context)
}

impl StatsReport {
    fn of(counts: ConversationCounts) -> Self {
        let by_conversation = counts.by_conversation.into_iter();
        let by_conversation = by_conversation.map(|(id, counts)| (id.to_text(), counts)).collect();
        Self { sums: counts.sums, by_conversation }
    }

    fn json(&self) -> Value {
        let all = |counts: &BTreeMap<String, Counts>| {
            let values = counts.iter().map(|(name, counts)| (name.clone(), value(counts)));
            Value::Object(values.collect::<Map<_, _>>())
        };
        json!({
            "total": value(&self.sums.total),
            "tools": all(&self.sums.by_tool),
            "conversations": all(&self.by_conversation),
            "days": all(&self.sums.by_day),
        })
    }

    fn text(&self) -> String {
        let mut text = table("tool", &self.sums.by_tool, &self.sums.total);
        if self.by_conversation.len() > 1 {
            text += "\n";
            text += &table("conversation", &self.by_conversation, &self.sums.total);
        }
        let Counts { views, expired, deleted, .. } = &self.sums.total;
        let mut views: Vec<_> = views.iter().collect();
        views.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let views: Vec<_> = views.iter().map(|(view, times)| format!("{view} {times}")).collect();
        if !views.is_empty() {
            let _ = writeln!(text, "\nviews read: {}", views.join(", "));
        }
        for (what, amount) in [("removed by a rule", expired), ("removed by a user", deleted)] {
            if amount.times > 0 {
                let _ =
                    writeln!(text, "{what}: {} outputs, {}", amount.times, ls::size(amount.bytes));
            }
        }
        text += &calls::table(&self.sums.by_tool, &self.sums.total.calls);
        text += &calls::index(&self.sums.total.index);
        text += &questions::table(&self.sums.by_tool, &self.sums.total.questions);
        text + &chart::days(&self.sums.by_day, DAYS)
    }
}

fn value(counts: &Counts) -> Value {
    let amount = |amount: &Amount| json!({ "times": amount.times, "bytes": amount.bytes, "tokens": amount.tokens });
    json!({
        "stored": amount(&counts.stored), "handed": amount(&counts.handed), "read": amount(&counts.read),
        "expired": amount(&counts.expired), "deleted": amount(&counts.deleted), "views": counts.views,
        "calls": counts.calls, "index": counts.index, "questions": counts.questions,
        "savedBytes": counts.saved_bytes(), "savedTokens": counts.saved_tokens(),
    })
}

/// Formats a line for each name, most stored tokens first, and one for the total.
fn table(of: &str, rows: &BTreeMap<String, Counts>, total: &Counts) -> String {
    let mut rows: Vec<_> = rows.iter().filter(|(_, counts)| counts.is_about_outputs()).collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.stored.tokens));
    let named =
        |name: &str| if name.is_empty() { NAMELESS.to_owned() } else { visible::whole(name) };
    let rows = rows.into_iter().map(|(name, counts)| (named(name), counts));
    let mut text = format!(
        "{:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  {of}\n",
        "outputs", "stored", "tokens", "handed", "read", "saved"
    );
    for (name, counts) in rows.chain([("all".to_owned(), total)]) {
        let Counts { stored, handed, read, .. } = counts;
        let _ = writeln!(
            text,
            "{:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  {name}",
            stored.times,
            ls::size(stored.bytes),
            thousands(stored.tokens as i64),
            thousands(handed.tokens as i64),
            thousands(read.tokens as i64),
            thousands(counts.saved_tokens()),
        );
    }
    text
}

/// Formats a number of tokens: `12.3k`, `-4.5M`.
fn thousands(number: i64) -> String {
    let size = number.unsigned_abs();
    let sign = if number < 0 { "-" } else { "" };
    let (unit, name) = match size {
        0..10_000 => return number.to_string(),
        10_000..1_000_000 => (1_000.0, "k"),
        1_000_000..1_000_000_000 => (1_000_000.0, "M"),
        _ => (1_000_000_000.0, "G"),
    };
    format!("{sign}{:.1}{name}", size as f64 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [(0, "0"), (9_999, "9999"), (-12_345, "-12.3k"), (7_650_000, "7.7M")];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn the_table_ends_with_the_total() {
        let counts = |tokens| Counts { stored: Amount::once(2048, tokens), ..Counts::default() };
        let rows = BTreeMap::from([(String::new(), counts(1)), ("sh/exec".to_owned(), counts(2))]);
        let text = table("tool", &rows, &counts(3));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].ends_with("saved  tool"), "{text}");
        assert!(lines[1].ends_with("  sh/exec") && lines[2].ends_with("  (no tool)"), "{text}");
        assert_eq!(lines[3], "       1      2.0K         3         0         0         3  all");
    }
}

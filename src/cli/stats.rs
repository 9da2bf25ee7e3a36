//! `ctxfs stats`: shows how many outputs were stored and read back, and how many tokens their
//! stand-ins saved.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::{ToSpan as _, civil::Date};
use serde_json::{Map, Value, json};

use crate::{Cli, Context, args::StatsArgs, context, output, places};
use ctxfs_core::model::{Amount, CallCounts, Counts, IndexCounts, QuestionCounts, Sums, visible};
use ctxfs_engine::{ConversationCounts, Engine, EngineOptions};
use ctxfs_store::Store;

const DAYS: usize = 30;
const NAMELESS: &str = "(no tool)";

struct StatsReport {
    sums: Sums,
    by_conversation: BTreeMap<String, Counts>,
}

pub(crate) fn run(args: &StatsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let options = EngineOptions { redaction: settings.redaction()?, ..EngineOptions::default() };
    let engine = Engine::new(Store::open(&settings.store(&context.environment)?)?, options);
    let only = args
        .conversation
        .as_ref()
        .map(|id| places::find_conversation(engine.store(), id))
        .transpose()?;
    let mut counts = engine.counts(only.as_ref().map(|only| only.id()))?;
    let unread = std::mem::take(&mut counts.unread);
    let report = StatsReport::of(counts);
    if report.sums.total == Counts::default() && unread.is_empty() {
        context.printer.message(&"nothing has been counted yet");
    }
    context.printer.report(|| report.text(), || report.json())?;
    context::report_unread(&unread, context)
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
                let _ = writeln!(
                    text,
                    "{what}: {} outputs, {}",
                    amount.times,
                    output::size(amount.bytes)
                );
            }
        }
        text += &calls_table(&self.sums.by_tool, &self.sums.total.calls);
        text += &index_line(&self.sums.total.index);
        text += &questions_table(&self.sums.by_tool, &self.sums.total.questions);
        text + &days_chart(&self.sums.by_day, DAYS)
    }
}

fn value(counts: &Counts) -> Value {
    let amount = |amount: &Amount| json!({ "times": amount.times, "bytes": amount.bytes, "tokens": amount.tokens });
    json!({
        "stored": amount(&counts.stored), "handed": amount(&counts.handed), "read": amount(&counts.read),
        "expired": amount(&counts.expired), "deleted": amount(&counts.deleted), "views": counts.views,
        "calls": counts.calls, "index": counts.index, "questions": counts.questions,
        "savedBytes": counts.saved(|amount| amount.bytes), "savedTokens": counts.saved(|amount| amount.tokens),
    })
}

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
            output::size(stored.bytes),
            thousands(stored.tokens as i64),
            thousands(handed.tokens as i64),
            thousands(read.tokens as i64),
            thousands(counts.saved(|amount| amount.tokens)),
        );
    }
    text
}

// Formats a number: `12.3k`, `-4.5M`.
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

fn calls_table(by_tool: &BTreeMap<String, Counts>, total: &CallCounts) -> String {
    let mut rows: Vec<(&str, &CallCounts)> =
        by_tool.iter().map(|(tool, counts)| (tool.as_str(), &counts.calls)).collect();
    rows.retain(|(_, calls)| calls.times > 0);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.times));
    rows.push(("all", total));
    let mut text = format!(
        "\n{:>8} {:>9} {:>9} {:>9} {:>9}  tool\n",
        "calls", "errors", "time", "results", "given"
    );
    for (tool, calls) in rows {
        let CallCounts { times, errors, millis, received, given } = calls;
        let (time, received, given) =
            (time(*millis), output::size(*received), output::size(*given));
        let _ = writeln!(
            text,
            "{times:>8} {errors:>9} {time:>9} {received:>9} {given:>9}  {}",
            visible::whole(tool)
        );
    }
    text
}

fn index_line(index: &IndexCounts) -> String {
    let IndexCounts { times, tokens, schemas } = index;
    if *times == 0 {
        return String::new();
    }
    format!("\nsessions with a light index: {times}, {tokens} tokens in place of {schemas}\n")
}

fn time(millis: u64) -> String {
    let time = std::time::Duration::from_millis(millis);
    match time.as_secs() {
        0..100 => format!("{:.1}s", time.as_secs_f64()),
        100..6000 => format!("{}m", time.as_secs() / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

fn questions_table(by_tool: &BTreeMap<String, Counts>, total: &QuestionCounts) -> String {
    let asked = by_tool.iter().map(|(tool, counts)| (tool.as_str(), &counts.questions));
    let mut rows: Vec<(&str, &QuestionCounts)> = asked.filter(|(_, of)| of.times > 0).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(_, of)| std::cmp::Reverse((of.nanodollars, of.input, of.times)));
    rows.push(("all", total));
    let mut text = format!(
        "\n{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}  tool\n",
        "questions", "cached", "calls", "time", "tokens in", "out", "dollars"
    );
    for (tool, of) in rows {
        let tool = if tool.is_empty() { NAMELESS.to_owned() } else { visible::whole(tool) };
        let _ = writeln!(
            text,
            "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}  {tool}",
            of.times,
            of.cached,
            of.calls,
            time(of.millis),
            thousands(of.input as i64),
            thousands(of.output as i64),
            dollars(of.nanodollars),
        );
    }
    text
}

// Formats an amount with a precision of a millionth of a dollar.
fn dollars(nanodollars: u64) -> String {
    let millionths = nanodollars.div_ceil(1000);
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

fn days_chart(by_day: &BTreeMap<String, Counts>, most: usize) -> String {
    let Some(last) = by_day.keys().filter_map(|day| day.parse::<Date>().ok()).max() else {
        return String::new();
    };
    let first = by_day.keys().filter_map(|day| day.parse::<Date>().ok()).min().unwrap_or(last);
    let day = |back: i64| last.checked_sub(back.days()).ok().filter(|day| *day >= first);
    let mut days: Vec<Date> = (0..most as i64).map_while(day).collect();
    days.reverse();
    let counted = |of: fn(&Counts) -> u64| -> Vec<u64> {
        days.iter().map(|day| by_day.get(&day.to_string()).map_or(0, of)).collect()
    };
    let stored = counted(|counts| counts.stored.tokens);
    let given = counted(|counts| counts.handed.tokens.saturating_add(counts.read.tokens));
    let top = stored.iter().chain(&given).copied().max().unwrap_or(0);
    let (from, to) = (days.first().unwrap_or(&last), last);
    format!(
        "\ntokens a day, {from} to {to}, up to {top}\nstored {}\ngiven  {}\n",
        bars(&stored, top),
        bars(&given, top),
    )
}

fn bars(numbers: &[u64], top: u64) -> String {
    let level = |number: u64| (u128::from(number) * 8).div_ceil(u128::from(top.max(1))) as usize;
    let bar = |number: &u64| if *number == 0 { ' ' } else { BARS[level(*number).clamp(1, 8) - 1] };
    numbers.iter().map(bar).collect::<String>().trim_end().to_owned()
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

    #[test]
    fn the_table_has_tools_that_were_called() {
        let calls =
            |times| CallCounts { times, errors: 1, millis: 90_500, received: 2048, given: 10 };
        let counts = |times| Counts { calls: calls(times), ..Counts::default() };
        let rows = BTreeMap::from([
            ("a/x".to_owned(), counts(2)),
            ("b/y".to_owned(), counts(3)),
            ("c/z".to_owned(), Counts::default()),
        ]);
        let text = calls_table(&rows, &calls(5));
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "       3         1     90.5s      2.0K        10  b/y");
        assert!(lines.len() == 3 && lines[1].ends_with("  a/x") && lines[2].ends_with("  all"));
        assert_eq!(calls_table(&BTreeMap::new(), &CallCounts::default()), "");
        assert_eq!([0, 99_900, 720_000, 7_200_000].map(time), ["0.0s", "99.9s", "12m", "2h"]);
    }

    #[test]
    fn the_dearest_come_first() {
        let of = |times, nanodollars| QuestionCounts {
            times,
            nanodollars,
            input: 12_000,
            ..QuestionCounts::default()
        };
        let counts = |questions| Counts { questions, ..Counts::default() };
        let rows = BTreeMap::from([
            (String::new(), counts(of(1, 1_500_000))),
            ("sh/exec".to_owned(), counts(of(2, 2_000_000_001))),
            ("never".to_owned(), Counts::default()),
        ]);
        let text = questions_table(&rows, &of(3, 2_001_500_001));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].ends_with("  2.000001  sh/exec"), "{text}");
        assert!(
            lines[1].ends_with("  0.001500  (no tool)") && lines[2].ends_with("  all"),
            "{text}"
        );
        assert_eq!(lines.len(), 3);
        assert_eq!(questions_table(&BTreeMap::new(), &of(0, 0)), "");
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bars(&[0, 1, 50, 51, 100, 0], 100), " \u{2581}\u{2584}\u{2585}\u{2588}");
        assert_eq!(bars(&[u64::MAX], u64::MAX), "\u{2588}");
        assert_eq!(bars(&[], 0), "");
    }

    #[test]
    fn days_without_counts_are_gaps() {
        let counts = |tokens| Counts { stored: Amount::once(1, tokens), ..Counts::default() };
        let by_day = BTreeMap::from([
            ("2026-02-27".to_owned(), counts(8)),
            ("2026-03-02".to_owned(), counts(4)),
            ("someday".to_owned(), counts(4)),
        ]);
        let text = days_chart(&by_day, 30);
        let bars = "stored \u{2588}  \u{2584}";
        let want = format!("\ntokens a day, 2026-02-27 to 2026-03-02, up to 8\n{bars}\ngiven  \n");
        assert_eq!(text, want);
        assert!(days_chart(&by_day, 2).contains("2026-03-01 to 2026-03-02, up to 4"));
        assert_eq!(days_chart(&BTreeMap::new(), 30), "");
    }
}

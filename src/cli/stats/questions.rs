//! The questions to language models, and what they cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::stats::calls::time;
use crate::stats::{NAMELESS, thousands};
use ctxfs_core::model::{Counts, QuestionCounts, visible};

/// Returns a line for each tool whose outputs were asked about, the dearest first, and one for the
/// total; nothing without questions.
pub(super) fn table(by_tool: &BTreeMap<String, Counts>, total: &QuestionCounts) -> String {
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

/// Formats billionths of a dollar as dollars, exactly to a millionth.
fn dollars(nanodollars: u64) -> String {
    let millionths = nanodollars.div_ceil(1000);
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = table(&rows, &of(3, 2_001_500_001));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].ends_with("  2.000001  sh/exec"), "{text}");
        assert!(
            lines[1].ends_with("  0.001500  (no tool)") && lines[2].ends_with("  all"),
            "{text}"
        );
        assert_eq!(lines.len(), 3);
        assert_eq!(table(&BTreeMap::new(), &of(0, 0)), "");
    }
}

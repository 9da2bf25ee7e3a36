//! A chart of one bar a day.

use std::collections::BTreeMap;

use jiff::ToSpan as _;
use jiff::civil::Date;

use ctxfs_core::model::Counts;

/// The bars from lowest to highest: U+2581 to U+2588.
const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// Draws the tokens stored and handed out on up to `most` days that end with the last counted one.
/// Returns an empty text if nothing was counted.
pub(super) fn days(by_day: &BTreeMap<String, Counts>, most: usize) -> String {
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

/// Draws a bar for each number in proportion to `top`, and a space for 0.
fn bars(numbers: &[u64], top: u64) -> String {
    let level = |number: u64| (u128::from(number) * 8).div_ceil(u128::from(top.max(1))) as usize;
    let bar = |number: &u64| if *number == 0 { ' ' } else { BARS[level(*number).clamp(1, 8) - 1] };
    numbers.iter().map(bar).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::model::Amount;

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
        let text = days(&by_day, 30);
        let bars = "stored \u{2588}  \u{2584}";
        let want = format!("\ntokens a day, 2026-02-27 to 2026-03-02, up to 8\n{bars}\ngiven  \n");
        assert_eq!(text, want);
        assert!(days(&by_day, 2).contains("2026-03-01 to 2026-03-02, up to 4"));
        assert_eq!(days(&BTreeMap::new(), 30), "");
    }
}

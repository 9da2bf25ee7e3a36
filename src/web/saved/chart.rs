//! Plots of what was saved, as drawings in the page.

use maud::{Markup, html};

use crate::quantity;
use ctxfs_core::model::{Counts, visible};

/// The size of a plot, in units of its drawing.
const WIDTH: u64 = 720;
const HEIGHT: u64 = 160;
/// The height of a row, and the width of the names before the bars.
const ROW: u64 = 22;
const NAMES: u64 = 190;
/// Characters of a name.
const NAME: usize = 28;

/// The numbers of one bar.
pub(super) struct Bar<'a> {
    name: &'a str,
    stored: u64,
    /// Handed out and read back.
    given: u64,
}

impl<'a> Bar<'a> {
    pub(super) fn of(name: &'a str, counts: &Counts) -> Self {
        let given = counts.handed.tokens.saturating_add(counts.read.tokens);
        Self { name, stored: counts.stored.tokens, given }
    }

    fn told(&self) -> String {
        let (stored, given) = (quantity::grouped(self.stored), quantity::grouped(self.given));
        let name = visible::whole(self.name);
        format!("{name}: {stored} stored, {given} handed out and read back")
    }
}

/// Returns a plot with a column for each bar.
pub(super) fn columns(id: &str, bars: &[Bar<'_>]) -> Markup {
    if bars.is_empty() {
        return html! {};
    }
    let most = most(bars);
    let step = (WIDTH / bars.len() as u64).clamp(4, 60);
    let view = format!("0 0 {WIDTH} {}", HEIGHT + 20);
    let title = format!("{id}-title");
    html! {
        svg role="img" aria-labelledby=(title) viewBox=(view) {
            title id=(title) { "Columns: " (summary(bars)) }
            @for (at, bar) in bars.iter().enumerate() {
                @let x = at as u64 * step;
                @let stored = scaled(bar.stored, most, HEIGHT);
                @let given = scaled(bar.given, most, HEIGHT);
                g {
                    title { (bar.told()) }
                    rect.stored x=(x) y=(HEIGHT - stored) width=(step - 2) height=(stored) {}
                    rect.given x=(x) y=(HEIGHT - given) width=(step - 2) height=(given) {}
                }
            }
            text x="0" y=(HEIGHT + 16) { (bars[0].name) }
            @if let [_, .., last] = bars {
                text x=(WIDTH) y=(HEIGHT + 16) text-anchor="end" { (last.name) }
            }
        }
        (legend())
    }
}

/// Returns a plot with a row for each bar.
pub(super) fn rows(id: &str, bars: &[Bar<'_>]) -> Markup {
    if bars.is_empty() {
        return html! {};
    }
    let most = most(bars);
    let view = format!("0 0 {WIDTH} {}", bars.len() as u64 * ROW);
    let title = format!("{id}-title");
    html! {
        svg role="img" aria-labelledby=(title) viewBox=(view) {
            title id=(title) { "Bars: " (summary(bars)) }
            @for (at, bar) in bars.iter().enumerate() {
                @let y = at as u64 * ROW;
                g {
                    title { (bar.told()) }
                    text x=(NAMES - 8) y=(y + 15) text-anchor="end" { (short(bar.name)) }
                    rect.stored x=(NAMES) y=(y + 3) height=(ROW - 6)
                        width=(scaled(bar.stored, most, WIDTH - NAMES)) {}
                    rect.given x=(NAMES) y=(y + 3) height=(ROW - 6)
                        width=(scaled(bar.given, most, WIDTH - NAMES)) {}
                }
            }
        }
        (legend())
    }
}

fn legend() -> Markup {
    html! {
        p.legend {
            span.stored aria-hidden="true" {} " stored "
            span.given aria-hidden="true" {} " handed out and read back"
        }
    }
}

fn most(bars: &[Bar<'_>]) -> u64 {
    bars.iter().map(|bar| bar.stored.max(bar.given)).max().unwrap_or(0).max(1)
}

/// Returns the length that `number` has where `most` has `length`; something for all but 0.
fn scaled(number: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(length) / u128::from(most);
    u64::try_from(scaled).unwrap_or(length).max(u64::from(number > 0))
}

fn summary(bars: &[Bar<'_>]) -> String {
    let stored = bars.iter().fold(0_u64, |sum, bar| sum.saturating_add(bar.stored));
    let given = bars.iter().fold(0_u64, |sum, bar| sum.saturating_add(bar.given));
    format!(
        "{} tokens stored and {} handed out and read back, in {} bars",
        quantity::grouped(stored),
        quantity::grouped(given),
        bars.len()
    )
}

fn short(name: &str) -> String {
    let hidden = visible::whole(name);
    if hidden.chars().count() <= NAME {
        return hidden;
    }
    hidden.chars().take(NAME - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::model::Amount;

    fn counts(stored: u64, handed: u64) -> Counts {
        Counts {
            stored: Amount::once(1, stored),
            handed: Amount::once(1, handed),
            ..Counts::default()
        }
    }

    #[test]
    fn bars_are_in_proportion_and_stay_inside() {
        assert_eq!((scaled(0, 10, 100), scaled(5, 10, 100), scaled(10, 10, 100)), (0, 50, 100));
        assert_eq!(scaled(1, u64::MAX, 100), 1);
        assert_eq!(scaled(u64::MAX, u64::MAX, 100), 100);
    }

    #[test]
    fn a_name_cannot_leave_its_text() {
        let counts = counts(100, 10);
        let bars = [Bar::of("</text><script>\u{202e}", &counts)];
        for drawn in [rows("x", &bars).into_string(), columns("x", &bars).into_string()] {
            assert!(!drawn.contains("<script"), "{drawn}");
            assert!(drawn.contains("role=\"img\""));
        }
        assert_eq!(rows("x", &[]).into_string(), "");
    }
}

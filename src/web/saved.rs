//! The page of savings. Shows how many tokens were stored, handed out and read back, over time, by
//! tool and by conversation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use serde::Deserialize;

use crate::{ConversationRow, Crumb, Result, Sink, Site, address, display, shell};
use ctxfs_core::model::{Component, Counts, Sums, visible};

const DAYS: usize = 60;
// Maximum number of bars in a plot, and of rows in its table.
const BARS: usize = 12;
const ROWS: usize = 200;
const PATIENCE: Duration = Duration::from_millis(1500);
const NAMELESS: &str = "(no tool)";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SavedQuery {
    conversation: String,
}

struct NamedCounts<'a> {
    name: String,
    link: Option<String>,
    counts: &'a Counts,
}

pub(super) fn write(site: &Arc<Site>, query: &SavedQuery, sink: &mut Sink) -> Result<()> {
    let only = match &*query.conversation {
        "" => None,
        name => Some(site.conversation(name)?),
    };
    let mut trail = vec![Crumb { text: html! { "What was saved" }, to: None }];
    if let Some(id) = &only {
        let to = Some(address::conversation(id));
        trail.insert(0, Crumb { text: display::text(&id.to_text()), to });
    }
    sink.write(shell::head("saved", "What was saved", &trail))?;
    sink.write(html! { h1 { "What was saved" } }.into_string())?;
    sink.flush()?;
    let counts = site.engine.counts(only.as_ref())?;
    let Sums { total, by_tool, by_day } = &counts.sums;
    sink.write(totals(total, &offloaded(site, only.as_ref())?).into_string())?;
    sink.write(over_time(by_day).into_string())?;
    let tools = by_tool.iter().map(|(name, counts)| {
        let name = if name.is_empty() { NAMELESS.to_owned() } else { name.clone() };
        NamedCounts { name, link: None, counts }
    });
    sink.write(by("tool", "By tool", "by-tool", "tools", tools.collect()).into_string())?;
    if only.is_none() {
        let all = counts.by_conversation.iter().map(of_conversation).collect();
        let table = "by-conversation-table";
        sink.write(
            by("conversation", "By conversation", "by-conversation", table, all).into_string(),
        )?;
    }
    sink.write(shell::foot())
}

fn of_conversation<'a>((id, counts): (&Component, &'a Counts)) -> NamedCounts<'a> {
    NamedCounts { name: id.to_text(), link: Some(address::conversation(id)), counts }
}

// Returns how many of the currently stored outputs were too long for a model.
fn offloaded(site: &Arc<Site>, only: Option<&Component>) -> Result<String> {
    let of = |long: u64, all: u64| {
        format!("{} of {}", display::grouped(long), display::counted(all, "output"))
    };
    if let Some(id) = only {
        let outputs = site.catalog.outputs(id)?;
        let long = outputs.rows.iter().filter(|row| row.is_long).count();
        return Ok(of(long as u64, outputs.rows.len() as u64));
    }
    let listed = site.catalog.conversations(PATIENCE);
    let sum = |of: fn(&ConversationRow) -> u64| listed.rows.iter().map(|row| of(row)).sum();
    let text = of(sum(|row| row.long), sum(|row| row.outputs));
    Ok(if listed.is_complete { text } else { text + " so far" })
}

fn totals(total: &Counts, offloaded: &str) -> Markup {
    let Counts { stored, handed, read, .. } = total;
    let saved = total.saved(|amount| amount.tokens);
    let calls = stored.times.max(1);
    let hits = if stored.tokens == 0 { 0.0 } else { saved as f64 * 100.0 / stored.tokens as f64 };
    let each = saved / i64::try_from(calls).unwrap_or(i64::MAX);
    html! {
        @if *total == Counts::default() { p.empty { "Nothing has been counted yet." } }
        dl #totals {
            (figure("Stored", &tokens(stored.tokens), &display::counted(stored.times, "output")))
            (figure("Handed out", &tokens(handed.tokens), &display::counted(handed.times, "stand-in")))
            (figure("Read back", &tokens(read.tokens), &display::counted(read.times, "view")))
            (figure("Net saved", &format!("{} tokens", display::signed(saved)),
                &format!("{hits:.0} % of what was stored")))
            (figure("Offloaded", offloaded, "stored now are over the limit, and have a stand-in"))
            (figure("Saved a call", &format!("{} tokens", display::signed(each)), "on average"))
        }
    }
}

fn figure(name: &str, value: &str, more: &str) -> Markup {
    html! { div { dt { (name) } dd { strong { (value) } " " span.faint { (more) } } } }
}

fn tokens(number: u64) -> String {
    format!("{} tokens", display::grouped(number))
}

fn over_time(by_day: &BTreeMap<String, Counts>) -> Markup {
    let skipped = by_day.len().saturating_sub(DAYS);
    let days: Vec<_> = by_day.iter().skip(skipped).collect();
    let bars: Vec<Bar<'_>> = days.iter().map(|(day, counts)| Bar::of(day, counts)).collect();
    html! {
        figure #over-time {
            figcaption { "Over time, in tokens a day" }
            (column_chart("over-time", &bars))
            (numbers("Numbers by day", "days", &html! {
                caption.hidden { "Tokens by day" }
                (heading("Day"))
                tbody { @for (day, counts) in days.iter().rev() { (row(day, None, counts)) } }
            }))
        }
    }
}

fn by(what: &str, title: &str, id: &str, table: &str, mut all: Vec<NamedCounts<'_>>) -> Markup {
    all.retain(|named| named.counts.is_about_outputs());
    all.sort_by_key(|named| std::cmp::Reverse(named.counts.stored.tokens));
    let bars: Vec<Bar<'_>> =
        all.iter().take(BARS).map(|named| Bar::of(&named.name, named.counts)).collect();
    html! {
        figure id=(id) {
            figcaption { (title) ", in tokens" }
            (bar_chart(id, &bars))
            (numbers(&format!("Numbers by {what}"), table, &html! {
                caption { (display::counted(all.len() as u64, what)) }
                (heading(title.trim_start_matches("By ")))
                tbody {
                    @for named in all.iter().take(ROWS) {
                        (row(&named.name, named.link.as_deref(), named.counts))
                    }
                }
            }))
        }
    }
}

fn numbers(label: &str, id: &str, table: &Markup) -> Markup {
    html! {
        details {
            summary { "The numbers" }
            div.scrolls role="region" aria-label=(label) tabindex="0" { table id=(id) { (table) } }
        }
    }
}

fn heading(first: &str) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { (first) }
                @for title in ["Outputs", "Stored", "Handed out", "Read back", "Saved", "Saved a call"] {
                    th.number scope="col" { (title) }
                }
            }
        }
    }
}

fn row(name: &str, link: Option<&str>, counts: &Counts) -> Markup {
    let Counts { stored, handed, read, .. } = counts;
    let saved = counts.saved(|amount| amount.tokens);
    let each = saved / i64::try_from(stored.times.max(1)).unwrap_or(i64::MAX);
    html! {
        tr {
            th scope="row" {
                @match link {
                    Some(link) => a href=(link) { (display::text(name)) },
                    None => (display::text(name)),
                }
            }
            @for number in [stored.times, stored.tokens, handed.tokens, read.tokens] {
                td.number { (display::grouped(number)) }
            }
            td.number { (display::signed(saved)) }
            td.number { (display::signed(each)) }
        }
    }
}

// Size of the drawing, in its own units.
const WIDTH: u64 = 720;
const HEIGHT: u64 = 160;
// Height of a row, and width of the names before the bars.
const ROW: u64 = 22;
const NAMES: u64 = 190;
const NAME: usize = 28;

struct Bar<'a> {
    name: &'a str,
    stored: u64,
    // Tokens that were handed out or read back.
    given: u64,
}

impl<'a> Bar<'a> {
    fn of(name: &'a str, counts: &Counts) -> Self {
        let given = counts.handed.tokens.saturating_add(counts.read.tokens);
        Self { name, stored: counts.stored.tokens, given }
    }

    fn label(&self) -> String {
        let (stored, given) = (display::grouped(self.stored), display::grouped(self.given));
        let name = visible::whole(self.name);
        format!("{name}: {stored} stored, {given} handed out and read back")
    }
}

fn column_chart(id: &str, bars: &[Bar<'_>]) -> Markup {
    let Some(first) = bars.first() else { return html! {} };
    let most = most(bars);
    let step = (WIDTH / bars.len() as u64).clamp(4, 60);
    let drawn = html! {
        @for (at, bar) in bars.iter().enumerate() {
            @let x = at as u64 * step;
            @let stored = scaled(bar.stored, most, HEIGHT);
            @let given = scaled(bar.given, most, HEIGHT);
            g {
                title { (bar.label()) }
                rect.stored x=(x) y=(HEIGHT - stored) width=(step - 2) height=(stored) {}
                rect.given x=(x) y=(HEIGHT - given) width=(step - 2) height=(given) {}
            }
        }
        text x="0" y=(HEIGHT + 16) { (first.name) }
        @if let [_, .., last] = bars {
            text x=(WIDTH) y=(HEIGHT + 16) text-anchor="end" { (last.name) }
        }
    };
    chart(id, &format!("Columns: {}", summary(bars)), HEIGHT + 20, &drawn)
}

fn bar_chart(id: &str, bars: &[Bar<'_>]) -> Markup {
    if bars.is_empty() {
        return html! {};
    }
    let most = most(bars);
    let drawn = html! {
        @for (at, bar) in bars.iter().enumerate() {
            @let y = at as u64 * ROW;
            g {
                title { (bar.label()) }
                text x=(NAMES - 8) y=(y + 15) text-anchor="end" { (short(bar.name)) }
                rect.stored x=(NAMES) y=(y + 3) height=(ROW - 6)
                    width=(scaled(bar.stored, most, WIDTH - NAMES)) {}
                rect.given x=(NAMES) y=(y + 3) height=(ROW - 6)
                    width=(scaled(bar.given, most, WIDTH - NAMES)) {}
            }
        }
    };
    chart(id, &format!("Bars: {}", summary(bars)), bars.len() as u64 * ROW, &drawn)
}

fn chart(id: &str, summary: &str, height: u64, drawn: &Markup) -> Markup {
    let title = format!("{id}-title");
    html! {
        svg role="img" aria-labelledby=(title) viewBox={ "0 0 " (WIDTH) " " (height) } {
            title id=(title) { (summary) }
            (drawn)
        }
        p.legend {
            span.stored aria-hidden="true" {} " stored "
            span.given aria-hidden="true" {} " handed out and read back"
        }
    }
}

fn most(bars: &[Bar<'_>]) -> u64 {
    bars.iter().map(|bar| bar.stored.max(bar.given)).max().unwrap_or(0).max(1)
}

// Returns at least 1, unless `number` is 0.
fn scaled(number: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(length) / u128::from(most);
    u64::try_from(scaled).unwrap_or(length).max(u64::from(number > 0))
}

fn summary(bars: &[Bar<'_>]) -> String {
    let stored = bars.iter().fold(0_u64, |sum, bar| sum.saturating_add(bar.stored));
    let given = bars.iter().fold(0_u64, |sum, bar| sum.saturating_add(bar.given));
    format!(
        "{} tokens stored and {} handed out and read back, in {} bars",
        display::grouped(stored),
        display::grouped(given),
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
        for drawn in [bar_chart("x", &bars).into_string(), column_chart("x", &bars).into_string()] {
            assert!(!drawn.contains("<script"), "{drawn}");
            assert!(drawn.contains("role=\"img\""));
        }
        assert_eq!(bar_chart("x", &[]).into_string(), "");
    }
}

//! What was saved: tokens that were stored, handed out and read back, over time, by tool and by
//! conversation.

mod chart;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use serde::Deserialize;

use crate::catalog::ConversationRow;
use crate::error::WebError;
use crate::saved::chart::Bar;
use crate::shell::Crumb;
use crate::site::Site;
use crate::work::Sink;
use crate::{address, quantity, shell, shown};
use ctxfs_core::model::{Component, Counts, Sums};

/// Days in the plot over time.
const DAYS: usize = 60;
/// Bars of a plot, and rows of its table.
const BARS: usize = 12;
const ROWS: usize = 200;
/// The time for the list of conversations.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The label of outputs without a tool.
const NAMELESS: &str = "(no tool)";

/// The parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SavedQuery {
    conversation: String,
}

/// A row of a table.
struct NamedCounts<'a> {
    name: String,
    link: Option<String>,
    counts: &'a Counts,
}

/// Writes the page.
pub(super) fn write(site: &Arc<Site>, query: &SavedQuery, sink: &mut Sink) -> Result<(), WebError> {
    let only = match &*query.conversation {
        "" => None,
        name => Some(site.conversation(name)?),
    };
    let mut trail = vec![Crumb { text: html! { "What was saved" }, to: None }];
    if let Some(id) = &only {
        let to = Some(address::conversation(id));
        trail.insert(0, Crumb { text: shown::text(&id.to_text()), to });
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

/// Returns how many of the outputs that are stored now were too long for a model.
fn offloaded(site: &Arc<Site>, only: Option<&Component>) -> Result<String, WebError> {
    let of = |long: u64, all: u64| {
        format!("{} of {}", quantity::grouped(long), quantity::counted(all, "output"))
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
    let saved = total.saved_tokens();
    let calls = stored.times.max(1);
    let hits = if stored.tokens == 0 { 0.0 } else { saved as f64 * 100.0 / stored.tokens as f64 };
    let each = saved / i64::try_from(calls).unwrap_or(i64::MAX);
    html! {
        @if *total == Counts::default() { p.empty { "Nothing has been counted yet." } }
        dl #totals {
            (figure("Stored", &tokens(stored.tokens), &quantity::counted(stored.times, "output")))
            (figure("Handed out", &tokens(handed.tokens), &quantity::counted(handed.times, "stand-in")))
            (figure("Read back", &tokens(read.tokens), &quantity::counted(read.times, "view")))
            (figure("Net saved", &format!("{} tokens", quantity::signed(saved)),
                &format!("{hits:.0} % of what was stored")))
            (figure("Offloaded", offloaded, "stored now are over the limit, and have a stand-in"))
            (figure("Saved a call", &format!("{} tokens", quantity::signed(each)), "on average"))
        }
    }
}

fn figure(name: &str, value: &str, more: &str) -> Markup {
    html! { div { dt { (name) } dd { strong { (value) } " " span.faint { (more) } } } }
}

fn tokens(number: u64) -> String {
    format!("{} tokens", quantity::grouped(number))
}

fn over_time(by_day: &BTreeMap<String, Counts>) -> Markup {
    let skipped = by_day.len().saturating_sub(DAYS);
    let days: Vec<_> = by_day.iter().skip(skipped).collect();
    let bars: Vec<Bar<'_>> = days.iter().map(|(day, counts)| Bar::of(day, counts)).collect();
    html! {
        figure #over-time {
            figcaption { "Over time, in tokens a day" }
            (chart::columns("over-time", &bars))
            details {
                summary { "The numbers" }
                div.scrolls role="region" aria-label="Numbers by day" tabindex="0" {
                    table #days {
                        caption.hidden { "Tokens by day" }
                        (heading("Day"))
                        tbody {
                            @for (day, counts) in days.iter().rev() { (row(day, None, counts)) }
                        }
                    }
                }
            }
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
            (chart::rows(id, &bars))
            details {
                summary { "The numbers" }
                div.scrolls role="region" aria-label={ "Numbers by " (what) } tabindex="0" {
                    table id=(table) {
                        caption { (quantity::counted(all.len() as u64, what)) }
                        (heading(title.trim_start_matches("By ")))
                        tbody {
                            @for named in all.iter().take(ROWS) {
                                (row(&named.name, named.link.as_deref(), named.counts))
                            }
                        }
                    }
                }
            }
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
    let saved = counts.saved_tokens();
    let each = saved / i64::try_from(stored.times.max(1)).unwrap_or(i64::MAX);
    html! {
        tr {
            th scope="row" {
                @match link {
                    Some(link) => a href=(link) { (shown::text(name)) },
                    None => (shown::text(name)),
                }
            }
            @for number in [stored.times, stored.tokens, handed.tokens, read.tokens] {
                td.number { (quantity::grouped(number)) }
            }
            td.number { (quantity::signed(saved)) }
            td.number { (quantity::signed(each)) }
        }
    }
}

//! `.summary`: the text that a model receives in place of an output.
//!
//! The facts come first, one on each line ([`facts`]), followed by an excerpt ([`excerpt`]). The
//! text depends only on the subject.

mod alike;
mod between;
mod contents;
mod excerpt;
mod facts;
mod hits;
mod listing;
mod paths;
mod records;
mod steps;
mod trials;

use std::io;
use std::io::Write;

use crate::clean::{TextBudget, clean};
use crate::errors::{Findings, findings};
use crate::number::portion;
use crate::summary::excerpt::{Excerpt, error_lines};
use crate::summary::facts::Facts;
use crate::summary::listing::{ListBytes, Listing};
use crate::{RenderError, Rendered};
use ctxfs_core::model::{Limits, Subject, TriedView};
use ctxfs_core::redact::MaskCounts;

pub(super) use excerpt::READ;
pub(super) use facts::{also, ended};

// Size in bytes to which a summary is filled. On the outputs of public transcripts, more bytes do not
// show more of what the model uses next.
const FILLED_BYTES: usize = 4430;
// Minimum number of bytes of an excerpt, whatever the size of the facts.
const MIN_EXCERPT_BYTES: usize = 2600;
// Bytes that are reserved for a notice and for the lines that depend on the excerpt, and their usual
// size.
const RESERVE: usize = 600;
const USUAL_RESERVE: usize = 160;
// Number of lines that are reserved for the same purpose.
const RESERVED_LINES: usize = 6;

/// Returns true if an output exceeds the limits up to which outputs are included unchanged in a
/// conversation.
pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    !subject.limits.are_kept_by(subject.size(), subject.analysis.chars)
}

/// Writes the summary. `above` is the beginning of the output that the reader has seen. The excerpt
/// begins after it.
pub(super) fn render(
    subject: &Subject<'_>,
    above: &[u8],
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let text = if subject.analysis.is_binary() || subject.content.is_empty() {
        lines(&facts::without_excerpt(subject)?)
    } else if !above.is_empty() {
        excerpted(subject, above)?
    } else if let Some(whole) = whole(subject)? {
        whole
    } else {
        excerpted(subject, above)?
    };
    out.write_all(text.as_bytes())?;
    let analysed = subject.analysis.bytes;
    if analysed == subject.content.len() {
        return Ok(Rendered::plain());
    }
    let portion = portion(analysed, subject.content.len());
    let notice = Some(format!("# analysed so far: first {portion}\n"));
    Ok(Rendered { notice, whole: false })
}

pub(super) fn tried(subject: &Subject<'_>) -> io::Result<Vec<TriedView>> {
    if subject.analysis.is_binary() || subject.content.is_empty() {
        return Ok(Vec::new());
    }
    steps::tried(subject, &findings(subject)?)
}

fn whole(subject: &Subject<'_>) -> io::Result<Option<String>> {
    let Limits { max_inline_chars, max_inline_bytes, .. } = *subject.limits;
    let analysis = subject.analysis;
    let small = analysis.bytes == subject.content.len()
        && analysis.chars <= max_inline_chars
        && analysis.bytes <= max_inline_bytes
        && analysis.longest_line <= Limits::LINE_CHARS as u64
        && analysis.bytes <= Limits::STAND_IN_BYTES as u64;
    if !small {
        return Ok(None);
    }
    let bytes = subject.content.bytes(0, Limits::STAND_IN_BYTES)?;
    let cleaned = |line| clean(line, usize::MAX, usize::MAX).text;
    let output: Vec<String> = excerpt::split(&bytes).into_iter().map(cleaned).collect();
    let mut all = facts::with_all(subject, redacted(subject, &output));
    all.extend(output);
    let text = lines(&all);
    Ok(fits(&text).then_some(text))
}

fn excerpted(subject: &Subject<'_>, above: &[u8]) -> io::Result<String> {
    let found = findings(subject)?;
    if above.is_empty()
        && let Some(listed) = listed(subject, &found)?
    {
        return Ok(listed);
    }
    let mut facts = facts::with_excerpt(subject, &found, above)?;
    let excerpt = Excerpt::of(subject, &found, above, budget(&facts))?;
    let (shown, all) = (excerpt.shown(), excerpt.has_all());
    let excerpt = excerpt.into_lines();
    facts.set_shown(shown, redacted(subject, &excerpt), all);
    let mut all = facts.into_lines();
    all.extend(excerpt);
    all.extend(facts::mentions(subject, &found));
    Ok(lines(&all))
}

// Returns the summary of a list. Of a call that succeeded, words of errors in it are what was searched
// for.
fn listed(subject: &Subject<'_>, found: &Findings) -> io::Result<Option<String>> {
    let bytes = ListBytes::read(subject)?;
    let Some(listing) = Listing::of(&bytes, subject, found) else { return Ok(None) };
    let failed = subject.record.provenance.exit_code.is_some_and(|code| code != 0);
    let none = Findings { shown: Vec::new(), lesser: Vec::new(), count: 0, mentions: 0 };
    let found = if failed { found } else { &none };
    let mut facts = facts::of_list(subject, found)?;
    let TextBudget { bytes, lines: count } = budget(&facts);
    let errors = error_lines(found, bytes / 3);
    let taken: usize = errors.iter().map(|line| line.len() + 1).sum();
    let left = TextBudget { bytes: bytes - taken, lines: count - errors.len() };
    let Some((shown, mut list)) = listing.fitted(left) else { return Ok(None) };
    if !errors.is_empty() {
        list.push("--- errors ---".to_owned());
        list.extend(errors);
    }
    facts.set_shown(shown, redacted(subject, &list), false);
    let mut all = facts.into_lines();
    all.extend(list);
    Ok(Some(lines(&all)))
}

fn budget(facts: &Facts) -> TextBudget {
    let filled = FILLED_BYTES.saturating_sub(facts.size() + USUAL_RESERVE);
    let most = Limits::STAND_IN_BYTES.saturating_sub(facts.size() + RESERVE);
    TextBudget {
        bytes: filled.max(MIN_EXCERPT_BYTES).min(most),
        lines: Limits::STAND_IN_LINES.saturating_sub(facts.count() + RESERVED_LINES),
    }
}

// Formats the line: `redacted: 3 secrets (aws-key 2, jwt 1) in what is shown`.
fn redacted(subject: &Subject<'_>, shown: &[String]) -> Option<String> {
    let counts = MaskCounts::of(&lines(shown), subject.mask_names());
    let line = || format!("redacted: {} in what is shown", counts.text());
    (!counts.is_empty()).then(line)
}

fn fits(text: &str) -> bool {
    let wide =
        |line: &str| line.len() > Limits::LINE_CHARS && line.chars().count() > Limits::LINE_CHARS;
    text.len() <= Limits::STAND_IN_BYTES
        && text.lines().count() <= Limits::STAND_IN_LINES
        && !text.lines().any(wide)
}

fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod also_tests;

#[cfg(test)]
mod json_tests;

#[cfg(test)]
mod tests;

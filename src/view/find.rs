//! `.find/<words>`: the passages that match the words best.
//!
//! The first pass ([`census`]) counts how often each word occurs, which determines the weight of
//! the word ([`question`]). A word that does not occur is replaced by the nearest word that does.
//! The second pass gathers the places with most of the words ([`gather`], [`json`]). The best
//! places become passages ([`record`], [`records`], [`passages`]). [`reply`] shows as many passages as are worth
//! reading.

mod census;
mod choice;
mod gather;
mod json;
pub(super) mod many;
mod matcher;
mod parts;
mod passage;
mod passages;
mod question;
mod record;
mod records;
mod reply;
mod scan;
mod stretches;
mod table;
mod words;

use std::io;
use std::io::Write;

use crate::find::census::{Census, NearestWords};
use crate::find::passages::Passages;
use crate::find::question::{ChosenTerms, FindQuestion};
use crate::find::reply::{FindReply, FromArtifact, ReplySummary};
use crate::number::portion;
use crate::rendered::notice;
use crate::{RenderError, Rendered, terms};
use ctxfs_core::model::{Content, Subject};

pub use words::Words;

// Number of words that are suggested if none of the given words occurs.
const SUGGESTED_WORDS: usize = 12;

pub(super) fn render(
    words: &Words,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let question = match FindQuestion::read(&words.text()) {
        Ok(question) => question,
        Err(why) => return Ok(Rendered::noted(reply::no_question(&why))),
    };
    let (content, place) = (subject.content, subject.place);
    if content.is_empty() {
        return Ok(Rendered::noted(format!("# {} is empty\n", place.file())));
    }
    let Some(chosen) = choose(&question, content, expired)? else {
        if expired() {
            return Ok(Rendered::out_of_time_after(0, content.len()));
        }
        let telling =
            terms::distinctive(content, json::begins(content)?, SUGGESTED_WORDS, expired)?;
        let more = format!(". More: {}", place.of_view(".terms").file());
        return Ok(Rendered::noted(reply::nothing(
            &question.asked,
            &place.file(),
            &telling,
            &more,
        )));
    };
    let passages = Passages::read(content, &chosen, expired, scan::BLOCK_BYTES)?;
    let grep = place.of_view(".grep");
    let summary = |shown: usize| ReplySummary {
        chosen: &chosen,
        terms: passages.best.first().map_or(0, |best| best.terms),
        shown,
        count: passages.count,
        among: "",
        grep: &grep,
    };
    let longest = summary(usize::MAX).text().len() + reply::WINDOW_NOTICE_BYTES;
    let all = passages.best.iter().map(|passage| FromArtifact {
        passage,
        name: b"",
        header: passages.header.as_ref(),
    });
    let reply =
        FindReply::of(all, reply::max_bytes(subject.redacts.is_some()).saturating_sub(longest));
    if reply.shown == 0
        && let Some(offset) = passages.stopped
    {
        return Ok(Rendered::out_of_time_after(offset, content.len()));
    }
    let long = reply.windowed;
    let late = passages.stopped.map(|offset| {
        format!("out of time after {}; the best so far", portion(offset, content.len()))
    });
    let lines = [Some(summary(reply.shown).text()), late, long];
    out.write_all(&reply.text)?;
    let notice = notice(lines.into_iter().flatten());
    Ok(Rendered { notice, whole: passages.stopped.is_none() })
}

/// Counts the words of `question` in `content`. Returns the words to search for, or `None` if none
/// of them occurs.
fn choose(
    question: &FindQuestion,
    content: &dyn Content,
    expired: &dyn Fn() -> bool,
) -> io::Result<Option<ChosenTerms>> {
    let escaped = json::begins(content)?;
    let census =
        Census::take(content, &question.matcher, escaped, census::MAX_CENSUS_BYTES, expired)?;
    let missing = question.missing(&census);
    let mut nearest = NearestWords::new(missing.iter().map(|(_, word)| *word));
    if !missing.is_empty() {
        nearest.read(content, escaped, census::MAX_NEAREST_BYTES, expired)?;
    }
    Ok(question.choose(&census, &nearest))
}

#[cfg(test)]
mod tests;

//! `.find/<words>`: the passages that match some words best.
//!
//! A first pass counts how often each word occurs ([`census`]), which tells how much it counts
//! ([`question`]); for a word that does not occur, the nearest one is taken. A second pass gathers
//! the places with most of the words ([`gather`], [`json`]). The best of them become passages
//! ([`record`], [`passages`]), and [`reply`] shows those that are worth reading.

mod candidate;
mod census;
mod fold;
mod found;
mod gather;
mod json;
mod listing;
mod many;
mod matcher;
mod nearest;
mod notice;
mod parts;
mod passage;
mod passages;
mod question;
mod record;
mod reply;
mod scan;
mod stream;
mod stretches;
mod table;
mod term;
mod words;

use std::io;
use std::io::Write;

use crate::number::portion;
use crate::{RenderError, Rendered, terms};
use census::Census;
use ctxfs_core::model::{Content, Subject};
pub(super) use many::render as render_many;
use nearest::NearestWords;
use notice::Summary;
use passages::Passages;
use question::{Chosen, Question};
use reply::{FromArtifact, Reply, Windowed};
pub use words::Words;

// Words that are suggested if none of those asked for occurs.
const TELLING: usize = 12;

/// Writes the passages of `subject` that match `words` best.
pub(super) fn render(
    words: &Words,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let question = match Question::read(&words.text()) {
        Ok(question) => question,
        Err(why) => return Ok(Rendered::noted(notice::no_question(&why))),
    };
    let (content, file) = (subject.content, subject.place.file());
    if content.is_empty() {
        return Ok(Rendered::noted(format!("# {file} is empty\n")));
    }
    let stopped = |offset: u64| {
        let notice = format!("# out of time after {}\n", portion(offset, content.len()));
        Rendered { notice: Some(notice), whole: false }
    };
    let Some(chosen) = choose(&question, content, expired)? else {
        if expired() {
            return Ok(stopped(0));
        }
        let telling = terms::telling(content, json::begins(content)?, TELLING, expired)?;
        let more = format!(". More: {file}.terms");
        return Ok(Rendered::noted(notice::nothing(&question.asked, &file, &telling, &more)));
    };
    let passages = Passages::read(content, &chosen, expired)?;
    let grep = format!("{file}.grep");
    let summary = |shown: usize| Summary {
        chosen: &chosen,
        terms: passages.best.first().map_or(0, |best| best.terms),
        shown,
        count: passages.count,
        among: "",
        grep: &grep,
    };
    let longest = summary(usize::MAX).text().len() + notice::MARGIN;
    let all = passages.best.iter().map(|passage| FromArtifact {
        passage,
        name: b"",
        header: passages.header.as_ref(),
    });
    let reply = Reply::of(all, reply::most(subject.redacts.is_some()).saturating_sub(longest));
    if reply.shown == 0
        && let Some(offset) = passages.stopped
    {
        return Ok(stopped(offset));
    }
    let long = reply.windowed.as_ref().map(Windowed::notice);
    let late = passages.stopped.map(|offset| {
        format!("out of time after {}; the best so far", portion(offset, content.len()))
    });
    let lines = [Some(summary(reply.shown).text()), late, long];
    let notice = lines.iter().flatten().flat_map(|line| ["# ", line, "\n"]).collect();
    out.write_all(&reply.text)?;
    Ok(Rendered { notice: Some(notice), whole: passages.stopped.is_none() })
}

/// Counts the words of `question` in `content`. Returns the words to look for, or `None` if none
/// occurs.
fn choose(
    question: &Question,
    content: &dyn Content,
    expired: &dyn Fn() -> bool,
) -> io::Result<Option<Chosen>> {
    let escaped = json::begins(content)?;
    let census = Census::take(content, &question.matcher, escaped, census::MOST_BYTES, expired)?;
    let missing = question.missing(&census);
    let mut nearest = NearestWords::new(missing.iter().map(|(_, word)| *word));
    if !missing.is_empty() {
        nearest.read(content, escaped, nearest::MOST_BYTES, expired)?;
    }
    Ok(question.choose(&census, &nearest))
}

#[cfg(test)]
mod tests;

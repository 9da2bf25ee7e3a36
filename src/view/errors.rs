//! `.errors`: the lines that look like errors, each with the lines around it.
//!
//! They are printed as `rg -n -C3` prints matches. A stack trace is shown whole, up to a limit. If
//! not everything fits, the first of the lines that differ only in numbers is shown, with the
//! number of the others.

mod finding;
mod index;
mod message;
mod nearby;
mod notice;
mod owner;
mod print;
mod quoted;
mod surroundings;
pub(super) mod trace;

use std::io;
use std::io::Write;

use crate::materialize::ErrorMatch;
use crate::model::Content;
use crate::model::Subject;
use crate::view::RenderError;
use crate::view::Rendered;
use index::ErrorIndex;
use notice::Coverage;
use notice::ErrorNotices;
use print::ParagraphPrinter;

pub(super) use finding::Finding;
pub(super) use finding::Findings;
pub(super) use finding::findings;

/// Writes the error lines.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let index = ErrorIndex::build(subject, expired)?;
    let notices = ErrorNotices { subject, index: &index };
    let rendered = |notice: String| Rendered {
        notice: (!notice.is_empty()).then_some(notice),
        whole: index.stopped.is_none(),
    };
    if index.has_all() {
        let mut print = ParagraphPrinter::new(subject.content, &index, out);
        index.kept.iter().try_for_each(|seen| print.show(seen, None))?;
        print.end_paragraph()?;
        let notice = notices.text(Coverage::All, print.windowed);
        if print.page.fits(subject.view_bytes().saturating_sub(notice.len())) {
            print.page.flush()?;
            return Ok(rendered(notice));
        }
    }
    let mut print = ParagraphPrinter::new(subject.content, &index, out);
    for seen in first_of_each(subject.content, &index)? {
        print.show(seen, index.begins(seen))?;
    }
    print.end_paragraph()?;
    let longest = notices.longest(print.windowed);
    let cut = print.page.fit(subject.view_bytes().saturating_sub(longest));
    print.page.flush()?;
    Ok(rendered(notices.text(cut.map_or(Coverage::Kinds, Coverage::Part), print.windowed)))
}

/// Returns the first error line of each kind, with the error lines above that it belongs to.
fn first_of_each<'c>(
    content: &dyn Content,
    index: &'c ErrorIndex,
) -> io::Result<Vec<&'c ErrorMatch>> {
    let mut chosen: Vec<&ErrorMatch> = Vec::new();
    for (at, seen) in index.kept.iter().enumerate() {
        if index.begins(seen).is_none() {
            continue;
        }
        let done = chosen.last().map_or(0, |last| last.at.line);
        let mut above = vec![seen];
        for before in index.kept[..at].iter().rev().take_while(|before| before.at.line > done) {
            let too_far = seen.at.line - before.at.line > trace::LONGEST as u64;
            let below = above[above.len() - 1];
            if too_far || !nearby::belong_together(content, before, below)? {
                break;
            }
            above.push(before);
        }
        chosen.extend(above.into_iter().rev());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;

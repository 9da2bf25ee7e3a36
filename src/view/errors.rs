//! `.errors`: the lines that look like errors, each with what stands around it.
//!
//! Printed as `rg -n -C3` prints matches. A stack trace is shown whole up to a bound. Where not all
//! fits, of the lines that differ in numbers alone the first is shown, and how many more there are.

mod census;
mod nearby;
mod notice;
mod print;
mod trace;

use std::io;
use std::io::Write;

use crate::materialize::ErrorMatch;
use crate::model::Content;
use crate::model::Subject;
use crate::view::RenderError;
use crate::view::Rendered;
use census::Census;
use notice::Notices;
use notice::Shown;
use print::Print;

/// Writes what is found.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let census = Census::take(subject.content, expired)?;
    let notices = Notices { subject, census: &census };
    let rendered = |notice: String| Rendered {
        notice: (!notice.is_empty()).then_some(notice),
        whole: census.stopped.is_none(),
    };
    if census.has_all() {
        let mut print = Print::new(subject.content, &census, out);
        census.kept.iter().try_for_each(|seen| print.show(seen, None))?;
        print.end_paragraph()?;
        let notice = notices.text(Shown::All, print.windowed);
        if print.page.fits(subject.view_bytes().saturating_sub(notice.len())) {
            print.page.flush()?;
            return Ok(rendered(notice));
        }
    }
    let mut print = Print::new(subject.content, &census, out);
    for seen in first_of_each(subject.content, &census)? {
        print.show(seen, census.begins(seen))?;
    }
    print.end_paragraph()?;
    let longest = notices.longest(print.windowed);
    let cut = print.page.fit(subject.view_bytes().saturating_sub(longest));
    print.page.flush()?;
    Ok(rendered(notices.text(cut.map_or(Shown::Kinds, Shown::Part), print.windowed)))
}

/// The first error line of each kind, with those above that it belongs to.
fn first_of_each<'c>(content: &dyn Content, census: &'c Census) -> io::Result<Vec<&'c ErrorMatch>> {
    let mut chosen: Vec<&ErrorMatch> = Vec::new();
    for (at, seen) in census.kept.iter().enumerate() {
        if census.begins(seen).is_none() {
            continue;
        }
        let done = chosen.last().map_or(0, |last| last.at.line);
        let mut above = vec![seen];
        for before in census.kept[..at].iter().rev().take_while(|before| before.at.line > done) {
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

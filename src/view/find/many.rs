//! `.find/<words>` of a directory: the best passages in all artifacts below it. Passages with equal
//! scores are ordered by artifact, newest first.

use std::cmp::Reverse;
use std::io;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;

use crate::find::census::{Census, NearestWords};
use crate::find::passage::{Passage, ShownLine};
use crate::find::passages::Passages;
use crate::find::question::{ChosenTerms, FindQuestion};
use crate::find::reply::{FindReply, FromArtifact, ReplySummary};
use crate::find::{Words, census, json, reply, scan};
use crate::grep::corpus::{SearchOmissions, Visited};
use crate::number::{counted, grouped};
use crate::rendered::notice;
use crate::{Directory, Loaded, RenderError, Rendered, terms};
use ctxfs_core::model::Content;
use ctxfs_core::parallel;
use ctxfs_core::redact::Masked;

// Artifacts below this size are read whole.
const WHOLE_BYTES: usize = 1 << 20;
const MAX_PASSAGES: usize = 48;
// Estimated memory in bytes of an open artifact, or of a passage that waits for its turn.
const RESULT_WEIGHT: usize = 4 << 10;

struct CorpusFind<'a> {
    directory: &'a Directory<'a>,
    expired: &'a (dyn Fn() -> bool + Sync),
}

// `stopped` is the number of the first artifact that was not begun when time ran out.
#[derive(Default)]
struct CorpusPass {
    left_out: SearchOmissions,
    stopped: Option<usize>,
}

/// The best passages so far, each with the number of its artifact. `is_partial` is true if time ran
/// out inside an artifact.
#[derive(Default)]
struct BestPassages {
    passages: Vec<(usize, Passage)>,
    headers: Vec<(usize, ShownLine)>,
    count: u64,
    artifacts: u64,
    is_partial: bool,
}

pub(crate) fn render(
    words: &Words,
    directory: &Directory<'_>,
    expired: &(dyn Fn() -> bool + Sync),
    out: &mut (dyn Write + Send),
) -> Result<Rendered, RenderError> {
    let question = match FindQuestion::read(&words.text()) {
        Ok(question) => question,
        Err(why) => return Ok(Rendered::noted(reply::no_question(&why))),
    };
    let corpora = CorpusFind { directory, expired };
    let (pass, chosen) = corpora.choose(&question);
    let Some(chosen) = chosen else {
        return Ok(corpora.nothing(&question, &pass));
    };
    let (pass, best) = corpora.gather(&chosen);
    corpora.reply(&chosen, &pass, &best, out)
}

impl CorpusFind<'_> {
    /// Calls `work` with the content of each artifact, on several threads, and passes the results
    /// to `take` in order.
    fn each<T: Send>(
        &self,
        work: impl Fn(&dyn Content) -> io::Result<T> + Sync,
        mut take: impl FnMut(usize, T) + Send,
    ) -> CorpusPass {
        let mut pass = CorpusPass::default();
        let corpus = self.directory.corpus;
        parallel::in_order(
            corpus.len(),
            parallel::threads(),
            || vec![0; WHOLE_BYTES],
            |buffer, number| Visited::by(self.expired, || self.load(number, buffer, &work)),
            |_| RESULT_WEIGHT,
            |_, number, visited| {
                if let Visited::NotBegun = visited {
                    pass.stopped = Some(number);
                    return ControlFlow::Break(());
                }
                if let Some(made) = pass.left_out.note(visited, || corpus.path(number).to_text()) {
                    take(number, made);
                }
                ControlFlow::Continue(())
            },
        );
        pass.left_out = pass.left_out.of(corpus);
        pass
    }

    fn load<T>(
        &self,
        number: usize,
        buffer: &mut [u8],
        work: &impl Fn(&dyn Content) -> io::Result<T>,
    ) -> io::Result<Visited<T>> {
        let content: Box<dyn Content> = match self.directory.corpus.load(number, buffer)? {
            Loaded::Gone => return Ok(Visited::Gone),
            Loaded::Closed => return Ok(Visited::Closed),
            Loaded::Binary => return Ok(Visited::Binary),
            Loaded::Whole(length) => Box::new(buffer[..length].to_vec()),
            Loaded::Opened(content) => content,
        };
        let masked = self.directory.redacts.map(|rules| Masked::new(&*content, rules));
        work(masked.as_ref().map_or(&*content, |masked| masked as &dyn Content)).map(Visited::Done)
    }

    /// Counts the words in all artifacts. Returns the words to search for, or `None` if no word
    /// occurs.
    fn choose(&self, question: &FindQuestion) -> (CorpusPass, Option<ChosenTerms>) {
        let share = (self.directory.corpus.len() as u64).max(1);
        let most = census::MAX_CENSUS_BYTES / share;
        let mut all = Census::new(question.matcher.terms.len());
        let pass = self.each(
            |content| {
                let escaped = json::begins(content)?;
                Census::take(content, &question.matcher, escaped, most, self.expired)
            },
            |_, census| all.add(&census),
        );
        let missing = question.missing(&all);
        let new = || NearestWords::new(missing.iter().map(|(_, word)| *word));
        let mut nearest = new();
        if !missing.is_empty() && pass.stopped.is_none() {
            let most = census::MAX_NEAREST_BYTES / share;
            let read = |content: &dyn Content| {
                let mut nearest = new();
                nearest.read(content, json::begins(content)?, most, self.expired)?;
                Ok(nearest)
            };
            self.each(read, |_, found| nearest.merge(found));
        }
        let chosen = question.choose(&all, &nearest);
        (pass, chosen)
    }

    fn gather(&self, chosen: &ChosenTerms) -> (CorpusPass, BestPassages) {
        let mut best = BestPassages::default();
        let read = |content: &dyn Content| {
            Passages::read(content, chosen, self.expired, scan::BLOCK_BYTES)
        };
        let pass = self.each(read, |number, found| best.add(number, found));
        (pass, best)
    }

    fn reply(
        &self,
        chosen: &ChosenTerms,
        pass: &CorpusPass,
        best: &BestPassages,
        out: &mut dyn Write,
    ) -> Result<Rendered, RenderError> {
        let grep = self.directory.place.of_view("/.grep");
        let among = format!(
            " in {} of {}",
            grouped(best.artifacts),
            counted(self.directory.corpus.len() as u64, "artifact")
        );
        let summary = |shown: usize| ReplySummary {
            chosen,
            terms: best.passages.first().map_or(0, |(_, passage)| passage.terms),
            shown,
            count: best.count,
            among: &among,
            grep: &grep,
        };
        let mut others: Vec<String> = Vec::new();
        if let Some(number) = pass.stopped.or(best.is_partial.then_some(0)) {
            let all = counted(self.directory.corpus.len() as u64, "artifact");
            let done = best.artifacts.max(number as u64);
            others.push(format!("out of time after {} of {all}; the best so far", grouped(done)));
        }
        others.extend(pass.left_out.lines());
        let longest: usize = others.iter().map(|line| line.len() + 3).sum();
        let longest = longest + summary(usize::MAX).text().len() + reply::WINDOW_NOTICE_BYTES;
        let room = reply::max_bytes(self.directory.redacts.is_some()).saturating_sub(longest);
        let reply = FindReply::of(best.all(self), room);
        let long = reply.windowed;
        let first = (reply.shown > 0).then(|| summary(reply.shown).text());
        let notice = notice(first.into_iter().chain(others).chain(long));
        out.write_all(&reply.text)?;
        let whole = pass.stopped.is_none() && !best.is_partial && pass.left_out.is_final();
        Ok(Rendered { notice, whole })
    }

    fn nothing(&self, question: &FindQuestion, pass: &CorpusPass) -> Rendered {
        let count = self.directory.corpus.len();
        let all = counted(count as u64, "artifact");
        let mut first = if let Some(number) = pass.stopped {
            format!("# out of time after {} of {all}\n", grouped(number as u64))
        } else {
            let place = format!("{} ({all})", self.directory.place.file());
            reply::nothing(&question.asked, &place, &self.suggested_words(), "")
        };
        first.extend(notice(pass.left_out.lines()));
        let whole = pass.stopped.is_none() && pass.left_out.is_final();
        Rendered { notice: Some(first), whole }
    }

    fn suggested_words(&self) -> Vec<String> {
        let mut buffer = vec![0; WHOLE_BYTES];
        let words = |content: &dyn Content| {
            terms::distinctive(
                content,
                json::begins(content)?,
                crate::find::SUGGESTED_WORDS,
                self.expired,
            )
        };
        let newest = 0..self.directory.corpus.len().min(8);
        let mut all = newest.filter_map(|number| {
            let load = || self.load(number, &mut buffer, &words);
            let Visited::Done(words) = Visited::by(self.expired, load) else { return None };
            Some(words).filter(|words| !words.is_empty())
        });
        all.next().unwrap_or_default()
    }
}

impl BestPassages {
    fn add(&mut self, number: usize, found: Passages) {
        self.count += found.count;
        self.artifacts += u64::from(found.count > 0);
        self.is_partial |= found.stopped.is_some();
        self.passages.extend(found.best.into_iter().map(|passage| (number, passage)));
        // The sort is stable, and newer artifacts were added first.
        self.passages.sort_by_key(|(_, passage)| Reverse(passage.score));
        self.passages.truncate(MAX_PASSAGES);
        self.headers.extend(found.header.map(|header| (number, header)));
        self.headers.retain(|(number, _)| self.passages.iter().any(|(other, _)| other == number));
    }

    fn all<'b>(&'b self, of: &'b CorpusFind<'_>) -> impl Iterator<Item = FromArtifact<'b>> {
        self.passages.iter().map(|(number, passage)| FromArtifact {
            passage,
            name: of.directory.corpus.path(*number).as_os_str().as_bytes(),
            header: self.headers.iter().find(|(other, _)| other == number).map(|(_, line)| line),
        })
    }
}

#[cfg(test)]
mod tests;

use crate::Filter;
use crate::jq::MEMORY;
use crate::jq::results::{Results, ResultsCut};
use crate::jq::sender::LARGEST;
use crate::number::{counted, grouped, portion};
use ctxfs_core::model::{FilterOutcome, Subject};

/// The notices of one run. `read` is the number of bytes that were read.
pub(super) struct FilterNotices<'a> {
    pub(super) filter: &'a Filter,
    pub(super) subject: &'a Subject<'a>,
    pub(super) ended: &'a FilterOutcome,
    pub(super) read: u64,
}

impl FilterNotices<'_> {
    /// Returns the notices, or `None` if the result is complete.
    pub(super) fn text(&self, results: &Results<'_>, cut: Option<ResultsCut>) -> Option<String> {
        if let Some(why) = &results.no_filter {
            return Some(format!("# not a filter: {why}\n"));
        }
        let any = results.count > 0 || cut.is_some();
        let lines = [
            cut.map(|cut| self.cut(results, cut)),
            self.ended(results, any),
            self.broken(results, any),
            self.large(results),
            failures(results),
        ];
        let text: String = lines.iter().flatten().flat_map(|line| ["# ", line, "\n"]).collect();
        (!text.is_empty()).then_some(text)
    }

    fn cut(&self, results: &Results<'_>, cut: ResultsCut) -> String {
        let all = format!("All at once: {}", self.path(&self.filter.at_most(0)));
        match cut {
            ResultsCut::Bytes(bytes) => format!(
                "the first {} of one result follow; all of it would pass 48 KiB. {all}",
                counted(bytes, "byte")
            ),
            ResultsCut::Results(count) => {
                let follow = if count == 1 { "follows" } else { "follow" };
                let on = self.go_on(results).map(|on| format!("{on}    ")).unwrap_or_default();
                format!(
                    "the first {} {follow}; more would pass 48 KiB. {on}{all}",
                    counted(count, "result"),
                )
            }
        }
    }

    // How a run ended that did not end by itself.
    fn ended(&self, results: &Results<'_>, any: bool) -> Option<String> {
        let follows = if any { "; what was found before follows" } else { "" };
        Some(match self.ended {
            FilterOutcome::Enough if results.full && results.is_endless() => {
                let bytes = counted(results.limit(), "byte");
                format!(
                    "stopped: the results pass {bytes}, far more than they are made from{follows}"
                )
            }
            FilterOutcome::Done | FilterOutcome::Enough => return None,
            FilterOutcome::OutOfTime => {
                let read = portion(self.read, self.subject.content.len());
                let on = self.go_on(results).map(|on| format!(". {on}")).unwrap_or_default();
                format!("out of time, {read} read{follows}{on}")
            }
            FilterOutcome::OutOfMemory => format!(
                "the filter needs more than the {} MiB of memory that it may have{follows}",
                MEMORY >> 20
            ),
            FilterOutcome::TooDeep => format!("the filter recurses too deeply{follows}"),
            FilterOutcome::Failed(why) => format!("the filter failed ({why}){follows}"),
            FilterOutcome::Unavailable => "filters cannot run here".to_owned(),
        })
    }

    fn broken(&self, results: &Results<'_>, any: bool) -> Option<String> {
        let (offset, line) = results.broken?;
        let follows = if any {
            "what was found before follows".to_owned()
        } else {
            format!("nothing was found before. What it is: {}.summary", self.subject.place.file())
        };
        Some(format!(
            "not JSON from line {} on (byte {}): {follows}",
            grouped(line),
            grouped(offset)
        ))
    }

    fn large(&self, results: &Results<'_>) -> Option<String> {
        let line = grouped(results.first_large);
        let what = match results.large {
            0 => return None,
            1 => format!("the value on line {line} is left out: it has"),
            more => {
                format!(
                    "{} values, the first on line {line}, are left out: they have",
                    grouped(more)
                )
            }
        };
        let file = self.subject.place.file();
        Some(format!(
            "{what} more than {} MiB, the most that a filter is given at once. Begin with a path to \
             smaller ones and a pipe, as {file}.jq/.items[] | ...; {file}.shape has the paths",
            LARGEST >> 20
        ))
    }

    // How to get the values that were not all seen, unless that would begin where this run did.
    fn go_on(&self, results: &Results<'_>) -> Option<String> {
        let options = self.filter.options();
        let first = options.from.unwrap_or(1);
        let alone = options.slurp || options.null_input;
        let on = self.filter.from(results.line);
        let left = options.max.filter(|max| *max > 0).map(|max| max.saturating_sub(results.count));
        let on = left.map_or(on.clone(), |left| on.at_most(left.max(1)));
        let further = results.line > first && !alone;
        further.then(|| format!("Go on with line {}: {}", grouped(results.line), self.path(&on)))
    }

    fn path(&self, filter: &Filter) -> String {
        format!("{}.jq/{filter}", self.subject.place.file())
    }
}

fn failures(results: &Results<'_>) -> Option<String> {
    let (line, why) = results.first_failure.as_ref()?;
    let place = if *line > 0 { format!(" on line {}", grouped(*line)) } else { String::new() };
    Some(match results.failures {
        1 => format!("error{place}: {why}"),
        more => format!("{} errors, the first{place}: {why}", grouped(more)),
    })
}

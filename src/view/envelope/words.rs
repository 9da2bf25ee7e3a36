use crate::envelope::preview::EnvelopePreview;
use crate::envelope::response::{Response, ResponseStatus};
use crate::number::{counted, portion};
use crate::summary::ended;
use ctxfs_core::model::Subject;

const SUBAGENT: &str = "Task";

pub(super) fn text(
    subject: &Subject<'_>,
    response: Option<&Response>,
    kept: &EnvelopePreview,
    tools: &[String],
    over: bool,
) -> String {
    let sentences = [
        Some(ended(subject)),
        response.and_then(reported),
        unread(subject),
        Some(shown(subject, kept, over)),
        response.and_then(left_out),
        Some(format!("All of it: `{}`.", subject.place.file())),
        next_step(tools).filter(|_| over && !subject.analysis.is_binary()),
    ];
    sentences.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

fn reported(response: &Response) -> Option<String> {
    (response.status == ResponseStatus::Error).then(|| "It reports an error.".to_owned())
}

fn unread(subject: &Subject<'_>) -> Option<String> {
    let (read, all) = (subject.analysis.bytes, subject.content.len());
    (read != all).then(|| {
        let portion = portion(read, all);
        format!(
            "There was time to read the first {portion} only: lines are not counted, and what the \
             output says of its own status is not known."
        )
    })
}

fn shown(subject: &Subject<'_>, kept: &EnvelopePreview, over: bool) -> String {
    if subject.analysis.is_binary() {
        return "It is not text, so `preview` shows none of it.".to_owned();
    }
    if over {
        return format!("`preview` has {}.", kept.description());
    }
    "`preview` has all of it.".to_owned()
}

fn left_out(response: &Response) -> Option<String> {
    let named = |(name, size): &(&str, u64)| format!("`{name}` ({})", counted(*size, "byte"));
    let names: Vec<String> = response.left_out.iter().map(named).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("{} {verb} there only.", names.join(" and ")))
}

fn next_step(tools: &[String]) -> Option<String> {
    let has = |tool: &str| tools.iter().any(|name| name == tool);
    let may_have = |tool: &str| tools.is_empty() || has(tool);
    let words = match (has(SUBAGENT), may_have("Read"), may_have("Grep")) {
        (true, ..) => "have a subagent (Task) process that file, rather than reading it yourself",
        (_, true, true) => "Read that file in pages (offset and limit), or Grep it",
        (_, true, false) => "Read that file in pages (offset and limit)",
        (_, false, true) => "Grep that file",
        (_, false, false) => return None,
    };
    Some(format!("To go on: {words}."))
}

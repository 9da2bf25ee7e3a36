//! Putting findings together, in rounds where they do not fit into one request.

use crate::extract::ModelRequest;
use crate::extract::asking::CallKind;
use crate::extract::inquiry::{Finding, Found, Inquiry};
use crate::extract::mode_error::ModeError;
use crate::extract::prompt::Prompt;
use crate::extract::request_size::needed;
use crate::extract::wrapper::{NOTHING, Wrapper};

/// The most sentences about what there is instead that an answer hands on.
const INSTEAD: usize = 3;

/// The answer that findings make together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reduced {
    /// The text. Begins with [`NOTHING`] if nothing was found.
    pub(super) text: String,
    /// The parts of which nothing is known, as the model kept to no form.
    pub(super) unknown: Vec<String>,
    /// The parts of which the model could not tell all, as it had no tokens left.
    pub(super) cut: Vec<String>,
}

/// Puts the findings of a document together.
pub(super) fn reduce(inquiry: &Inquiry<'_>, findings: Vec<Finding>) -> Result<Reduced, ModeError> {
    let (mut some, mut nothing, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut cut = Vec::new();
    for Finding { part, found, is_cut } in findings {
        cut.extend(is_cut.then(|| part.clone()));
        match found {
            Found::Something(text) => some.push((part, text)),
            Found::Nothing(text) => nothing.push(text),
            Found::NoForm => unknown.push(part),
        }
    }
    if some.is_empty() && nothing.is_empty() && !unknown.is_empty() {
        return Err(inquiry.no_answer(!cut.is_empty()));
    }
    while some.len() > 1 {
        some = round(inquiry, &some, &mut cut)?;
    }
    let text = some.pop().map_or_else(|| without(&nothing), |(_, text)| text);
    Ok(Reduced { text, unknown, cut })
}

/// Puts as many findings together at a time as fit into a request. Adds to `cut` what a reply could
/// not tell all of.
fn round(
    inquiry: &Inquiry<'_>,
    findings: &[(String, String)],
    cut: &mut Vec<String>,
) -> Result<Vec<(String, String)>, ModeError> {
    let before = findings.len();
    let mut rest = findings;
    let mut together = Vec::new();
    while !rest.is_empty() {
        let count = fitting(inquiry, rest);
        let (now, later) = rest.split_at(count);
        together.push(one(inquiry, now, cut)?);
        rest = later;
    }
    if together.len() == before {
        let target = inquiry.model.profile().target.clone();
        return Err(ModeError::Unreducible { target, parts: before });
    }
    Ok(together)
}

/// Returns how many of the findings fit into one request: one at least.
fn fitting(inquiry: &Inquiry<'_>, findings: &[(String, String)]) -> usize {
    let context = inquiry.model.profile().context_tokens;
    let fits = |count: &usize| {
        needed(&request(inquiry, &inquiry.wrapper(), &findings[..*count])) <= context
    };
    (2..=findings.len()).take_while(fits).last().unwrap_or(1)
}

fn one(
    inquiry: &Inquiry<'_>,
    findings: &[(String, String)],
    cut: &mut Vec<String>,
) -> Result<(String, String), ModeError> {
    if let [alone] = findings {
        return Ok(alone.clone());
    }
    let wrapper = inquiry.wrapper();
    let request = request(inquiry, &wrapper, findings);
    let reply = inquiry.wrapped(CallKind::Reduce, request, &wrapper)?;
    let text = reply.answer.ok_or_else(|| inquiry.no_answer(reply.is_cut))?;
    cut.extend(reply.is_cut.then(|| parts(findings)));
    Ok((parts(findings), text))
}

fn request(
    inquiry: &Inquiry<'_>,
    wrapper: &Wrapper,
    findings: &[(String, String)],
) -> ModelRequest {
    let text: Vec<String> =
        findings.iter().map(|(part, text)| format!("[{part}]\n{text}")).collect();
    let more = [("parts", &*parts(findings)), ("text", &*text.join("\n\n"))];
    inquiry.request((Prompt::ReduceSystem, Prompt::Reduce), wrapper, &more)
}

/// Returns the parts that findings are of, as in `part 3 of 7 to part 5 of 7`.
fn parts(findings: &[(String, String)]) -> String {
    match findings {
        [] => String::new(),
        [(only, _)] => only.clone(),
        [(first, _), .., (last, _)] => {
            let first = first.split(" to ").next().unwrap_or(first);
            let last = last.rsplit(" to ").next().unwrap_or(last);
            format!("{first} to {last}")
        }
    }
}

/// Returns the answer if no part has anything that was asked for.
fn without(nothing: &[String]) -> String {
    let mut said: Vec<&str> = Vec::new();
    for text in nothing {
        let text = text.trim_matches(['*', '`', '"', ' ']);
        let instead = text.strip_prefix(NOTHING).unwrap_or(text);
        let instead = instead.trim_start_matches(|c: char| !c.is_alphanumeric()).trim();
        if !instead.is_empty() && !said.contains(&instead) {
            said.push(instead);
        }
    }
    let left = said.len().saturating_sub(INSTEAD);
    said.truncate(INSTEAD);
    let mut text = format!("{NOTHING}. All of the output was read.");
    if !said.is_empty() {
        text = format!("{text} Instead: {}", said.join(" "));
    }
    if left > 0 {
        text = format!("{text} ({left} more such sentences)");
    }
    text
}

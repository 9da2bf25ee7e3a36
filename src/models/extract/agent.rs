//! The reading agent: a model that looks into a document until it can answer.
//!
//! Models with tool calls have tools ([`by_calls`]); others say with one JSON object a turn what
//! they want to see ([`by_actions`]).

pub(super) mod by_actions;
pub(super) mod by_calls;

use std::collections::BTreeSet;

use crate::extract::first_look::FirstLook;
use crate::extract::inquiry::Inquiry;
use crate::extract::look::{LineForm, Look, LookResult};
use crate::extract::mode_error::ModeError;
use crate::extract::request_size::needed;
use crate::extract::{DocumentError, ModelRequest, ToolUse, Turn};

/// The looks after which the agent gives up if none has shown a line.
const BARREN: u32 = 3;
/// What stands for a result that makes room for later ones.
const LEFT_OUT: &str = "(left out, to make room)";

/// The answer of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentAnswer {
    /// The text. Begins with the words for nothing if nothing was found.
    pub(super) text: String,
    /// The numbers of the lines that it names, which need not be there.
    pub(super) lines: Vec<u64>,
    /// The looks that it took, as in `grep disk full`.
    pub(super) looks: Vec<String>,
    /// True if the model had no tokens left to tell all of it.
    pub(super) is_cut: bool,
}

/// Answers a question by looking into the document in a form.
pub(super) fn answer(inquiry: &Inquiry<'_>, form: LineForm) -> Result<AgentAnswer, ModeError> {
    let profile = inquiry.model.profile();
    let first = FirstLook::take(inquiry.document, form, inquiry.question)?;
    let desired = profile.tools;
    if desired != ToolUse::None
        && let Some(answer) = by_calls::answer(inquiry, form, &first, desired == ToolUse::Native)?
    {
        return Ok(answer);
    }
    by_actions::answer(inquiry, form, &first)
}

/// The looks of one question.
#[derive(Debug)]
struct LookLog {
    /// That with which the agent begins.
    first: Look,
    taken: Vec<Look>,
    /// The numbers of the lines that were shown.
    shown: BTreeSet<u64>,
    /// How many looks in a row showed none but these.
    barren: u32,
}

impl LookLog {
    fn new(first: &FirstLook) -> Self {
        let shown = first.seen.lines.iter().map(|line| line.number).collect();
        Self { first: first.look.clone(), taken: Vec::new(), shown, barren: 0 }
    }

    /// Returns true after a look that showed known lines alone, or after [`BARREN`] that showed no
    /// line.
    fn is_exhausted(&self) -> bool {
        self.barren >= if self.shown.is_empty() { BARREN } else { 1 }
    }

    /// Takes a look. One that was taken before goes on where it was cut.
    fn take(
        &mut self,
        inquiry: &Inquiry<'_>,
        form: LineForm,
        look: Look,
    ) -> Result<LookResult, DocumentError> {
        let mut look = Some(look);
        while let Some(known) = look.as_ref().filter(|look| self.taken.contains(look)) {
            look = known.next();
        }
        self.barren += 1;
        let Some(look) = look else {
            let note = "You have looked there already: look in another way.".to_owned();
            return Ok(LookResult { notes: vec![note], ..LookResult::default() });
        };
        let seen = look.at(inquiry.document, form)?;
        let before = self.shown.len();
        self.shown.extend(seen.lines.iter().map(|line| line.number));
        if self.shown.len() > before {
            self.barren = 0;
        }
        self.taken.push(look);
        Ok(seen)
    }

    /// Returns the looks as an answer names them.
    fn named(&self) -> Vec<String> {
        [&self.first].into_iter().chain(&self.taken).map(ToString::to_string).collect()
    }
}

/// Leaves out the oldest results until request and reply fit into the context.
fn make_room(request: &mut ModelRequest, context: u64) {
    for at in 1..request.turns.len().saturating_sub(1) {
        if needed(request) <= context {
            return;
        }
        match &mut request.turns[at] {
            Turn::Results(results) => {
                for result in results {
                    LEFT_OUT.clone_into(&mut result.text);
                }
            }
            Turn::User(text) => LEFT_OUT.clone_into(text),
            Turn::Model { .. } => {}
        }
    }
}

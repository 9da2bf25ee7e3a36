//! The reading agent: a model that looks into a document until it can answer.
//!
//! Models with tool calls use tools: `by_calls`. Other models request a look with one JSON object per
//! turn: `by_actions`.

pub(super) mod by_actions;
pub(super) mod by_calls;

use crate::extract::inquiry::Inquiry;
use crate::extract::language_model::needed;
use crate::extract::look::{AgentLook, FirstLook, LineForm, LookResult};
use crate::extract::{DocumentError, ModelRequest, Turn};

/// Number of consecutive looks without a line after which the agent gives up.
const BARREN: u32 = 3;
const LEFT_OUT: &str = "(left out, to make room)";

/// Answer of the reading agent. The text begins with [`NOTHING`](crate::extract::prompt::NOTHING)
/// if nothing was found. `lines` are the line numbers that the answer cites. They may not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentAnswer {
    pub(super) text: String,
    pub(super) lines: Vec<u64>,
    pub(super) looks: Vec<String>,
    pub(super) is_cut: bool,
}

#[derive(Debug)]
struct LookLog {
    first: AgentLook,
    taken: Vec<AgentLook>,
    shown: std::collections::BTreeSet<u64>,
    barren: u32,
}

impl LookLog {
    fn new(first: &FirstLook) -> Self {
        let shown = first.seen.lines.iter().map(|line| line.number).collect();
        Self { first: first.look.clone(), taken: Vec::new(), shown, barren: 0 }
    }

    /// Returns true if the last look showed no new line. As long as no line was shown at all,
    /// [`BARREN`] such looks are allowed.
    fn is_exhausted(&self) -> bool {
        self.barren >= if self.shown.is_empty() { BARREN } else { 1 }
    }

    /// Performs a look. A repeated look continues where the earlier one was cut.
    fn take(
        &mut self,
        inquiry: &Inquiry<'_>,
        form: LineForm,
        look: AgentLook,
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

    fn named(&self) -> Vec<String> {
        [&self.first].into_iter().chain(&self.taken).map(ToString::to_string).collect()
    }
}

/// Replaces the oldest results until the request and the reply fit into the context.
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

//! The reading agent: a model that looks into a document until it can answer.
//!
//! A look is a search in the document, or a range of its lines. Models that support tool calls
//! request looks by calls (`by_calls`). Other models send one JSON object per turn (`by_actions`).

pub(super) mod by_actions;
pub(super) mod by_calls;

use std::collections::BTreeMap;

use crate::extract::extraction::ModeError;
use crate::extract::inquiry::Inquiry;
use crate::extract::language_model::needed;
use crate::extract::look::{AgentLook, FirstLook, LineForm, LookResult, NumberedLine};
use crate::extract::{DocumentError, ModelRequest, Turn, full};

/// The agent gives up after this many looks if none of them has shown a line.
const BARREN: u32 = 3;
const LEFT_OUT: &str = "(left out, to make room)";

/// Answer of the reading agent. The text begins with [`NOTHING`](crate::extract::prompt::NOTHING)
/// if nothing was found. `lines` are the line numbers that the answer cites. The document may not
/// have these lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentAnswer {
    pub(super) text: String,
    pub(super) lines: Vec<u64>,
    pub(super) looks: Vec<String>,
    pub(super) is_cut: bool,
}

/// `shown` has the texts of each shown line. A long line has one for each part that was shown.
#[derive(Debug)]
struct LookLog {
    first: AgentLook,
    taken: Vec<AgentLook>,
    shown: BTreeMap<u64, Vec<String>>,
    barren: u32,
}

impl LookLog {
    fn new(first: &FirstLook) -> Self {
        let (first, seen) = (first.look.clone(), &first.seen);
        let mut looks = Self { first, taken: Vec::new(), shown: BTreeMap::new(), barren: 0 };
        looks.show(seen);
        looks
    }

    fn show(&mut self, seen: &LookResult) {
        for NumberedLine { number, text } in &seen.lines {
            let parts = self.shown.entry(*number).or_default();
            if !parts.iter().any(|known| known.contains(&**text)) {
                parts.push(text.clone());
            }
        }
    }

    /// Returns true if no further look is useful: the last look showed no new line, or, if no line
    /// has been shown yet, the last [`BARREN`] looks showed none.
    fn is_exhausted(&self) -> bool {
        self.barren >= if self.shown.is_empty() { BARREN } else { 1 }
    }

    /// Performs a look. If the same range of lines was read before, continues after the part that
    /// was shown. If the same search was made before, or nothing of the range is left, the result
    /// has no lines, and a note asks for a different look.
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
        self.show(&seen);
        if self.shown.len() > before {
            self.barren = 0;
        }
        self.taken.push(look);
        Ok(seen)
    }

    /// Asks about the shown lines in parts, because an answer about all of them was cut. Returns
    /// the answers one below the other, or `None` if they are not whole either.
    fn in_parts(&self, inquiry: &Inquiry<'_>) -> Result<Option<String>, ModeError> {
        let shown = self.shown.iter();
        let lines = shown
            .flat_map(|(number, parts)| parts.iter().map(move |text| format!("{number}: {text}")));
        match full::in_halves(inquiry, &lines.collect::<Vec<_>>(), full::CUT_HALVINGS) {
            Ok(found) => Ok((!found.is_empty()).then(|| found.join("\n"))),
            Err(error) if error.is_stop() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn named(&self) -> Vec<String> {
        [&self.first].into_iter().chain(&self.taken).map(ToString::to_string).collect()
    }
}

/// Replaces the oldest results by [`LEFT_OUT`], until the request and its reply fit into `context`
/// tokens.
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

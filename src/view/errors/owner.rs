//! The test, file or step that an error belongs to, where another line tells it.
//!
//! Programs print it above (a test's name, the path over a linter's rows) or below (`-->`, stack
//! frames). Each rule knows one form. Frames of libraries are passed over.

mod rules;

use std::ops::ControlFlow;

use crate::view::errors::owner::rules::NAMES;
use crate::view::errors::owner::rules::PLACE;
use crate::view::errors::owner::rules::PLACES;
use crate::view::errors::surroundings::Surroundings;

/// Most characters of an owner.
const OWNER_CHARS: usize = 160;

/// A form in which a line tells the owner of an error near it.
struct OwnerRule {
    /// Matches the error lines that it is for. None for all.
    of: Option<&'static str>,
    side: Side,
    /// Most lines between the two.
    within: usize,
    /// Matches the line. Its first group is the owner.
    form: &'static str,
    /// Matches lines of this form that are passed over.
    not: Option<&'static str>,
    /// Matches lines behind which the owner of this error cannot be.
    until: Option<&'static str>,
}

/// Where the owner is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// Returns the owner of an error: the name of a test or step, a place in a file, or both. Returns
/// `None` if nothing but its own line tells one.
pub(in crate::view) fn owner(lines: &Surroundings) -> Option<String> {
    let place = if PLACE.is_match(lines.own()) { None } else { first(&PLACES, lines) };
    let name = first(&NAMES, lines);
    let parts: Vec<String> = name.into_iter().chain(place).collect();
    let text: String = parts.join(", ").chars().take(OWNER_CHARS).collect();
    (!text.is_empty() && !lines.own().contains(&text)).then_some(text)
}

fn first(rules: &[rules::Compiled], lines: &Surroundings) -> Option<String> {
    rules.iter().find_map(|rule| rule.apply(lines))
}

impl rules::Compiled {
    fn apply(&self, lines: &Surroundings) -> Option<String> {
        if self.of.as_ref().is_some_and(|of| !of.is_match(lines.own())) {
            return None;
        }
        match self.side {
            Side::Above => self.find(lines.above()),
            Side::Below => self.find(lines.below()),
        }
    }

    fn find<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Option<String> {
        let found = lines.take(self.within).try_for_each(|line| {
            let passed = self.not.as_ref().is_some_and(|not| not.is_match(line));
            let found = self.form.captures(line).and_then(|groups| groups.get(1));
            if let Some(found) = found.filter(|_| !passed) {
                return ControlFlow::Break(Some(found.as_str().trim().to_owned()));
            }
            let ends = self.until.as_ref().is_some_and(|until| until.is_match(line));
            if ends { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
        });
        found.break_value().flatten()
    }
}
